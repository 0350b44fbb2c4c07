"""`txn force-terminate`: a transaction ended through its coordinator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.messages import (
    DescribeTransactionsRequest,
)
from tests.cli.ending import sent, terminate, without_port_and_ages
from tests.cli.harmless import harmless
from tests.cli.runner import Run
from tests.client.partition_script import NAME, START, Coordinator
from tests.golden import check

pytestmark = pytest.mark.usefixtures("state_home")


NOWHERE = "127.0.0.1:1"


def test_force_terminate_refuses_missing_options_and_an_empty_reason(run: Run) -> None:
    assert run("txn", "force-terminate", "--bootstrap-server", NOWHERE, "--yes").code == 2
    where = ("--bootstrap-server", NOWHERE, "--transactional-id", "a")
    assert run("txn", "force-terminate", *where, "--yes", "--format", "parquet").code == 2
    blank = run(
        "txn", "force-terminate", "--bootstrap-server", NOWHERE, "--yes", "--transactional-id", "a", "--force", ""
    )
    assert (blank.code, "give a reason" in blank.err) == (2, True)


@pytest.mark.parametrize(
    "spelling", [("force-terminate", "--transactional-id"), ("forceTerminateTransaction", "--transactionalId")]
)
def test_command_and_option_have_two_spellings(run: Run, coordinator: Coordinator, spelling: tuple[str, str]) -> None:
    command, option = spelling
    result = run("txn", command, "--bootstrap-server", coordinator.address, option, NAME, "--yes")
    assert result.code == 0
    row = json.loads(result.text)
    assert (row["Outcome"], row["NewProducerEpoch"], row["StillOpen"]) == ("terminated", 5, "")


def test_dry_run_prints_the_request_that_force_terminate_sends(
    run: Run, coordinator: Coordinator, state_home: Path
) -> None:
    result = terminate(run, coordinator, "--dry-run")
    assert (result.code, sent(coordinator)) == (0, 0)
    row = json.loads(result.text)
    assert (row["Outcome"], row["TransactionState"], row["TopicPartitions"]) == ("dry_run", "Ongoing", "orders-0")
    decoded = run("decode", "InitProducerIdRequest", "--version", row["Request"]["version"], row["Request"]["hex"])
    assert json.loads(decoded.text) == row["Request"]["body"]
    assert not state_home.exists()


def test_partitions_that_still_hang_are_reported(run: Run, coordinator: Coordinator) -> None:
    coordinator.logs[1].start = START
    result = terminate(run, coordinator, "--yes")
    assert result.code == 3
    assert json.loads(result.text)["StillOpen"] == "orders-1@40 hanging"
    result = terminate(run, coordinator, "--yes", "--format", "table")  # nothing is open at its coordinator now
    assert (result.code, sent(coordinator)) == (3, 1)
    assert "Its coordinator has nothing open" in result.text
    command = f"kafkawire txn abort --bootstrap-server {coordinator.address} --topic orders --partition 1"
    assert f"=> {command} --start-offset 40" in result.text


def test_refuses_decided_transactions_and_unknown_ids(run: Run, coordinator: Coordinator) -> None:
    coordinator.states = ["PrepareCommit"]
    result = terminate(run, coordinator, "--yes")
    assert (result.code, result.text, sent(coordinator)) == (1, "", 0)
    assert "COMMIT is decided" in result.err
    coordinator.code = 105
    result = terminate(run, coordinator, "--yes", name="\x1b[31mnobody")
    assert (result.code, sent(coordinator)) == (1, 0)
    assert "that would create it" in result.err
    assert harmless(result.err)


def test_missing_right_is_reported(run: Run, coordinator: Coordinator) -> None:
    coordinator.refusal = 53
    result = terminate(run, coordinator, "--yes")
    assert (result.code, json.loads(result.text)["Outcome"]) == (1, "not_ended")
    assert "the principal needs Write on transactional id orders-service" in result.err


def test_hidden_partitions_are_reported(run: Run, coordinator: Coordinator) -> None:
    """A coordinator leaves out topics that the principal may not Describe; an Ongoing transaction has one at least."""
    describe = coordinator.describe

    def hiding(request: Any) -> Any:
        answer = describe(request)
        return replace(answer, transaction_states=tuple(replace(one, topics=()) for one in answer.transaction_states))

    coordinator.on[DescribeTransactionsRequest] = hiding
    result = terminate(run, coordinator, "--dry-run", "--format", "table")
    assert "timeout 1 s, in topics that the principal may not Describe (coordinator" in result.text


def test_output_of_force_terminate(run: Run, coordinator: Coordinator) -> None:
    """Reviewed by eye."""
    coordinator.logs[1].start = START
    done = terminate(run, coordinator, "--yes", "--format", "table")
    assert done.code == 3
    check("txn/force_terminate.txt", without_port_and_ages(done.text, coordinator))


def test_several_ids_are_ended_one_by_one(run: Run, coordinator: Coordinator, state_home: Path) -> None:
    where = ("--bootstrap-server", coordinator.address, "--yes")
    result = run("txn", "force-terminate", *where, "--transactional-id", NAME, "--transactional-id", NAME)
    assert (result.code, sent(coordinator)) == (0, 1)  # the same id once
    coordinator.code = 105
    gone = run("txn", "force-terminate", *where, "--transactional-id", "gone", "--transactional-id", "other")
    assert (gone.code, sent(coordinator)) == (1, 1)
    assert "stopped there: 0 of 2 were ended" in gone.err
    (log,) = state_home.rglob("*.jsonl")
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert [line["phase"] for line in lines] == ["before", "after", "refused"]
    assert lines[-1]["asked"] == {"transactional_id": ["gone", "other"]}


def test_ids_with_a_prefix_are_listed(run: Run, coordinator: Coordinator) -> None:
    where = ("--bootstrap-server", coordinator.address, "--yes")
    none = run("txn", "force-terminate", *where, "--prefix", "nobody-", "--format", "table")
    assert (none.code, none.text.splitlines()[0]) == (0, "No id begins with 'nobody-' and has an open transaction.")
    dry = run("txn", "force-terminate", *where[:2], "--prefix", NAME[:4], "--dry-run")
    assert (dry.code, sent(coordinator)) == (0, 0)
    assert [json.loads(line)["TransactionalId"] for line in dry.text.splitlines()] == [NAME]
    result = run("txn", "force-terminate", *where, "--prefix", NAME[:4])
    assert (result.code, sent(coordinator)) == (0, 1)
    for wrong in (("--prefix", ""), ("--prefix", "a", "--transactional-id", "b")):
        assert run("txn", "force-terminate", *where, *wrong).code == 2
