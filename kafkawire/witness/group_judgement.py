"""Offsets that groups committed -> the fate of each: whether the group's log has it, and whether the group was given
the records below it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_states import ABORTED, COMMITTED
from kafkawire.rows import CommitAnomaly, CommitTotal
from kafkawire.witness import group_delivery, group_log
from kafkawire.witness.ended import ended_as
from kafkawire.witness.exchange_rows import Place, Rows, Sources
from kafkawire.witness.group_delivery import deliveries
from kafkawire.witness.group_log import CommitStanding, GroupLogs
from kafkawire.witness.held import CopyOfPartition
from kafkawire.witness.packed_rows import PackedRows
from kafkawire.witness.positions import Moves, moves


class _Promise(NamedTuple):
    rule: str
    hint: str = ""


_PROMISES = {
    "undelivered": _Promise(
        "a group commits the offsets of records that it was given",
        "an offset that the application computed, or a position that ran ahead of what was processed",
    ),
    "gap": _Promise(
        "a group is given all committed records, one after the other",
        "seek() by the application, or a position that was set from a wrong offset",
    ),
    "lost": _Promise(
        "an acknowledged commit is in the group's log",
        "an unclean leader election of a partition of __consumer_offsets",
    ),
    "aborted_though_committed": _Promise("offsets of a transaction that EndTxn committed take effect"),
    "committed_though_aborted": _Promise("offsets of a transaction that EndTxn aborted take no effect"),
    "aborted_offset_read": _Promise("a group goes on from no offset that only an aborted transaction committed"),
}


class GroupCounts:
    """Counts of committed offsets by what became of them.

    Args:
        sources: captures and clients. names: of groups. members: the numbers of clients, by that of the
            group. logs: the copies of groups' logs. answers: of `EndedTransactions`.

    Attributes:
        counts: by the codes of `group_log` and of `group_delivery`. anomalies: their number.
    """

    def __init__(
        self,
        sources: Sources,
        names: list[str],
        members: dict[int, set[int]],
        logs: GroupLogs,
        answers: PackedRows,
    ) -> None:
        self._sources = sources
        self._names, self._members = names, members
        self._logs = logs
        self._answers = answers
        self.counts: Counter[tuple[int, int]] = Counter()
        self.anomalies = 0

    def add(
        self,
        place: Place,
        rows: Rows,
        fetched: Rows | None,
        steps: Rows | None,
        copy: CopyOfPartition | None,
        most: int,
    ) -> list[CommitAnomaly]:
        """Take the offsets of a partition. Returns those for which a promise is broken, at most so many; all are
        counted.

        Args:
            rows: `COMMIT`. fetched: what consumers were given (`FETCHED`). steps: where they stood (`STEP`).
        """
        found: list[CommitAnomaly] = []
        for group in np.unique(rows["group"]).tolist():
            for anomaly in self._group(group, place, rows[rows["group"] == group], fetched, steps, copy):
                self.anomalies += 1
                if len(found) < most:
                    found.append(anomaly)
        return found

    def _group(
        self,
        group: int,
        place: Place,
        rows: Rows,
        fetched: Rows | None,
        steps: Rows | None,
        copy: CopyOfPartition | None,
    ) -> Iterator[CommitAnomaly]:
        name = self._names[group]
        commits, starts = rows[~rows["read"]], rows[rows["read"]]
        members = self._members.get(group, set())
        given, taken = (_of_members(one, members) for one in (fetched, steps))
        standing = self._logs.standings(name, place, commits)
        readers = np.empty(0, np.int32) if taken is None else np.unique(taken["client"])
        own = (len(readers) == 1) & (np.isin(commits["client"], readers) | (commits["producer_id"] >= 0))
        shown: Moves | None = None if taken is None else moves(taken)
        asked = np.empty(0, np.int64) if taken is None else taken["offset"][taken["offset"] >= 0]
        judged = deliveries(commits, starts=starts, fetched=given, moves=shown, asked=asked, copy=copy, own=own)
        for code, number in Counter(zip(standing.seen.tolist(), judged.seen.tolist(), strict=True)).items():
            self.counts[code] += number
        for one in np.flatnonzero(judged.seen > group_delivery.DELIVERED).tolist():
            assert copy is not None
            batch = int(judged.batch[one])
            kind = "gap" if judged.seen[one] == group_delivery.GAP else "undelivered"
            first, last = int(copy.batches["base"][batch]), int(copy.batches["last"][batch])
            yield self._row(kind, name, place, commits[one], copy.segment(first), first=first, last=last)
        for one, kind in self._outcomes(commits, standing):
            yield self._row(kind, name, place, commits[one], standing.log, record=int(standing.record[one]))
        for one in range(len(starts)):
            offset = int(starts["offset"][one])
            aborted = self._logs.aborted_only(name, place, offset) if offset >= 0 else None
            if aborted is not None:
                yield self._row("aborted_offset_read", name, place, starts[one], aborted[1], record=aborted[0])

    def _outcomes(self, commits: Rows, standing: CommitStanding) -> Iterator[tuple[int, str]]:
        """Commits that are not in the group's log as they should be."""
        for one in np.flatnonzero(standing.seen == group_log.LOST).tolist():
            yield one, "lost"
        wanted, _ = ended_as(self._answers, commits["producer_id"], commits["epoch"])
        for one in np.flatnonzero((wanted == 1) & (standing.state == ABORTED)).tolist():
            yield one, "aborted_though_committed"
        for one in np.flatnonzero((wanted == 0) & (standing.state == COMMITTED)).tolist():
            yield one, "committed_though_aborted"

    def _row(
        self,
        name: str,
        group: str,
        place: Place,
        commit: Rows,
        log: str | None,
        *,
        first: int | None = None,
        last: int | None = None,
        record: int = -1,
    ) -> CommitAnomaly:
        host, client_id = self._sources.clients[int(commit["client"])]
        producer_id = int(commit["producer_id"])
        return CommitAnomaly(
            name=name,
            group=group,
            topic=place[0],
            partition=place[1],
            offset=int(commit["offset"]),
            first_offset=first,
            last_offset=last,
            record_offset=record if record >= 0 else None,
            producer_id=producer_id if producer_id >= 0 else None,
            producer_epoch=int(commit["epoch"]) if producer_id >= 0 else None,
            client=host,
            client_id=client_id,
            file=self._sources.files[int(commit["file"])],
            packet=int(commit["packet"]),
            response_packet=int(commit["response_packet"]),
            log=log,
            rule=_PROMISES[name].rule,
            hint=_PROMISES[name].hint,
        )


def commit_rows(counts: Counter[tuple[int, int]]) -> Iterator[CommitTotal]:
    """A row for each count of `GroupCounts.counts`."""
    for (seen, given), number in sorted(counts.items(), reverse=True):
        reason = commit_reason(seen, given)
        yield CommitTotal(
            commit=group_log.NAMES[seen],
            delivery=group_delivery.NAMES[given],
            reason=None if reason is None else reason[0],
            detail=None if reason is None else reason[1],
            commits=number,
        )


def commit_reason(seen: int, given: int) -> tuple[str, str] | None:
    """Why nothing is known of a commit, or not all; None: all is."""
    return group_log.REASONS.get(seen) or group_delivery.REASONS.get(given)


def _of_members(rows: Rows | None, members: set[int]) -> Rows | None:
    """The rows of clients that are members of a group."""
    if rows is None:
        return None
    chosen: Rows = rows[np.isin(rows["client"], list(members))]
    return chosen if len(chosen) else None
