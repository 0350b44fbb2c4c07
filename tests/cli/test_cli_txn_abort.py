"""`txn abort`: how a transaction is named, dry runs, all that hang, a second operator, and the output."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from kafkawire.client.actions import lease
from kafkawire.client.diagnosis.cluster_reading import clock_ms
from kafkawire.messages import (
    DescribeProducersRequest,
    ListTransactionsRequest,
    MetadataRequest,
    WriteTxnMarkersRequest,
)
from tests.cli.ending import abort, lines, marker, sent, without_port_and_ages
from tests.cli.runner import Run
from tests.cli.terminal import COMMAND
from tests.client.answers import OLD
from tests.client.partition_script import END, START, PartitionBroker
from tests.golden import check

pytestmark = pytest.mark.usefixtures("state_home")


NOWHERE = "127.0.0.1:1"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--topic", "t", "--partition", 0], "is named by --start-offset, or by --producer-id"),
        (["--topic", "t", "--partition", 0, "--start-offset", 1, "--coordinator-epoch", 0], "never by both"),
        (["--topic", "t", "--partition", 0, "--start-offset", 1, "--producer-id", 0], "never by both"),
        (["--topic", "t", "--partition", 0, "--producer-id", 1, "--producer-epoch", 0], "and --coordinator-epoch"),
        (["--topic", "t", "--start-offset", 1], "name one --topic and one --partition"),
        (["--topic", "t", "--topic", "u", "--partition", 0, "--start-offset", 1], "name one --topic"),
        (["--partition", 0, "--start-offset", 1], "Missing option '--topic'"),
        (["--topic", "t", "--all-hanging", "--start-offset", 1], "--all-hanging names them all"),
        (["--topic", "t", "--all-hanging", "--producer-id", 1], "--all-hanging names them all"),
        (["--topic", "t", "--all-hanging", "--force", "why"], "--force is for one transaction"),
        (["--topic", "t", "--partition", 0, "--start-offset", 1, "--force", " "], "give a reason"),
        (["--topic", "t", "--partition", 0, "--start-offset", -1], "--start-offset: must be at least 0"),
        (["--topic", "t", "--partition", 0, "--producer-id", 1, "--producer-epoch", 40000, "--coordinator-epoch", 0],
         "--producer-epoch: "),
        (["--topic", "t", "--partition", 0, "--start-offset", 1, "--commit"], "No such option"),
        (["--transactional-id", "my orders"], "force-terminate --transactional-id 'my orders'"),
        (["--topic", "t", "--partition", 0, "--start-offset", 1, "--format", "parquet"], "--format: 'parquet' is"),
    ],
)  # fmt: skip
def test_abort_refuses_options_that_name_no_transaction(run: Run, arguments: list[object], text: str) -> None:
    result = run("txn", "abort", "--bootstrap-server", NOWHERE, "--yes", *arguments)
    assert (result.code, result.text) == (2, "")
    assert text in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    "by", [["--start-offset", START], ["--producer-id", 7, "--producer-epoch", 3, "--coordinator-epoch", 5]]
)
def test_abort_takes_a_start_offset_or_a_producer(run: Run, partition: PartitionBroker, by: list[object]) -> None:
    result = abort(run, partition, "--partition", 0, *by, "--yes", one=False)
    assert result.code == 0
    assert json.loads(result.text)["Outcome"] == "aborted"


def test_abort_refuses_another_coordinator_epoch(run: Run, partition: PartitionBroker) -> None:
    by = ["--producer-id", 7, "--producer-epoch", 3, "--coordinator-epoch", 1_000_000]
    result = abort(run, partition, "--partition", 0, *by, "--yes", one=False)
    assert (result.code, sent(partition)) == (1, 0)
    assert "would fence the coordinator's own markers; it has to be 5" in result.err


# Dry run --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_dry_run_prints_the_request_that_abort_sends(run: Run, partition: PartitionBroker, state_home: Path) -> None:
    result = abort(run, partition, "--dry-run")
    assert (result.code, sent(partition)) == (0, 0)
    row = json.loads(result.text)
    assert (row["Outcome"], row["Verdict"], row["MarkerOffset"]) == ("dry_run", "hanging", None)
    request = row["Request"]
    assert (request["broker_id"], request["address"]) == (1, partition.address)
    version = ("--version", request["version"])
    decoded = run("decode", "WriteTxnMarkersRequest", *version, request["hex"])
    assert json.loads(decoded.text) == request["body"]
    assert not state_home.exists()
    abort(run, partition, "--yes")
    (body,) = [one for one in partition.requests if isinstance(one, WriteTxnMarkersRequest)]
    assert body.encode(version=request["version"]).hex() == request["hex"]


def test_dry_run_refuses_what_abort_refuses(run: Run, partition: PartitionBroker) -> None:
    partition.log.timestamp = clock_ms()
    result = abort(run, partition, "--dry-run")
    assert (result.code, result.text) == (1, "")
    assert "not_hanging (young)" in result.err


# --all-hanging --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_all_hanging_aborts_each_hanging_transaction_once(run: Run, three: PartitionBroker) -> None:
    result = abort(run, three, "--all-hanging", "--yes", one=False)
    assert result.code == 0
    found = [json.loads(line) for line in result.text.splitlines()]
    assert [(row["Partition"], row["Outcome"]) for row in found] == [(0, "aborted"), (1, "aborted"), (2, "aborted")]
    again = abort(run, three, "--all-hanging", "--yes", one=False)
    assert (again.code, again.text, sent(three)) == (0, "", 3)


def test_all_hanging_is_limited_to_a_partition_and_prints_csv(run: Run, three: PartitionBroker) -> None:
    result = abort(run, three, "--all-hanging", "--partition", 1, "--dry-run", "--format", "csv", one=False)
    assert (result.code, sent(three)) == (0, 0)
    (row,) = csv.DictReader(io.StringIO(result.text))
    assert (row["Partition"], row["Outcome"], json.loads(row["Request"])["api"]) == ("1", "dry_run", "WriteTxnMarkers")


@pytest.mark.slow
def test_all_hanging_leaves_and_reports_what_may_not_be_aborted(run: Run, three: PartitionBroker) -> None:
    """And reported, as by find-hanging."""
    three.logs[1].timestamp = clock_ms()
    result = abort(run, three, "--all-hanging", "--yes", one=False)
    assert (result.code, sent(three)) == (0, 2)
    three.on[ListTransactionsRequest] = lambda _: None
    result = abort(run, three, "--all-hanging", "--yes", "--timeout", 0.5, one=False)
    assert (result.code, sent(three)) == (4, 2)
    assert "could not be judged" in result.err or "did not list its transactional ids" in result.err


def test_all_hanging_stops_at_the_first_failure(run: Run, three: PartitionBroker) -> None:
    three.logs[1].code = 52
    result = abort(run, three, "--all-hanging", "--yes", "--format", "json", one=False)
    assert (result.code, sent(three)) == (1, 2)
    assert [row["Outcome"] for row in json.loads(result.text)] == ["aborted", "not_written"]
    assert "TRANSACTION_COORDINATOR_FENCED" in result.err
    assert result.err.endswith("(stopped there: 1 of 3 were aborted)\n")
    assert three.logs[2].start == START


def test_all_hanging_stops_at_a_transaction_that_changed(run: Run, three: PartitionBroker) -> None:
    write = three.write_markers

    def and_more(request: WriteTxnMarkersRequest) -> Any:
        three.logs[1].timestamp += 1  # its producer is at work
        return write(request)

    three.on[WriteTxnMarkersRequest] = and_more
    result = abort(run, three, "--all-hanging", "--yes", one=False)
    assert (result.code, sent(three), len(result.text.splitlines())) == (1, 1, 1)
    assert (
        f"orders-1, offset 40: nothing was sent: changed since it was checked: last_timestamp was {OLD}" in result.err
    )


# A second operator ----------------------------------------------------------------------------------------------------


BY_PRODUCER = ("--partition", 0, "--producer-id", 7, "--producer-epoch", 3, "--coordinator-epoch", 5)


@pytest.mark.slow
@pytest.mark.parametrize("by", [("--partition", 0, "--start-offset", START), BY_PRODUCER], ids=["offset", "producer"])
def test_a_second_abort_reports_already_aborted(run: Run, partition: PartitionBroker, by: Any) -> None:
    assert abort(run, partition, *by, "--yes", one=False).code == 0
    again = abort(run, partition, *by, "--yes", one=False)
    assert (again.code, sent(partition)) == (0, 1)
    row = json.loads(again.text)
    assert (row["Outcome"], row["MarkerOffset"], row["LastStableOffset"]) == ("already_aborted", END, END + 1)
    assert (row["ProducerId"], row["ProducerEpoch"], row["CoordinatorEpoch"]) == (7, 3, 5)
    assert row["Request"] is None
    dry = abort(run, partition, *by, "--dry-run", one=False)
    assert (dry.code, json.loads(dry.text)["Outcome"]) == (0, "already_aborted")


def test_a_transaction_that_was_committed_is_an_error(run: Run, partition: PartitionBroker) -> None:
    partition.log.append_marker(marker(), "COMMIT")
    result = abort(run, partition, "--yes")
    assert (result.code, result.text, sent(partition)) == (1, "", 0)
    assert f"already committed: COMMIT marker at offset {END} of orders-0" in result.err


def test_all_hanging_reports_one_that_was_aborted_elsewhere(run: Run, three: PartitionBroker) -> None:
    write = three.write_markers

    def and_another(request: WriteTxnMarkersRequest) -> Any:
        if three.logs[1].start == START:
            three.logs[1].append_marker(marker())
        return write(request)

    three.on[WriteTxnMarkersRequest] = and_another
    result = abort(run, three, "--all-hanging", "--yes", one=False)
    assert (result.code, sent(three)) == (0, 2)
    found = [json.loads(line) for line in result.text.splitlines()]
    assert [row["Outcome"] for row in found] == ["aborted", "already_aborted", "aborted"]


def test_an_unreadable_log_does_not_change_the_refusal(run: Run, partition: PartitionBroker) -> None:
    partition.log.append_marker(marker())
    partition.log.fetch_code = 29
    result = abort(run, partition, "--yes")
    assert (result.code, result.text) == (1, "")
    assert "orders-0: no transaction is open there that began at offset 40" in result.err


# A process that is suspended ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no SIGSTOP here")
@pytest.mark.parametrize("kind", [MetadataRequest, DescribeProducersRequest], ids=lambda kind: kind.spec.name)
def test_a_process_that_was_suspended_before_the_marker_judges_again(
    partition: PartitionBroker, tmp_path: Path, kind: type
) -> None:
    """It is stopped when the marker is recorded and a broker has answered. The application goes on, and after more than
    a second the process does: its answer is from before."""
    log, usual = tmp_path / "audit.jsonl", partition.on[kind]
    stopped: list[float] = []

    def stop(request: Any) -> Any:
        answer = usual(request)
        if log.exists() and log.stat().st_size and not stopped:
            stopped.append(time.monotonic())
            os.kill(process.pid, signal.SIGSTOP)
            partition.log.timestamp += 1  # a batch of the next transaction
            threading.Timer(lease.LIMIT_S + 0.2, os.kill, (process.pid, signal.SIGCONT)).start()
        return answer

    partition.on[kind] = stop
    which = ("--topic", "orders", "--partition", "0", "--start-offset", str(START), "--confirm-after", "0.01")
    line = ("txn", "abort", "--bootstrap-server", partition.address, *which, "--yes", "--audit-log", str(log))
    with subprocess.Popen([*COMMAND, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)
    assert stopped
    assert (process.returncode, out, sent(partition)) == (1, b"", 0)
    assert (
        b"nothing was sent: changed since it was checked: last_timestamp was %d, and is %d now" % (OLD, OLD + 1) in err
    )
    before, after, refused = lines(log)
    assert (before["phase"], after["phase"], after["result"]["outcome"]) == ("before", "after", "not_sent")
    assert (refused["phase"], refused["result"]["reason"]) == ("refused", "changed")


# Output ---------------------------------------------------------------------------------------------------------------


def test_proposed_commands_reach_the_cluster_as_this_one_did(
    run: Run, partition: PartitionBroker, tmp_path: Path
) -> None:
    config = tmp_path / "my client.properties"
    config.write_text("client.id=night\n")
    where = ("--bootstrap-server", partition.address, "--command-config", config)
    found = run("txn", "find-hanging", *where, "--confirm-after", 0.01, "--format", "json")
    (finding,) = json.loads(found.text)["findings"]
    words = shlex.split(finding["action"])
    assert words[:2] == ["kafkawire", "txn"]
    assert words[words.index("--command-config") + 1] == str(config)
    done = run(*words[1:], "--yes", "--confirm-after", 0.01)
    assert (done.code, sent(partition)) == (0, 1)


def test_output_of_abort(run: Run, partition: PartitionBroker) -> None:
    """Reviewed by eye: evidence, the request, the result."""
    dry = abort(run, partition, "--dry-run", "--format", "table", "--max-transaction-timeout", 15)
    done = abort(run, partition, "--yes", "--format", "table")
    again = abort(run, partition, "--yes", "--format", "table")
    assert (dry.code, done.code, again.code) == (0, 0, 0)
    assert again.err.startswith("note: recorded in ")
    check("txn/abort.txt", without_port_and_ages(f"{dry.text}----\n{done.text}----\n{again.text}", partition))
