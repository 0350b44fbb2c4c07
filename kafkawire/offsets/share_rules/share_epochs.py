"""The epochs of a share partition go on as its coordinator counts them."""

from __future__ import annotations

from kafkawire.messages import ShareUpdateValue
from kafkawire.offsets.share_rules.share_rule import BEGIN, ShareStep, StepRule
from kafkawire.transactions.answers import Tally


def _problem(step: ShareStep) -> str | None:
    before, after = step.step.before, step.step.after
    value = step.step.record.value
    if before is None or after is None:
        return None
    if isinstance(value, ShareUpdateValue):
        if value.snapshot_epoch != before.snapshot_epoch:
            return f"an update of snapshot epoch {value.snapshot_epoch}, and the snapshot has {before.snapshot_epoch}"
    elif after.snapshot_epoch != before.snapshot_epoch + 1:
        return f"snapshot epoch {after.snapshot_epoch} follows {before.snapshot_epoch}"
    if after.state_epoch < before.state_epoch:
        return f"the state epoch goes back from {before.state_epoch} to {after.state_epoch}"
    if not step.step.restarted and after.leader_epoch < before.leader_epoch:
        return f"the leader epoch goes back from {before.leader_epoch} to {after.leader_epoch}"
    return None


def _judge(step: ShareStep, tally: Tally) -> None:
    if not step.step.restarted and step.neighbours(tally) is None:
        return
    if step.step.before is None:
        return
    step.judged(tally, _problem(step))


RULE = StepRule(
    name="share_epochs",
    sentence="Snapshots of a share partition are numbered one by one, and its state and leader epochs never go back.",
    source="KIP-932, `ShareCoordinatorShard`",
    judge=_judge,
    faults={
        "snapshot-left-out": (BEGIN, ("snapshot", 0, 2, 1, 1, ())),
        "update-of-another-snapshot": (BEGIN, ("update", 0, 1, 1, 1, ())),
        "state-epoch": (BEGIN, ("snapshot", 0, 1, 0, 1, ((0, 1, 0, 1),))),
        "leader-epoch": (BEGIN, ("update", 0, 0, 1, 4, ()), ("update", 0, 0, 1, 3, ())),
    },
)
