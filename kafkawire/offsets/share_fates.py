"""The fate of each offset of a partition in a share group: the group's state, combined with what the partition holds.
Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from kafkawire.logdir.transaction_states import ABORTED as ABORTED_CODE
from kafkawire.logdir.transaction_states import OPEN as OPEN_CODE
from kafkawire.logdir.transaction_states import UNKNOWN as UNKNOWN_CODE
from kafkawire.offsets.dead_letters import DeadLetterCauses
from kafkawire.offsets.statuses import ABORT, COMMIT, COMPACTED, CONTROL, TRUNCATED, UNREADABLE, Runs, joined
from kafkawire.offsets.statuses import DELETED as DELETED_CODE
from kafkawire.rows import RowOrigin, ShareRange, ShareTotal
from kafkawire.share_groups.record_fates import (
    ABORTED,
    DELETED,
    NO_RECORD,
    OPEN,
    RECORD,
    UNDECIDED,
    UNREAD,
    Fate,
    Known,
    fate,
)
from kafkawire.share_groups.state_runs import Run

_HELD = {
    ABORTED_CODE: ABORTED, OPEN_CODE: OPEN, UNKNOWN_CODE: UNDECIDED,
    COMMIT: NO_RECORD, ABORT: NO_RECORD, CONTROL: NO_RECORD, COMPACTED: NO_RECORD,
    DELETED_CODE: DELETED, TRUNCATED: UNREAD, UNREADABLE: UNREAD,
}  # fmt: skip
_NEVER = 1 << 62


class Held(NamedTuple):
    """Consecutive offsets of a partition that hold the same. end: the one after the last."""

    first: int
    end: int
    what: str

    def and_next(self, other: Held) -> Held | None:
        """Both as one, where they follow one another and hold the same."""
        return self._replace(end=other.end) if (self.what, self.end) == (other.what, other.first) else None


class FateRun(NamedTuple):
    """Consecutive offsets with one fate, both included. held: what the partition has there."""

    first: int
    last: int
    fate: Fate
    held: str

    def and_next(self, other: FateRun) -> FateRun | None:
        """Both as one, where the second follows the first and is alike."""
        return self._replace(last=other.last) if (self.fate, self.held) == (other.fate, other.held) else None


def held(runs: Iterable[Runs], end: int) -> Iterator[Held]:
    """What a partition holds at its offsets up to `end`, as runs that follow one another."""
    cut = (
        Held(first, min(after, end), _HELD.get(code, RECORD))
        for found in runs
        for first, after, code in zip(found.first.tolist(), found.end.tolist(), found.code.tolist(), strict=True)
    )
    reached = 0
    for one in joined((one for one in cut if one.first < one.end), Held.and_next):
        yield one
        reached = one.end
    if reached < end:
        yield Held(reached, end, UNREAD)


def fate_runs(
    held: Iterable[Held],
    runs: Iterable[Run],
    known: Known,
    skipped: Iterable[tuple[int, int]] = (),
    causes: DeadLetterCauses | None = None,
) -> Iterator[FateRun]:
    """The fates of all offsets, in order: runs that follow one another, neighbours that are alike joined.

    Args:
        held: what the partition has, from offset 0 on.
        runs: of the state, in order and without overlaps.
        skipped: ranges that resets left out, in order.
        causes: of copies in a dead-letter topic.
    """
    yield from joined(_fates(held, _Runs(runs), known, list(skipped), causes), FateRun.and_next)


def _fates(
    held: Iterable[Held],
    walk: _Runs,
    known: Known,
    left_out: Sequence[tuple[int, int]],
    causes: DeadLetterCauses | None,
) -> Iterator[FateRun]:
    """See `fate_runs`."""
    begun = _NEVER if known.begun_at is None else known.begun_at
    start = _NEVER if known.start is None else known.start
    for one in held:
        at = one.first
        while at < one.end:
            run, until = walk.at(at)
            place = "before" if at < begun else "from" if at >= start else "below"
            ends = [one.end, until, *(edge for edge in (begun, start) if edge > at)]
            for first, after in left_out:
                if first <= at < after and run is None:
                    place = "skipped"
                ends += [edge for edge in (first, after) if edge > at]
            cause = None
            if causes is not None and run is not None:
                cause, known_until = causes.at(at)
                ends.append(known_until)
            end = min(ends)
            yield FateRun(at, end - 1, fate(run, one.what, known, place, cause), one.what)
            at = end


class _Runs:
    """Looks up offsets that rise."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = iter(runs)
        self._run = next(self._runs, None)

    def at(self, offset: int) -> tuple[Run | None, int]:
        """The run that an offset is in, and up to which offset, without it, that holds."""
        while self._run is not None and self._run.last < offset:
            self._run = next(self._runs, None)
        if self._run is None:
            return None, _NEVER
        if self._run.first > offset:
            return None, self._run.first
        return self._run, self._run.last + 1


class ShareSummary:
    """Adds up runs: exact totals, and a number of ranges at most: neighbours are merged, the shortest first."""

    def __init__(self, most: int, group: str, origin: RowOrigin) -> None:
        self._most, self._group, self._origin = most, group, origin
        self._ranges: list[ShareRange] = []
        self._totals: dict[tuple[str, str | None], list[int]] = {}
        self._last: Fate | None = None

    def add(self, fated: FateRun) -> None:
        """Take the next run."""
        row = self.row(fated)
        count = (fated.fate.deliveries or 0) * row.offsets
        total = self._totals.setdefault((row.status, row.reason), [0, 0, 0, row.first_offset, 0])
        total[0] += row.offsets
        total[1] += self._last != fated.fate
        self._last = fated.fate
        total[2] += count
        total[4] = row.last_offset
        if self._ranges and _alike(self._ranges[-1], row):
            self._ranges[-1] = _joined(self._ranges[-1], row)
        else:
            self._ranges.append(row)
        if len(self._ranges) > 4 * self._most:
            self._ranges = _merged(self._ranges, 2 * self._most)

    def row(self, fated: FateRun) -> ShareRange:
        """A run as a row."""
        return ShareRange(
            **self._origin,
            group=self._group,
            first_offset=fated.first,
            last_offset=fated.last,
            offsets=fated.last - fated.first + 1,
            status=fated.fate.status,
            reason=fated.fate.reason,
            delivery_count=fated.fate.deliveries,
        )

    def ranges(self) -> list[ShareRange]:
        return _merged(self._ranges, self._most)

    def totals(self) -> Iterator[ShareTotal]:
        """The number of offsets of each status and reason."""
        for (status, reason), (offsets, count, deliveries, first, last) in sorted(
            self._totals.items(), key=lambda item: (item[0][0], item[0][1] or "")
        ):
            yield ShareTotal(
                **self._origin,
                group=self._group,
                status=status,
                reason=reason,
                offsets=offsets,
                ranges=count,
                deliveries=deliveries,
                first_offset=first,
                last_offset=last,
            )


def _merged(rows: list[ShareRange], most: int) -> list[ShareRange]:
    while len(rows) > most:
        pairs = range(0, len(rows) - 1, 2)
        cost = sorted(pairs, key=lambda place: rows[place].offsets + rows[place + 1].offsets)
        chosen = set(cost[: len(rows) - most])
        rows = [
            _joined(row, rows[place + 1]) if place in chosen else row
            for place, row in enumerate(rows)
            if place - 1 not in chosen
        ]
    return rows


def _alike(one: ShareRange, other: ShareRange) -> bool:
    return one.of is None and (one.status, one.reason, one.delivery_count) == (
        other.status, other.reason, other.delivery_count
    )  # fmt: skip


def _joined(one: ShareRange, other: ShareRange) -> ShareRange:
    counts = _counts(one) + _counts(other)
    alike = len(counts) == 1
    return replace(
        one,
        last_offset=other.last_offset,
        offsets=one.offsets + other.offsets,
        status=one.status if alike else "mixed",
        reason=one.reason if alike else None,
        delivery_count=one.delivery_count if one.delivery_count == other.delivery_count else None,
        of=None if alike else dict(counts),
    )


def _counts(row: ShareRange) -> Counter[str]:
    name = row.status if row.reason is None else f"{row.status}_{row.reason}"
    return Counter({name: row.offsets} if row.of is None else row.of)
