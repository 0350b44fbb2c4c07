"""Committed offsets, looked for in copies of `__consumer_offsets`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_states import ABORTED, COMMITTED, NONE, OPEN, UNKNOWN
from kafkawire.messages import OffsetCommitKey, OffsetCommitValue
from kafkawire.offsets.group_records import GroupRecord
from kafkawire.records.array_types import Int8, Int64
from kafkawire.witness.exchange_rows import Place, Rows
from kafkawire.witness.positions import moment

CONSUMER_OFFSETS = "__consumer_offsets"
_PENDING = 4096

#: A record of a group's offset. `subject`: number of group and partition. `log`: number of the copy.
_RECORD = np.dtype(
    [
        ("subject", "<i4"), ("offset", "<i8"), ("producer_id", "<i8"), ("epoch", "<i2"), ("state", "i1"),
        ("record", "<i8"), ("log", "<i4"),
    ]
)  # fmt: skip

#: What the group's log shows of a committed offset. Before HELD are the reasons for unknown.
NO_COPY, NOT_IN_COPY, UNDECIDED, HELD, SUPERSEDED, OF_ABORTED, OF_OPEN, LOST = range(8)
NAMES = ("unknown", "unknown", "unknown", "held", "superseded", "aborted", "open", "lost")
REASONS = {
    NO_COPY: ("no_group_log", "no copy of the group's partition of __consumer_offsets was given"),
    NOT_IN_COPY: ("not_in_group_log", "the copy of __consumer_offsets does not hold it: it may be older"),
    UNDECIDED: ("outcome_unknown", "the copy of __consumer_offsets does not show how its transaction ended"),
}


class CommitStanding(NamedTuple):
    """What the group's log shows of each offset: `seen` by the codes of this module; `record`: offset of its record, -1
    without one; `state` of its transaction, -1 without a record; `log`: path of the copy."""

    seen: Int8
    record: Int64
    state: Int8
    log: str | None


class GroupLogs:
    """The records of groups' offsets in copies.

    Args:
        wanted: groups and partitions whose records are kept: (group, topic, partition).
    """

    def __init__(self, wanted: Iterable[tuple[str, str, int]]) -> None:
        self._subjects = {one: number for number, one in enumerate(dict.fromkeys(wanted))}
        self._chunks: list[Rows] = []
        self._logs: list[tuple[str, bool, bool]] = []
        self._rows: Rows | None = None

    def add(self, path: str, records: Iterable[GroupRecord], *, whole: bool, rewritten: bool) -> None:
        """Read a copy of a partition of `__consumer_offsets`.

        Args:
            path: of the copy. whole: it is of the cluster that the captures show, and none of its records was removed.
            rewritten: records were removed by compaction or retention.

        Raises:
            OSError: a file cannot be read.
        """
        pending = list[tuple[int, ...]]()
        number = len(self._logs)
        self._logs.append((path, whole, rewritten))
        for record in records:
            key = record.key
            if not isinstance(key, OffsetCommitKey) or not isinstance(record.value, OffsetCommitValue):
                continue
            subject = self._subjects.get((key.group, key.topic, key.partition))
            if subject is not None:
                transaction = record.producer_id, record.producer_epoch, record.state
                pending.append((subject, record.value.offset, *transaction, record.offset, number))
                if len(pending) >= _PENDING:
                    self._chunks.append(np.array(pending, _RECORD))
                    pending.clear()
        self._chunks.append(np.array(pending, _RECORD))

    def damaged(self, path: str) -> None:
        """A copy could not be read whole: it proves no absence."""
        self._logs = [(one, whole and one != path, rewritten) for one, whole, rewritten in self._logs]

    def _of(self, group: str, place: Place) -> Rows:
        """The records of a group and partition."""
        if self._rows is None:
            found = np.concatenate([np.empty(0, _RECORD), *self._chunks])
            self._chunks.clear()
            self._rows = found[np.lexsort((found["record"], found["offset"], found["subject"]))]
        subject = self._subjects.get((group, *place), -1)
        first, end = np.searchsorted(self._rows["subject"], [subject, subject + 1])
        return self._rows[first:end]

    def standings(self, group: str, place: Place, commits: Rows) -> CommitStanding:
        """What the copy shows of the offsets that a group committed for a partition.

        Args:
            commits: `COMMIT`, in the order of the captures.
        """
        rows = self._of(group, place)
        number = len(commits)
        seen, record = np.full(number, NO_COPY, np.int8), np.full(number, -1, np.int64)
        state = np.full(number, -1, np.int8)
        if not self._logs:
            return CommitStanding(seen, record, state, None)
        seen[:] = NOT_IN_COPY
        if not len(rows):
            return CommitStanding(seen, record, state, None)
        path, whole, compacted = self._logs[int(rows["log"][0])]
        first, end = (np.searchsorted(rows["offset"], commits["offset"], side=side) for side in ("left", "right"))
        for one in np.flatnonzero(end > first).tolist():
            alike = rows[first[one] : end[one]]
            alike = alike[
                (alike["producer_id"] == commits["producer_id"][one]) & (alike["epoch"] == commits["epoch"][one])
            ]
            if len(alike):
                best = alike[np.argmin(_RANK[alike["state"]])]
                state[one], record[one] = best["state"], best["record"]
                seen[one] = _SEEN[int(best["state"])]
        # A copy that holds a later one was made after the others were appended.
        sent, answered = (moment(commits["file"], commits[name]) for name in ("packet", "response_packet"))
        missing = (seen == NOT_IN_COPY) & (answered < sent[seen != NOT_IN_COPY].max(initial=-1))
        if whole or compacted:
            seen[missing] = LOST if whole else SUPERSEDED
        return CommitStanding(seen, record, state, path)

    def aborted_only(self, group: str, place: Place, offset: int) -> tuple[int, str] | None:
        """The record of an offset and the copy that has it, if all records of that offset are of aborted transactions,
        and none can have been removed."""
        rows = self._of(group, place)
        first, end = (int(np.searchsorted(rows["offset"], offset, side=side)) for side in ("left", "right"))
        alike = rows[first:end]
        if not len(alike) or (alike["state"] != ABORTED).any():
            return None
        path, whole, _ = self._logs[int(alike["log"][0])]
        return (int(alike["record"][0]), path) if whole else None


#: Ranks of states: of several records of one offset, the one with the lowest rank counts: committed, open, unknown,
#: aborted.
_RANK = np.array([0, 0, 3, 1, 2])
_SEEN = {NONE: HELD, COMMITTED: HELD, ABORTED: OF_ABORTED, OPEN: OF_OPEN, UNKNOWN: UNDECIDED}
