"""`ShareHistory`: the fates of offsets that have left the state, those below the start offset, by its records. Pure, in
two passes.

The first pass folds (`ShareHistory.take`); the second walks over the same steps and gives the runs that were dropped,
in the order of their offsets (`ShareHistory.finished`). So the history of a group is never in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkawire.share_groups.delivery_states import AVAILABLE
from kafkawire.share_groups.fold import ShareState, Step
from kafkawire.share_groups.state_runs import Run

#: The most restarts of one share partition that are kept; earlier ones count as one.
MOST_RESTARTS = 10_000


class ShareHistory:
    """The steps of one share partition.

    Attributes:
        state: after the last step; None: it was deleted, or never there.
        from_start: the first record is that with which the state began, so that nothing before it is missing.
        begun_at: the lowest offset at which the group began, by these records; None: no record has one.
        skipped: offsets that an administrator's reset left out: first, and the one after the last.
        limit_at_least: the delivery count limit is not lower, by the counts of records that were made available again.
        restarts: how often the state began: with the group, and each time that an administrator set its offset, or
            deleted it.
        steps: their number. first_offset: of the first record.
    """

    def __init__(self) -> None:
        self.state: ShareState | None = None
        self.from_start = False
        self.begun_at: int | None = None
        self.skipped: list[tuple[int, int]] = []
        self.limit_at_least = 0
        self.restarts = 0
        self.steps = 0
        self.first_offset: int | None = None
        self._restarts: list[tuple[int, int]] = []

    def take(self, step: Step) -> None:
        """Take the next step."""
        if not self.steps:
            # Of a log whose front was removed, one that is not numbered 0 is an administrator's reset.
            reset = step.first_seen and step.after is not None and step.after.snapshot_epoch > 0
            self.from_start = (step.restarted or step.record.value is None) and not reset
            self.first_offset = step.record.offset
        self.steps += 1
        before, after = step.before, step.after
        self.state = after
        self.restarts += step.restarted or after is None
        for run in step.record.runs:
            # What was made available again may be delivered once more; an acknowledgement is within the limit.
            more = 1 if run.state == AVAILABLE else 0
            self.limit_at_least = max(self.limit_at_least, run.deliveries + more)
        if after is None:
            self._restart(step.record.offset, None)
            return
        start = after.start_offset
        if step.restarted and start >= 0:
            self._restart(step.record.offset, start)
            if before is not None and 0 <= before.start_offset < start:
                self.skipped.append((before.start_offset, start))
        if start >= 0 and (self.begun_at is None or start < self.begun_at):
            self.begun_at = start

    def _restart(self, offset: int, start: int | None) -> None:
        if len(self._restarts) < MOST_RESTARTS:
            self._restarts.append((offset, -1 if start is None else start))

    def finished(self, steps: Iterable[Step]) -> Iterator[Run]:
        """The runs below the start offset, in the order of offsets and without overlaps.

        What a reset went back to was delivered anew: there the later history counts.

        Args:
            steps: the same ones as of the first pass.
        """
        until = _lowest_later(self._restarts)
        pending, reached = list(self._restarts), -1
        for step in steps:
            while pending and pending[0][0] < step.record.offset:
                pending.pop(0)
                until.pop(0)
            limit = until[0] if until else None
            for run in step.dropped:
                last = run.last if limit is None else min(run.last, limit - 1)
                first = max(run.first, reached + 1)
                if first <= last:
                    reached = last
                    yield run.cut(first, last)


def _lowest_later(restarts: list[tuple[int, int]]) -> list[int]:
    """For each restart the lowest start of it and all later ones."""
    lowest: list[int] = []
    for _, start in reversed(restarts):
        known = [one for one in (start if start >= 0 else None, lowest[-1] if lowest else None) if one is not None]
        lowest.append(min(known, default=1 << 62))
    return lowest[::-1]
