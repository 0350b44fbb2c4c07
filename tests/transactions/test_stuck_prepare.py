"""What an operator is advised about a decided transaction whose marker a partition refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.rows import Finding
from kafkawire.transactions.verdict.live_case import IdState
from tests.transactions.test_live_case import finding, open_transaction, value

SAME = {"transactional_id": "pay", "source": "coordinator: broker 2", "described": True, "partition": 7}


def stuck(state: str, *, fence: int | None, epoch: int, **word: Any) -> Finding:
    given: dict[str, Any] = {**SAME, "coordinator": 2, **word}
    found = finding(
        IdState(value=value(state), epoch=epoch, **given),
        open_=open_transaction(coordinator_epoch=fence),
        lasting_ms=2500,
        address="h:1",
    )
    assert (found.verdict, found.reason) == ("not_hanging", "stuck_prepare")
    assert (found.action or "").startswith("none: never abort it, ")
    return found


def test_quotes_the_log_line_that_names_the_cause() -> None:
    """As a coordinator of Kafka writes it; and of which broker it is."""
    evidence = stuck("PrepareCommit", fence=5, epoch=3).evidence
    assert evidence[2] == (
        "The partition has seen a marker of coordinator epoch 5, and the coordinator's epoch is 3: the partition "
        "refuses its COMMIT marker (TRANSACTION_COORDINATOR_FENCED)."
    )
    assert evidence[3] == (
        "In the log of broker 2, the coordinator, search for \"Sending pay's transaction marker for partition "
        'orders-0": the line has the error and the coordinator epoch of the marker, and "permanently failed" '
        "where it is not sent again."
    )


@pytest.mark.parametrize("outcome", ["Commit", "Abort"])
def test_a_few_elections_raise_the_coordinators_epoch(outcome: str) -> None:
    action = stuck(f"Prepare{outcome}", fence=5, epoch=3).action
    assert action == (
        f"none: never abort it, {outcome.upper()} is decided and other partitions may have it; the coordinator's epoch "
        "has to rise from 3 to 5: each new leader of __transaction_state-7 raises it by one or more (restart broker 2, "
        f"the coordinator) and sends the {outcome.upper()} again"
    )


def test_a_commit_behind_an_epoch_that_no_election_reaches_is_written_by_hand() -> None:
    action = stuck("PrepareCommit", fence=1_000_000, epoch=3).action or ""
    assert action.split("; ", 1)[1] == (
        "elections of __transaction_state-7 do not raise the epoch from 3 to 1000000, so a COMMIT marker has to be "
        "written to broker 1, the leader of orders-0 (producer id 1000, producer epoch 4, coordinator epoch 1000000): "
        'docs/transactions.md, "A stuck Prepare"'
    )


def test_an_abort_behind_such_an_epoch_is_what_kafkas_tool_writes() -> None:
    action = stuck("PrepareAbort", fence=1_000_000, epoch=3).action or ""
    assert action.endswith(
        "so write the ABORT that is decided: kafka-transactions.sh --bootstrap-server h:1 abort --topic orders "
        "--partition 0 --producer-id 1000 --producer-epoch 4 --coordinator-epoch 1000000"
    )


@pytest.mark.parametrize(("fence", "epoch"), [(None, 3), (3, 3), (5, -1)])
def test_without_a_fence_the_leader_and_the_log_are_looked_at_first(fence: int | None, epoch: int) -> None:
    action = stuck("PrepareCommit", fence=fence, epoch=epoch).action or ""
    assert action.split("; ", 1)[1] == (
        "check that broker 1, the leader of orders-0, is up, read the log of broker 2, the coordinator, then have a "
        "new leader elected for __transaction_state-7 (a restart of the coordinator does that): it sends the COMMIT "
        "again"
    )


def test_what_is_not_known_is_not_named() -> None:
    found = stuck("PrepareCommit", fence=None, epoch=-1, partition=None, coordinator=None)
    assert "In the log of the coordinator, search for" in found.evidence[3]
    assert "elected for its partition of __transaction_state" in (found.action or "")
