"""Ending transactions by hand: every verdict, every way to name one, every change between two readings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire.rows import Finding
from kafkawire.transactions.coordinator.coordinator_rules import NEVER, STATES
from kafkawire.transactions.verdict.abort_rules import (
    PartitionAfterAbort,
    Refused,
    TransactionSpec,
    all_hanging,
    choose,
    marker_of,
    missing,
    permit,
    permit_end,
    still_held,
    unchanged,
)
from kafkawire.transactions.verdict.verdicts import HELD, REASONS

HANGING = Finding(
    verdict="hanging",
    reason="transaction_ended",
    blocked=True,
    topic="orders",
    partition=3,
    producer_id=7,
    producer_epoch=2,
    start_offset=40,
    last_timestamp=1000,
    coordinator_epoch=5,
    last_stable_offset=40,
    high_watermark=90,
    action="ACTION",
)
OTHER = replace(HANGING, producer_id=8, start_offset=50)
YES, FORCED, NO = "yes", "forced", "no"

#: Verdict, reason, the coordinator's state -> whether it may be aborted.
PERMITTED = [
    ("hanging", "no_transactional_id", None, YES),
    ("hanging", "transaction_ended", "CompleteCommit", YES),
    ("hanging", "epoch_bumped", "Ongoing", YES),
    ("hanging", "partition_not_in_transaction", "Ongoing", YES),
    ("not_hanging", "live", "Ongoing", NO),
    ("not_hanging", "live", "PrepareCommit", NO),
    ("not_hanging", "late", "Ongoing", NO),
    ("not_hanging", "stuck_prepare", "PrepareCommit", NO),
    ("not_hanging", "stuck_prepare", "PrepareAbort", NO),
    ("not_hanging", "two_phase_commit", "Ongoing", NO),
    ("not_hanging", "ghost", None, NO),
    ("not_hanging", "young", None, FORCED),
    ("unknown", "coverage_incomplete", None, FORCED),
    ("unknown", "coverage_incomplete", "Ongoing", FORCED),
    ("unknown", "coverage_incomplete", "PrepareCommit", NO),
    ("unknown", "coverage_incomplete", "PrepareAbort", NO),
    ("a verdict of tomorrow", "whatever", None, NO),
]


@pytest.mark.parametrize(("verdict", "reason", "state", "allowed"), PERMITTED)
def test_permits_aborts_by_verdict_and_reason(verdict: str, reason: str, state: str | None, allowed: str) -> None:
    finding = replace(HANGING, verdict=verdict, reason=reason, coordinator_state=state)
    for force, wanted in ((False, allowed == YES), (True, allowed in (YES, FORCED))):
        if wanted:
            permit(finding, force=force)
            continue
        with pytest.raises(Refused, match=rf"orders-3, offset 40 is not aborted: {verdict} \({reason}\)") as caught:
            permit(finding, force=force)
        assert "ACTION" in str(caught.value)  # what to do instead
        assert ("--force REASON overrides" in str(caught.value)) == (allowed == FORCED)


def test_every_reason_has_a_permission() -> None:
    """None that a verdict may give is missing above, and nothing that a coordinator holds is ever aborted."""
    assert set(REASONS) <= {(verdict, reason) for verdict, reason, _, _ in PERMITTED}
    assert {allowed for _, reason, _, allowed in PERMITTED if reason in HELD} == {NO}


def named(**by: Any) -> TransactionSpec:
    return TransactionSpec(topic="orders", partition=3, **by)


def epochs(producer: int = 2, coordinator: int = 5) -> dict[str, int]:
    return {"producer_id": 7, "producer_epoch": producer, "coordinator_epoch": coordinator}


@pytest.mark.parametrize("by", [{"start_offset": 40}, epochs()])
def test_chooses_the_named_transaction(by: dict[str, int]) -> None:
    elsewhere = replace(HANGING, partition=4, verdict="unknown")
    assert choose([elsewhere, OTHER, HANGING], named(**by)) is HANGING


@pytest.mark.parametrize(
    ("by", "reason", "text"),
    [
        ({"start_offset": 41}, "not_open", "orders-3: no transaction is open that began at offset 41; open ones began "
         "at 40 (producer id 7, epoch 2), at 50 (producer id 8, epoch 2)"),
        (epochs() | {"producer_id": 9}, "not_open", "orders-3: no transaction is open of producer id 9; open ones"),
        (epochs(producer=1), "other", "orders-3, offset 40: producer id 7 has epoch 2 there, not 1"),
        (epochs(producer=3), "other", "has epoch 2 there, not 3"),
        (epochs(coordinator=4), "other", "of coordinator epoch 4 would be fenced; it has to be 5"),
        (epochs(coordinator=-1), "other", "of coordinator epoch -1 would be fenced; it has to be 5"),
        (epochs(coordinator=6), "other", "would fence the coordinator's own markers; it has to be 5"),
    ],
)  # fmt: skip
def test_refuses_a_transaction_that_is_not_open(by: dict[str, int], reason: str, text: str) -> None:
    with pytest.raises(Refused) as caught:
        choose([HANGING, OTHER], named(**by))
    assert caught.value.reason == reason
    assert text in str(caught.value)


def test_refuses_where_nothing_is_open() -> None:
    with pytest.raises(Refused, match=r"^orders-3: no transaction is open there that began at offset 40$"):
        choose([replace(HANGING, partition=4)], named(start_offset=40))


@pytest.mark.parametrize("seen", [None, -1, 0, 5, 1_000_000])
def test_the_marker_carries_what_the_partition_has_seen(seen: int | None) -> None:
    finding = replace(HANGING, coordinator_epoch=seen)
    marker = marker_of(finding)
    assert (marker.topic, marker.partition, marker.producer_id, marker.producer_epoch) == ("orders", 3, 7, 2)
    assert marker.coordinator_epoch == max(seen or 0, 0)
    printed = -1 if seen is None else seen  # as find-hanging prints it, and Kafka's tool
    assert choose([finding], named(**epochs(coordinator=printed))) is finding
    with pytest.raises(Refused, match="would fence"):
        choose([finding], named(**epochs(coordinator=marker.coordinator_epoch + 1)))


@given(seen=st.integers(-1, 2**31 - 1), given_epoch=st.integers(-1, 2**31 - 1))
def test_no_epoch_is_sent_but_the_one_seen(seen: int, given_epoch: int) -> None:
    finding = replace(HANGING, coordinator_epoch=seen)
    try:
        chosen = choose([finding], named(**epochs(coordinator=given_epoch)))
    except Refused:
        assert max(given_epoch, 0) != max(seen, 0)
    else:
        assert marker_of(chosen).coordinator_epoch == max(given_epoch, 0) == max(seen, 0)


# Between two readings -------------------------------------------------------------------------------------------------


def test_accepts_an_unchanged_transaction() -> None:
    later = replace(HANGING, age_ms=99, high_watermark=95, blocked=False, evidence=("older now",))
    assert unchanged(HANGING, [OTHER, later]) is later


@pytest.mark.parametrize("verdict", ["unknown", "not_hanging"])
def test_a_verdict_that_became_hanging_is_no_change(verdict: str) -> None:
    """A forced abort of what was unknown or young continues; nothing else of it may have changed."""
    before = replace(HANGING, verdict=verdict, reason="whatever")
    assert unchanged(before, [HANGING]) is HANGING
    with pytest.raises(Refused, match="changed since it was checked: last_timestamp was 1000"):
        unchanged(before, [replace(HANGING, last_timestamp=1001)])


def test_refusal_names_the_first_doubt() -> None:
    """Which right is missing, above all."""
    finding = replace(HANGING, verdict="unknown", reason="coverage_incomplete", evidence=("data.", "state.", "DOUBT."))
    with pytest.raises(Refused, match=r"unknown \(coverage_incomplete\): DOUBT; ACTION"):
        permit(finding)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"start_offset": 41}, "changed since it was checked: start_offset was 40, and is 41 now"),
        ({"producer_epoch": 3}, "changed since it was checked: producer_epoch was 2, and is 3 now"),
        ({"coordinator_epoch": 6}, "changed since it was checked: coordinator_epoch was 5, and is 6 now"),
        ({"last_timestamp": 1001}, "changed since it was checked: last_timestamp was 1000, and is 1001 now"),
        (
            {"verdict": "not_hanging", "reason": "live"},
            "changed since it was checked: verdict was hanging, and is not_hanging now",
        ),
        (
            {"reason": "epoch_bumped"},
            "changed since it was checked: reason was transaction_ended, and is epoch_bumped now",
        ),
        ({"producer_id": 9}, "it is not open any more"),
        ({"partition": 9}, "it is not open any more"),
    ],
)
def test_refuses_a_changed_transaction(change: dict[str, Any], text: str) -> None:
    with pytest.raises(Refused, match=f"^orders-3, offset 40: nothing was sent: {text}$") as caught:
        unchanged(HANGING, [replace(HANGING, **change)])
    assert caught.value.reason == ("not_open" if "not open" in text else "changed")


def test_hanging_transactions_are_ordered_by_place_and_offset() -> None:
    findings = [
        replace(HANGING, topic="b", partition=0),
        replace(OTHER, partition=10),
        replace(OTHER, verdict="unknown"),
        OTHER,
        HANGING,
        replace(HANGING, partition=2, verdict="not_hanging", reason="young"),
    ]
    found = [(one.topic, one.partition, one.start_offset) for one in all_hanging(findings)]
    assert found == [("b", 0, 40), ("orders", 3, 40), ("orders", 3, 50), ("orders", 10, 50)]


# Afterwards -----------------------------------------------------------------------------------------------------------

DONE = PartitionAfterAbort(marker_offset=90, last_stable_offset=91, high_watermark=91)


@pytest.mark.parametrize(
    ("seen", "problems"),
    [
        (DONE, []),
        (replace(DONE, start_offset=91, first_open=91), []),  # the producer has begun another one
        (replace(DONE, last_stable_offset=41, first_open=41), []),  # a later one holds it
        (replace(DONE, last_stable_offset=30, first_open=30), []),  # an earlier one always did
        (replace(DONE, last_stable_offset=40), ["the last stable offset is 40"]),
        (replace(DONE, marker_offset=None), ["its marker is not in the log"]),
        (
            PartitionAfterAbort(start_offset=40, first_open=40, last_stable_offset=40, high_watermark=90),
            ["the partition has the transaction open", "its marker is not in the log", "the last stable offset is 40"],
        ),
    ],
)
def test_lists_what_is_missing_after_an_abort(seen: PartitionAfterAbort, problems: list[str]) -> None:
    assert missing(HANGING, seen) == problems


def test_names_the_transaction_that_holds_readers_after_an_abort() -> None:
    assert still_held(HANGING, DONE) == ""
    held = replace(DONE, last_stable_offset=41, first_open=41)
    assert still_held(HANGING, held) == "Another open transaction holds the last stable offset of orders-3, at 41."


# Through the coordinator ----------------------------------------------------------------------------------------------

ENDINGS = {
    "Empty": "nothing",
    "Ongoing": "end",
    "PrepareCommit": "stuck_prepare",
    "PrepareAbort": "stuck_prepare",
    "CompleteCommit": "nothing",
    "CompleteAbort": "nothing",
    "Dead": "state",
    "PrepareEpochFence": "state",
    "UNKNOWN_9": "state",
}


@pytest.mark.parametrize(("state", "expected"), ENDINGS.items())
@pytest.mark.parametrize("force", [False, True])
def test_permits_ending_by_state(state: str, expected: str, force: bool) -> None:
    if expected in ("end", "nothing"):
        assert permit_end("a", state, 1000, force=force) == (expected == "end")
        return
    with pytest.raises(Refused, match=f"transactional id a is {state}") as caught:
        permit_end("a", state, 1000, force=force)
    assert caught.value.reason == expected


def test_every_state_has_a_permission() -> None:
    assert set(STATES.values()) < set(ENDINGS)


def test_ending_a_two_phase_commit_needs_force() -> None:
    with pytest.raises(Refused, match="its owner must commit or abort it") as caught:
        permit_end("a", "Ongoing", NEVER)
    assert caught.value.reason == "two_phase_commit"
    assert permit_end("a", "Ongoing", NEVER, force=True)
