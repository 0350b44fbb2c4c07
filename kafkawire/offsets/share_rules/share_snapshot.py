"""A snapshot has what its updates add up to."""

from __future__ import annotations

from kafkawire.messages import ShareSnapshotValue
from kafkawire.offsets.share_rules.share_rule import BEGIN, ShareStep, StepRule
from kafkawire.share_groups.state_runs import combined, difference
from kafkawire.transactions.answers import Tally


def _judge(step: ShareStep, tally: Tally) -> None:
    value = step.step.record.value
    if not isinstance(value, ShareSnapshotValue):
        return
    found = step.neighbours(tally)
    if found is None:
        return
    before, after = found
    # A snapshot that repeats the state of an idle partition keeps its time; any other holds one more change, too.
    repeats = value.create_timestamp != value.write_timestamp
    expected = combined((), before.runs, max(before.start_offset, after.start_offset))
    for first, last, was, now in difference(expected, after.runs):
        lost = now is None or (was is not None and now.rank < was.rank)
        if lost or repeats:
            has = "nothing" if now is None else f"state {now.state} at delivery {now.deliveries}"
            had = "nothing" if was is None else f"state {was.state} at delivery {was.deliveries}"
            step.breach(tally, f"offsets {first} to {last} have {has} in the snapshot, and {had} by its updates")
            return
    if repeats and after.start_offset != before.start_offset:
        step.breach(tally, f"a snapshot of an idle partition moves the start offset to {after.start_offset}")
        return
    tally.held += 1


_UPDATE = ("update", 0, 0, 1, 1, ((0, 3, 2, 1), (4, 9, 0, 1)))

RULE = StepRule(
    name="share_snapshot",
    sentence="A snapshot of a share partition has what the snapshot and the updates before it add up to.",
    source="KIP-932, `PersisterStateBatchCombiner`",
    judge=_judge,
    faults={
        "left-out": (BEGIN, _UPDATE, ("snapshot", 0, 1, 1, 1, ((0, 3, 2, 1), (4, 7, 0, 1)))),
        "back": (BEGIN, _UPDATE, ("cold", 0, 1, 1, 1, ((0, 3, 2, 1), (4, 8, 0, 1), (9, 9, 0, 0)))),
        "more": (BEGIN, _UPDATE, ("cold", 0, 1, 1, 1, ((0, 3, 2, 1), (4, 9, 0, 1), (10, 10, 0, 1)))),
    },
)
