"""`OffsetSummary`: runs -> totals, and a number of ranges: neighbours are merged, settled and
short ones first. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkawire.offsets import statuses
from kafkawire.records.array_types import Bools, Int64
from kafkawire.rows import RowOrigin, StatusRange, StatusTotal

#: Columns of a block: first offset, end, code (_MIXED), detail, place of its reason in `_whys` (-1: none), number of
#: runs, and offsets by code.
_FIRST, _END, _CODE, _DETAIL, _WHY, _COUNTS = range(6)
_MIXED = -1
_UNSETTLED = np.array([code not in statuses.SETTLED for code in range(statuses.CODES)])


def ranges(runs: Iterator[statuses.Runs], origin: RowOrigin) -> Iterator[StatusRange]:
    """Each run as a row; runs that continue one another are one."""
    each: Iterator[tuple[int, int, int, int, statuses.Why]] = (
        (*run, found.why) for found in runs for run in zip(*(column.tolist() for column in found[:4]), strict=True)
    )
    for run in statuses.joined(each, lambda one, two: (one[0], *two[1:]) if one[2:] == two[2:] else None):
        yield _row(*run, origin)


class OffsetSummary:
    """Takes runs in order. Memory is bounded by `most`, and by the number of coordinator epochs and reasons. `most`:
    ranges that `ranges` yields, at most."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._blocks = np.empty((0, _COUNTS + statuses.CODES), np.int64)
        self._whys: list[statuses.Why] = []
        #: (code, detail, reason) -> offsets, ranges, first, last
        self._totals: dict[tuple[int, int, str | None], list[int]] = {}
        self._last: tuple[int, int, statuses.Why] | None = None

    def add(self, runs: statuses.Runs) -> None:
        """Take the next runs."""
        width = runs.end - runs.first
        self._count(runs, width)
        rows = np.zeros((len(width), self._blocks.shape[1]), np.int64)
        rows[:, _FIRST], rows[:, _END], rows[:, _CODE], rows[:, _DETAIL] = runs[:4]
        rows[:, _WHY] = self._place(runs.why)
        rows[np.arange(len(width)), _COUNTS + runs.code.astype(np.int64)] = width
        if self._continues(runs) and (self._blocks[-1, _CODE : _WHY + 1] == rows[0, _CODE : _WHY + 1]).all():
            self._blocks[-1, _END] = rows[0, _END]
            self._blocks[-1, _COUNTS:] += rows[0, _COUNTS:]
            rows = rows[1:]
        self._blocks = np.concatenate((self._blocks, rows))
        self._last = int(runs.code[-1]), int(runs.detail[-1]), runs.why
        if len(self._blocks) > 4 * self._most:
            self._blocks = _merged(self._blocks, 2 * self._most)
            self._forget()

    def totals(self, origin: RowOrigin) -> Iterator[StatusTotal]:
        """The number of offsets with each status."""
        for (code, detail, reason), (offsets, count, first, last) in sorted(
            self._totals.items(), key=lambda item: (*item[0][:2], item[0][2] or "")
        ):
            yield StatusTotal(
                **origin,
                status=statuses.STATUSES[code],
                transaction=statuses.transaction_name(code),
                control=statuses.control_name(code, detail),
                coordinator_epoch=statuses.coordinator_epoch(code, detail),
                reason=reason,
                offsets=offsets,
                ranges=count,
                first_offset=first,
                last_offset=last,
            )

    def ranges(self, origin: RowOrigin) -> Iterator[StatusRange]:
        """The ranges, of which some may be mixed."""
        for row in _merged(self._blocks, self._most).tolist():
            first, end, code, detail, why = row[:_COUNTS]
            if code != _MIXED:
                yield _row(first, end, code, detail, self._whys[why] if why >= 0 else statuses.Why(), origin)
            else:
                of = {statuses.NAMES[place]: number for place, number in enumerate(row[_COUNTS:]) if number}
                yield StatusRange(
                    **origin, first_offset=first, last_offset=end - 1, offsets=end - first, status="mixed", of=of
                )

    def _count(self, runs: statuses.Runs, width: Int64) -> None:
        keys, begins, which = np.unique((runs.detail << 4) | runs.code, return_index=True, return_inverse=True)
        offsets, ends = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        np.add.at(offsets, which, width)
        np.maximum.at(ends, which, runs.end)
        columns = (keys, offsets, np.bincount(which), runs.first[begins], ends)
        for key, number, count, first, end in zip(*(column.tolist() for column in columns), strict=True):
            total = self._totals.setdefault((key & 15, key >> 4, runs.why.reason), [0, 0, first, end - 1])
            total[0] += number
            total[1] += count
            total[3] = end - 1
        if self._continues(runs):
            self._totals[int(runs.code[0]), int(runs.detail[0]), runs.why.reason][1] -= 1

    def _continues(self, runs: statuses.Runs) -> bool:
        """Whether the first of these runs and the last one before are one."""
        return (int(runs.code[0]), int(runs.detail[0]), runs.why) == self._last

    def _place(self, why: statuses.Why) -> int:
        if why == statuses.Why():
            return -1
        if not self._whys or self._whys[-1] != why:
            self._whys.append(why)
        return len(self._whys) - 1

    def _forget(self) -> None:
        """Drop the reasons that no block has any more."""
        used, places = np.unique(self._blocks[:, _WHY], return_inverse=True)
        self._whys = [self._whys[place] for place in used.tolist() if place >= 0]
        self._blocks[:, _WHY] = places.ravel() - int(used[0] < 0)


def _merged(blocks: Int64, most: int) -> Int64:
    """The blocks, neighbours merged until there are `most`: settled ones first, by their width."""
    odd = 0
    while len(blocks) > most:
        left = np.arange(odd, len(blocks) - 1, 2)
        if len(left):
            unsettled: Bools = np.any(blocks[:, _COUNTS:][:, _UNSETTLED] > 0, axis=1)
            barred = unsettled[left] | unsettled[left + 1]
            pairs = left[~barred] if (~barred).any() or not _blocked(unsettled) else left
            cost = blocks[pairs + 1, _END] - blocks[pairs, _FIRST]
            chosen = pairs[np.argsort(cost, kind="stable")[: len(blocks) - most]]
            blocks = _joined(blocks, chosen)
        odd = 1 - odd
    return blocks


def _blocked(unsettled: Bools) -> bool:
    """Whether no two neighbours are settled."""
    return bool((unsettled[:-1] | unsettled[1:]).all())


def _joined(blocks: Int64, left: Int64) -> Int64:
    """The blocks, each of those at `left` merged with the next one."""
    right = left + 1
    blocks = blocks.copy()
    same = (blocks[left, _CODE : _WHY + 1] == blocks[right, _CODE : _WHY + 1]).all(axis=1)
    blocks[left, _END] = blocks[right, _END]
    blocks[left, _COUNTS:] += blocks[right, _COUNTS:]
    blocks[left[~same], _CODE] = _MIXED
    blocks[left[~same], _WHY] = -1
    return np.delete(blocks, right, axis=0)


def _row(first: int, end: int, code: int, detail: int, why: statuses.Why, origin: RowOrigin) -> StatusRange:
    return StatusRange(
        **origin,
        first_offset=first,
        last_offset=end - 1,
        offsets=end - first,
        status=statuses.STATUSES[code],
        transaction=statuses.transaction_name(code),
        control=statuses.control_name(code, detail),
        coordinator_epoch=statuses.coordinator_epoch(code, detail),
        reason=why.reason,
        detail=why.detail,
        segment=why.segment,
        position=why.position,
    )
