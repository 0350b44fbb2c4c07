"""`txn abort` and `txn force-terminate`: what is asked, printed and recorded, and where several are stopped."""

from __future__ import annotations

import csv
import io
import json
import shlex
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.cli import main, txn_ending
from kafkawire.cli.txn_audit_log import default_path
from kafkawire.messages import (
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker
from tests.cli.harmless import harmless
from tests.cli.runner import Run
from tests.cli.terminal import COMMAND
from tests.client.partition_script import END, NAME, START, Coordinator, PartitionBroker, in_thread
from tests.golden import check


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Nothing is recorded in the home of whoever runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def partition() -> Iterator[PartitionBroker]:
    with in_thread(PartitionBroker()) as broker:
        assert isinstance(broker, PartitionBroker)
        yield broker


@pytest.fixture
def three() -> Iterator[PartitionBroker]:
    with in_thread(PartitionBroker(3)) as broker:
        assert isinstance(broker, PartitionBroker)
        yield broker


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    with in_thread(Coordinator(partitions=2)) as broker:
        assert isinstance(broker, Coordinator)
        broker.logs[1].start = -1
        yield broker


def abort(run: Callable[..., Any], broker: PartitionBroker, *more: object, one: bool = True) -> Any:
    which = ("--partition", 0, "--start-offset", START) if one else ()
    return run(
        "txn", "abort", "--bootstrap-server", broker.address, "--topic", "orders", "--confirm-after", 0.01,
        *which, *more,
    )  # fmt: skip


def terminate(run: Callable[..., Any], broker: Coordinator, *more: object, name: str = NAME) -> Any:
    return run(
        "txn", "force-terminate", "--bootstrap-server", broker.address, "--transactional-id", name,
        "--confirm-after", 0.01, *more,
    )  # fmt: skip


def sent(broker: PartitionBroker) -> int:
    return broker.count(WriteTxnMarkersRequest) + broker.count(InitProducerIdRequest)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


# How one is named -----------------------------------------------------------------------------------------------------

NOWHERE = "127.0.0.1:1"


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
        (["--topic", "t", "--partition", 0, "--start-offset", 1, "--force", " "], "say why"),
        (["--topic", "t", "--partition", 0, "--start-offset", -1], "--start-offset: must be at least 0"),
        (["--topic", "t", "--partition", 0, "--producer-id", 1, "--producer-epoch", 40000, "--coordinator-epoch", 0],
         "--producer-epoch: "),
        (["--topic", "t", "--partition", 0, "--start-offset", 1, "--commit"], "No such option"),
        (["--transactional-id", "my orders"], "force-terminate --transactional-id 'my orders'"),
        (["--topic", "t", "--partition", 0, "--start-offset", 1, "--format", "parquet"], "parquet needs a file"),
    ],
)  # fmt: skip
def test_usage(run: Run, arguments: list[object], text: str) -> None:
    result = run("txn", "abort", "--bootstrap-server", NOWHERE, "--yes", *arguments)
    assert (result.code, result.text) == (2, "")
    assert text in result.err
    assert result.err.count("\n") == 1


def test_usage_of_force_terminate(run: Run) -> None:
    assert run("txn", "force-terminate", "--bootstrap-server", NOWHERE, "--yes").code == 2
    where = ("--bootstrap-server", NOWHERE, "--transactional-id", "a")
    assert run("txn", "force-terminate", *where, "--yes", "--format", "parquet").code == 2
    blank = run(
        "txn", "force-terminate", "--bootstrap-server", NOWHERE, "--yes", "--transactional-id", "a", "--force", ""
    )
    assert (blank.code, "say why" in blank.err) == (2, True)


@pytest.mark.parametrize(
    "by", [["--start-offset", START], ["--producer-id", 7, "--producer-epoch", 3, "--coordinator-epoch", 5]]
)
def test_each_way_to_name_one(run: Run, partition: PartitionBroker, by: list[object]) -> None:
    result = abort(run, partition, "--partition", 0, *by, "--yes", one=False)
    assert result.code == 0
    assert json.loads(result.text)["Outcome"] == "aborted"


def test_epochs_that_do_not_fit(run: Run, partition: PartitionBroker) -> None:
    by = ["--producer-id", 7, "--producer-epoch", 3, "--coordinator-epoch", 1_000_000]
    result = abort(run, partition, "--partition", 0, *by, "--yes", one=False)
    assert (result.code, sent(partition)) == (1, 0)
    assert "would fence the coordinator's own markers; it has to be 5" in result.err


# Consent --------------------------------------------------------------------------------------------------------------


def test_a_pipe_is_not_asked(run: Run, partition: PartitionBroker, coordinator: Coordinator, state_home: Path) -> None:
    """It would wait for ever. Nothing is even read."""
    for result in (abort(run, partition), terminate(run, coordinator)):
        assert (result.code, result.text) == (2, "")
        assert "no terminal to confirm on: give --yes" in result.err
    assert not partition.requests
    assert not coordinator.requests
    assert not state_home.exists()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Somebody sits there and types an answer."""

    def sits_there(answer: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        monkeypatch.setattr(txn_ending, "_can_ask", lambda: True)

    return sits_there


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "yes please\n"])
def test_who_does_not_say_yes(answer: str, terminal: Any, capsys: Any) -> None:
    """The question is asked on standard error, made harmless; no is the default."""
    terminal(answer)
    with pytest.raises(txn_ending.NotDone, match="not confirmed: nothing was sent"):
        txn_ending.ask_leave("Abort \x1b[31m?", yes=False)
    assert capsys.readouterr() == ("", "Abort \\x1b[31m? [y/N]: ")


@pytest.mark.parametrize("answer", ["y\n", "YES\n", "y"])
def test_who_says_yes(answer: str, terminal: Any) -> None:
    terminal(answer)
    txn_ending.ask_leave("Abort?", yes=False)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_somebody_is_asked(
    answer: str, code: int, partition: PartitionBroker, coordinator: Coordinator, terminal: Any, capsys: Any
) -> None:
    asked: list[tuple[PartitionBroker, Callable[..., Any], str]] = [
        (partition, abort, "Abort orders-0, offset 40 of producer id 7? [y/N]: "),
        (coordinator, terminate, "End the transaction of orders-service, and lock its producer out? [y/N]: "),
    ]
    for broker, command, question in asked:
        terminal(answer)
        assert command(lambda *arguments: main([str(one) for one in arguments]), broker) == code
        assert sent(broker) == 1 - code
        assert capsys.readouterr().err.startswith(question)


# Dry run --------------------------------------------------------------------------------------------------------------


def test_dry_run_is_the_exact_request(run: Run, partition: PartitionBroker, state_home: Path) -> None:
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


def test_dry_run_of_force_terminate(run: Run, coordinator: Coordinator, state_home: Path) -> None:
    result = terminate(run, coordinator, "--dry-run")
    assert (result.code, sent(coordinator)) == (0, 0)
    row = json.loads(result.text)
    assert (row["Outcome"], row["TransactionState"], row["TopicPartitions"]) == ("dry_run", "Ongoing", "orders-0")
    decoded = run("decode", "InitProducerIdRequest", "--version", row["Request"]["version"], row["Request"]["hex"])
    assert json.loads(decoded.text) == row["Request"]["body"]
    assert not state_home.exists()


def test_dry_run_refuses_what_an_abort_would(run: Run, partition: PartitionBroker) -> None:
    partition.log.timestamp = 2**53
    result = abort(run, partition, "--dry-run")
    assert (result.code, result.text) == (1, "")
    assert "not_hanging (young)" in result.err


# On record ------------------------------------------------------------------------------------------------------------


def test_what_is_recorded(run: Run, partition: PartitionBroker, state_home: Path) -> None:
    partition.log.timestamp = 2**53
    result = abort(run, partition, "--yes", "--force", "told by the \x1b[31mowner")
    path = state_home / "kafkawire" / "txn-audit.jsonl"
    assert default_path() == path
    assert result.err == f"note: recorded in {path}\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert harmless(path.read_text())
    before, after = lines(path)
    assert (before["phase"], after["phase"]) == ("before", "after")
    assert before["id"] == after["id"]
    assert before["time"] <= after["time"]
    assert before["operation"] == "abort"
    assert before["reason"] == "told by the \x1b[31mowner"
    assert before["target"]["reason"] == "young"
    assert before["target"]["evidence"]
    assert before["request"]["body"]["markers"][0]["producerId"] == 7
    assert before["bootstrap_server"] == partition.address
    assert before["user"]
    assert before["host"]
    assert before["result"] is None
    assert (after["result"]["outcome"], after["result"]["marker_offset"]) == ("aborted", END)
    assert after["target"] == before["target"]
    assert not {"finding", "call"} & set(after["result"])  # said once


def test_where_it_is_recorded(run: Run, partition: PartitionBroker, tmp_path: Path, state_home: Path) -> None:
    """A file that is there is kept; one that cannot be written stops it all before anything is sent."""
    mine = tmp_path / "mine.jsonl"
    mine.write_text('{"phase":"mine"}\n')
    for path, code in ((tmp_path / "no" / "folder" / "a.jsonl", 1), (tmp_path, 1), (mine, 0)):
        result = abort(run, partition, "--yes", "--audit-log", path)
        assert (result.code, sent(partition)) == (code, 0 if code else 1)
        assert str(path) in result.err
    assert [line["phase"] for line in lines(mine)] == ["mine", "before", "after"]
    assert not state_home.exists()


def test_what_fails_is_recorded_too(run: Run, partition: PartitionBroker, state_home: Path) -> None:
    partition.log.code = 31
    result = abort(run, partition, "--yes")
    assert result.code == 1
    assert json.loads(result.text)["Outcome"] == "not_written"
    note, error = result.err.splitlines()
    assert note.startswith("note: recorded in ")
    assert error.startswith("error: orders-0, offset 40: not_written: no marker was written: CLUSTER_AUTH")
    assert error.endswith("the principal needs Alter or ClusterAction on the cluster")
    _, after = lines(state_home / "kafkawire" / "txn-audit.jsonl")
    assert after["result"]["outcome"] == "not_written"


def test_force_terminate_is_recorded(run: Run, coordinator: Coordinator, state_home: Path) -> None:
    assert terminate(run, coordinator, "--yes").code == 0
    before, after = lines(state_home / "kafkawire" / "txn-audit.jsonl")
    assert (before["operation"], before["target"]["transactional_id"]) == ("force-terminate", NAME)
    assert before["request"]["body"]["transactionalId"] == NAME
    assert (after["result"]["outcome"], after["result"]["producer"]["producer_epoch"]) == ("terminated", 5)


# All that hang --------------------------------------------------------------------------------------------------------


def test_all_that_hang(run: Run, three: PartitionBroker) -> None:
    result = abort(run, three, "--all-hanging", "--yes", one=False)
    assert result.code == 0
    found = [json.loads(line) for line in result.text.splitlines()]
    assert [(row["Partition"], row["Outcome"]) for row in found] == [(0, "aborted"), (1, "aborted"), (2, "aborted")]
    again = abort(run, three, "--all-hanging", "--yes", one=False)
    assert (again.code, again.text, sent(three)) == (0, "", 3)


def test_all_that_hang_in_one_partition_as_csv(run: Run, three: PartitionBroker) -> None:
    result = abort(run, three, "--all-hanging", "--partition", 1, "--dry-run", "--format", "csv", one=False)
    assert (result.code, sent(three)) == (0, 0)
    (row,) = csv.DictReader(io.StringIO(result.text))
    assert (row["Partition"], row["Outcome"], json.loads(row["Request"])["api"]) == ("1", "dry_run", "WriteTxnMarkers")


def test_what_may_not_be_aborted_is_left(run: Run, three: PartitionBroker) -> None:
    """And told, as find-hanging would."""
    three.logs[1].timestamp = 2**53
    result = abort(run, three, "--all-hanging", "--yes", one=False)
    assert (result.code, sent(three)) == (0, 2)
    three.on[ListTransactionsRequest] = lambda _: None
    result = abort(run, three, "--all-hanging", "--yes", "--timeout", 0.5, one=False)
    assert (result.code, sent(three)) == (4, 2)
    assert "could not be judged" in result.err or "did not list its transactional ids" in result.err


def test_the_first_surprise_stops_it(run: Run, three: PartitionBroker) -> None:
    three.logs[1].code = 52
    result = abort(run, three, "--all-hanging", "--yes", "--format", "json", one=False)
    assert (result.code, sent(three)) == (1, 2)
    assert [row["Outcome"] for row in json.loads(result.text)] == ["aborted", "not_written"]
    assert "TRANSACTION_COORDINATOR_FENCED" in result.err
    assert result.err.endswith("(stopped there: 1 of 3 were aborted)\n")
    assert three.logs[2].start == START


def test_one_that_changed_stops_it(run: Run, three: PartitionBroker) -> None:
    write = three.write_markers

    def and_more(request: WriteTxnMarkersRequest) -> Any:
        three.logs[1].timestamp += 1  # its producer is at work
        return write(request)

    three.on[WriteTxnMarkersRequest] = and_more
    result = abort(run, three, "--all-hanging", "--yes", one=False)
    assert (result.code, sent(three), len(result.text.splitlines())) == (1, 1, 1)
    assert "orders-1, offset 40: nothing was sent: last_timestamp was 1000, and is 1001 now" in result.err


# Through the coordinator ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling", [("force-terminate", "--transactional-id"), ("forceTerminateTransaction", "--transactionalId")]
)
def test_both_spellings(run: Run, coordinator: Coordinator, spelling: tuple[str, str]) -> None:
    command, option = spelling
    result = run("txn", command, "--bootstrap-server", coordinator.address, option, NAME, "--yes")
    assert result.code == 0
    row = json.loads(result.text)
    assert (row["Outcome"], row["NewProducerEpoch"], row["StillOpen"]) == ("terminated", 5, "")


def test_what_still_hangs_is_named(run: Run, coordinator: Coordinator) -> None:
    coordinator.logs[1].start = START
    result = terminate(run, coordinator, "--yes")
    assert result.code == 3
    assert json.loads(result.text)["StillOpen"] == "orders-1@40 hanging"
    result = terminate(run, coordinator, "--yes", "--format", "table")  # nothing is open at its coordinator now
    assert (result.code, sent(coordinator)) == (3, 1)
    assert "Its coordinator has nothing open" in result.text
    command = f"kafkawire txn abort --bootstrap-server {coordinator.address} --topic orders --partition 1"
    assert f"=> {command} --start-offset 40" in result.text


def test_force_terminate_refuses(run: Run, coordinator: Coordinator) -> None:
    coordinator.states = ["PrepareCommit"]
    result = terminate(run, coordinator, "--yes")
    assert (result.code, result.text, sent(coordinator)) == (1, "", 0)
    assert "COMMIT is decided" in result.err
    coordinator.code = 105
    result = terminate(run, coordinator, "--yes", name="\x1b[31mnobody")
    assert (result.code, sent(coordinator)) == (1, 0)
    assert "that would create it" in result.err
    assert harmless(result.err)


def test_force_terminate_that_fails(run: Run, coordinator: Coordinator) -> None:
    coordinator.refusal = 53
    result = terminate(run, coordinator, "--yes")
    assert (result.code, json.loads(result.text)["Outcome"]) == (1, "not_ended")
    assert "the principal needs Write on transactional id orders-service" in result.err


def test_partitions_that_are_hidden(run: Run, coordinator: Coordinator) -> None:
    """A coordinator leaves out topics that the principal may not Describe; an Ongoing transaction has one at least."""
    describe = coordinator.describe

    def hiding(request: Any) -> Any:
        answer = describe(request)
        return replace(answer, transaction_states=tuple(replace(one, topics=()) for one in answer.transaction_states))

    coordinator.on[DescribeTransactionsRequest] = hiding
    result = terminate(run, coordinator, "--dry-run", "--format", "table")
    assert "timeout 1 s, in topics that the principal may not Describe (coordinator" in result.text


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


# By a second operator -------------------------------------------------------------------------------------------------

BY_PRODUCER = ("--partition", 0, "--producer-id", 7, "--producer-epoch", 3, "--coordinator-epoch", 5)


def marker(epoch: int = 3) -> Any:
    return WritableTxnMarker(producer_id=7, producer_epoch=epoch, coordinator_epoch=5)


@pytest.mark.parametrize("by", [("--partition", 0, "--start-offset", START), BY_PRODUCER], ids=["offset", "producer"])
def test_the_second_operator_learns_that_it_was_done(run: Run, partition: PartitionBroker, by: Any) -> None:
    assert abort(run, partition, *by, "--yes", one=False).code == 0
    again = abort(run, partition, *by, "--yes", one=False)
    assert (again.code, sent(partition)) == (0, 1)
    row = json.loads(again.text)
    assert (row["Outcome"], row["MarkerOffset"], row["LastStableOffset"]) == ("already_aborted", END, END + 1)
    assert (row["ProducerId"], row["ProducerEpoch"], row["CoordinatorEpoch"]) == (7, 3, 5)
    assert row["Request"] is None
    dry = abort(run, partition, *by, "--dry-run", one=False)
    assert (dry.code, json.loads(dry.text)["Outcome"]) == (0, "already_aborted")


def test_what_was_committed_meanwhile_is_an_error(run: Run, partition: PartitionBroker) -> None:
    partition.log.append_marker(marker(), "COMMIT")
    result = abort(run, partition, "--yes")
    assert (result.code, result.text, sent(partition)) == (1, "", 0)
    assert f"already committed: COMMIT marker at offset {END} of orders-0" in result.err


def test_of_all_that_hang_one_was_aborted_by_another_operator_meanwhile(run: Run, three: PartitionBroker) -> None:
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


def test_a_log_that_cannot_be_read_leaves_the_refusal_as_it_is(run: Run, partition: PartitionBroker) -> None:
    partition.log.append_marker(marker())
    partition.log.fetch_code = 29
    result = abort(run, partition, "--yes")
    assert (result.code, result.text) == (1, "")
    assert "orders-0: no transaction is open there that began at offset 40" in result.err


# Refused attempts are on record ---------------------------------------------------------------------------------------


def test_refused_attempts_are_recorded(run: Run, partition: PartitionBroker, state_home: Path) -> None:
    """Who, when, what was asked, and why it was refused."""
    partition.log.timestamp = 2**53
    result = abort(run, partition, "--yes")
    assert result.code == 1
    path = state_home / "kafkawire" / "txn-audit.jsonl"
    assert result.err.startswith(f"note: recorded in {path}\n")
    partition.log.append_marker(marker())
    abort(run, partition, "--yes")
    abort(run, partition, "--partition", 0, "--start-offset", 41, "--yes", "--force", "why", one=False)
    young, done, other = lines(path)
    assert [line["phase"] for line in (young, done, other)] == ["refused"] * 3
    assert len({line["id"] for line in (young, done, other)}) == 3
    assert (young["operation"], young["request"]) == ("abort", None)
    assert young["asked"] == {"topics": ["orders"], "partition": 0, "start_offset": START}
    assert (young["target"]["reason"], young["result"]["reason"]) == ("young", "young")
    assert "--force REASON" in young["result"]["text"]
    assert all(young[who] for who in ("time", "user", "host", "version"))
    assert (done["target"], done["result"]["reason"]) == (None, "already_aborted")
    assert f"ABORT marker at offset {END}" in done["result"]["text"]
    assert (other["reason"], other["asked"]["start_offset"]) == ("why", 41)


def test_dry_runs_that_are_refused_are_not_recorded(run: Run, partition: PartitionBroker, state_home: Path) -> None:
    partition.log.timestamp = 2**53
    assert abort(run, partition, "--dry-run").code == 1
    assert not state_home.exists()


def test_what_is_not_confirmed_is_recorded(
    partition: PartitionBroker, coordinator: Coordinator, terminal: Any, state_home: Path
) -> None:
    for broker, command in ((partition, abort), (coordinator, terminate)):
        terminal("n\n")
        assert command(lambda *arguments: main([str(one) for one in arguments]), broker) == 1
    aborting, ending = lines(state_home / "kafkawire" / "txn-audit.jsonl")
    assert (aborting["result"]["reason"], aborting["target"]["producer_id"]) == ("not_confirmed", 7)
    assert (ending["result"]["reason"], ending["asked"]) == ("not_confirmed", {"transactional_id": NAME})
    assert ending["target"]["state"] == "Ongoing"


def test_a_refused_force_terminate_is_recorded(run: Run, coordinator: Coordinator, state_home: Path) -> None:
    coordinator.states = ["PrepareCommit"]
    assert terminate(run, coordinator, "--yes").code == 1
    coordinator.states = ["Empty"]
    assert terminate(run, coordinator, "--yes").code == 3  # in the partition, it hangs
    stuck, over = lines(state_home / "kafkawire" / "txn-audit.jsonl")
    assert (stuck["phase"], stuck["operation"]) == ("refused", "force-terminate")
    assert (stuck["asked"], stuck["result"]["reason"]) == ({"transactional_id": NAME}, "stuck_prepare")
    assert (over["phase"], over["result"]["reason"]) == ("refused", "nothing_open")


# Read by people -------------------------------------------------------------------------------------------------------


def test_what_abort_prints(run: Run, partition: PartitionBroker) -> None:
    """Reviewed by eye: evidence, the request, what came of it."""
    dry = abort(run, partition, "--dry-run", "--format", "table", "--max-transaction-timeout", 15)
    done = abort(run, partition, "--yes", "--format", "table")
    again = abort(run, partition, "--yes", "--format", "table")
    assert (dry.code, done.code, again.code) == (0, 0, 0)
    assert again.err.startswith("note: recorded in ")
    check("txn/abort.txt", _steady(f"{dry.text}----\n{done.text}----\n{again.text}", partition))


def test_what_force_terminate_prints(run: Run, coordinator: Coordinator) -> None:
    """Reviewed by eye."""
    coordinator.logs[1].start = START
    done = terminate(run, coordinator, "--yes", "--format", "table")
    assert done.code == 3
    check("txn/force_terminate.txt", _steady(done.text, coordinator))


def _steady(text: str, broker: PartitionBroker) -> str:
    """Without what is different from run to run: the port, and ages."""
    import re

    return re.sub(r"batch is [\dh d]+ old", "batch is LONG old", text.replace(broker.address, "HOST:PORT"))


@pytest.mark.slow
@pytest.mark.parametrize("one", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda one: one.name)
def test_who_is_ended_after_sending_says_so(partition: PartitionBroker, tmp_path: Path, one: signal.Signals) -> None:
    """Between the marker and its answer: nobody knows what came of it, and that is on record."""
    sent_it = threading.Event()

    def silent(_: Any) -> Any:
        sent_it.set()
        return ...

    partition.on[WriteTxnMarkersRequest] = silent
    log = tmp_path / "audit.jsonl"
    which = ("--topic", "orders", "--partition", "0", "--start-offset", str(START), "--confirm-after", "0.01")
    line = ("txn", "abort", "--bootstrap-server", partition.address, *which, "--yes", "--audit-log", str(log))
    with subprocess.Popen([*COMMAND, *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert sent_it.wait(60)
        process.send_signal(one)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + one
    assert out == b""
    assert err.decode() == f"note: recorded in {log}\n"
    before, after = lines(log)
    assert (before["phase"], before["result"], after["phase"]) == ("before", None, "after")
    assert (after["id"], after["result"]["outcome"]) == (before["id"], "not_verified")
    name = "CancelledError" if one is signal.SIGINT else one.name
    assert after["result"]["problem"] == f"interrupted ({name}): whether it was carried out is not known"
