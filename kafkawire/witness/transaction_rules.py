"""Batches of transactions, compared with their markers and with the decisions of coordinators. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_states import ABORTED, COMMITTED, OPEN, STATES
from kafkawire.records.array_types import Bools, Int8, Int64
from kafkawire.rows import TransactionAnomaly, TransactionTotal
from kafkawire.transactions.coordinator.coordinator_rules import MAX_EPOCH
from kafkawire.witness.captured_decisions import DecidedTransactions
from kafkawire.witness.ended import ended_as, producer_keys
from kafkawire.witness.exchange_rows import Place, Rows, Sources, evidence_of
from kafkawire.witness.held import CopyOfPartition
from kafkawire.witness.packed_rows import PackedRows

_NAMES = ("ABORT", "COMMIT")


class _Promise(NamedTuple):
    name: str
    rule: str
    hint: str


_DECIDED_ANEW = "a marker of another transaction, data that came after its marker, or a coordinator that decided anew"
ABORTED_THOUGH_COMMITTED = _Promise(
    "aborted_though_committed", "a transaction that EndTxn committed is aborted in no partition", _DECIDED_ANEW
)
COMMITTED_THOUGH_ABORTED = _Promise(
    "committed_though_aborted", "a transaction that EndTxn aborted is committed in no partition", _DECIDED_ANEW
)
MISSING_MARKER = _Promise(
    "missing_marker",
    "each partition of a transaction has its marker before the producer's next transaction",
    "a marker that was lost, or a transaction that its coordinator forgot",
)
LATE_DATA = _Promise(
    "late_data",
    "no data of a transaction comes after its marker",
    "a request that arrived late, on a broker that does not verify transactions (KIP-890)",
)
UNREGISTERED = _Promise(
    "unregistered",
    "data of a transaction is in partitions that its coordinator knows of",
    "a producer that wrote before AddPartitionsToTxn was answered, on a broker that does not verify (KIP-890)",
)


class _Shown(NamedTuple):
    """Batches for which a promise is broken. `answer`: rows of the EndTxn answers, -1 without one. `marker`: offsets of
    markers, -1 without one."""

    promise: _Promise
    batches: Int64
    answer: Int64
    marker: Int64


class TransactionCounts:
    """What became of the batches of transactions.

    Args:
        sources: captures and clients. answers: of `EndedTransactions`.
        decided: what coordinators decided, by their copies.

    Attributes:
        batches: numbers of batches of transactions for which EndTxn was answered, by (committed, state).
        anomalies: number of batches for which a promise is broken; one for which several are counts as often.
    """

    def __init__(self, sources: Sources, answers: PackedRows, decided: DecidedTransactions) -> None:
        self._sources = sources
        self._answers = answers
        self._decided = decided
        self.batches: Counter[tuple[int, int]] = Counter()
        self.anomalies = 0

    def add(
        self,
        place: Place,
        rows: PackedRows,
        state: Int8,
        base: Int64,
        *,
        copy: CopyOfPartition | None,
        registered: Rows | None,
    ) -> Iterator[TransactionAnomaly]:
        """Take the batches of a partition. Returns those for which a promise is broken; they are counted at once.

        Args:
            rows: of each batch the first sending. state: of its transaction in the copy, -1 where no copy has it.
            base: the offset at which a copy holds it. copy: the newest one.
            registered: where producers added the partition to a transaction (`REGISTERED`).
        """
        number = np.flatnonzero(rows["transactional"] & (state >= 0) & (rows["producer_id"] >= 0))
        found: list[_Shown] = []
        if len(number):
            one = _Batches(number, rows, state, base)
            found += self._ended(one)
            if copy is not None and copy.sound:
                found += self._by_markers(one, copy, registered)
            found += self._outside(place, one)
        self.anomalies += sum(len(shown.batches) for shown in found)
        return self._listed(place, rows, state, base, found, copy)

    def _ended(self, one: _Batches) -> Iterator[_Shown]:
        wanted, at = ended_as(self._answers, one.producer_id, one.epoch)
        for code in (0, 1):
            for found, number in Counter(one.state[wanted == code].tolist()).items():
                self.batches[code, found] += number
        nothing = np.full(len(at), -1, np.int64)
        for promise, code, state in ((ABORTED_THOUGH_COMMITTED, 1, ABORTED), (COMMITTED_THOUGH_ABORTED, 0, COMMITTED)):
            yield _shown(promise, one, (wanted == code) & (one.state == state), at, nothing)

    def _by_markers(self, one: _Batches, copy: CopyOfPartition, registered: Rows | None) -> Iterator[_Shown]:
        """What the markers of the producers in the copy show."""
        markers = copy.markers
        wanted, at = ended_as(self._answers, one.producer_id, one.epoch)
        before, after = _markers_around(markers, one)
        # A marker of a later epoch fences what comes after it.
        epoch_before = np.where(before >= 0, _column(markers, "epoch", before), np.int64(-1))
        late = (before >= 0) & (epoch_before > one.epoch)
        at_late = np.where(wanted >= 0, at, -1)
        yield _shown(LATE_DATA, one, late, at_late, np.where(before >= 0, _column(markers, "base", before), -1))
        own = (wanted >= 0) & ~late & (one.epoch < MAX_EPOCH - 1) & (one.base >= copy.compacted_to)
        passed = own & (after >= 0) & (_column(markers, "epoch", after) > one.epoch + 1)
        open_ones = self._ended_again_before(one, own & (one.state == OPEN))
        marker = np.where(passed, _column(markers, "base", after), -1)
        yield _shown(MISSING_MARKER, one, passed | open_ones, at, marker)
        if registered is not None:
            yield from self._late_by_order(one, copy, registered)

    def _ended_again_before(self, one: _Batches, chosen: Bools) -> Bools:
        """Whether the copy holds something that was sent after the producer had ended a later transaction: by then, all
        markers of the batch's own had been written.

        Args:
            chosen: of which batches; others are not.
        """
        answers, found, newest = self._answers, np.zeros(len(chosen), bool), one.newest_packets()
        for producer_id in np.unique(one.producer_id[chosen]).tolist():
            ends = np.flatnonzero(answers["producer_id"] == producer_id)
            limits = np.array([newest.get(file, -1) for file in answers["file"][ends].tolist()], np.int64)
            ends = ends[answers["response_packet"][ends] < limits]
            latest = int(answers["epoch"][ends].max(initial=-1))
            found |= chosen & (one.producer_id == producer_id) & (one.epoch < latest)
        return found

    def _late_by_order(self, one: _Batches, copy: CopyOfPartition, registered: Rows) -> Iterator[_Shown]:
        """Data after its marker, where transactions share epochs: the n-th transaction that ended in the captures and
        that the partition was added to has the n-th marker, if as many ended as there are markers, each alike."""
        answers, markers = self._answers, copy.markers
        keys, marker_keys = (
            producer_keys(one.producer_id, one.epoch),
            producer_keys(markers["producer_id"], markers["epoch"]),
        )
        newest = one.newest_packets()
        for key in np.unique(registered["key"]).tolist():
            ends = np.flatnonzero((answers["key"] == np.uint64(key)) & ~answers["own"])
            mine = np.flatnonzero(keys == np.uint64(key))
            there = np.flatnonzero(marker_keys == np.uint64(key))
            if not len(ends) or not len(mine) or len(np.unique(answers["file"][ends])) > 1:
                continue
            added = np.sort(registered["packet"][registered["key"] == np.uint64(key)])
            packets = answers["packet"][ends]
            counts = np.searchsorted(added, packets)
            ends = ends[np.diff(np.append(0, counts)) > 0]  # the partition is in these transactions
            file = int(answers["file"][ends[0]]) if len(ends) else -1
            alike = len(ends) == len(there) and bool((answers["committed"][ends] == markers["committed"][there]).all())
            if not alike or not len(ends) or newest.get(file, -1) <= int(answers["response_packet"][ends].max()):
                continue
            mine = mine[one.file[mine] == file]
            ended_before = np.searchsorted(answers["packet"][ends], one.packet[mine])
            marked_before = np.searchsorted(markers["base"][there], one.base[mine])
            late = marked_before > ended_before
            chosen = np.zeros(len(keys), bool)
            chosen[mine[late]] = True
            answer, marker = np.full((2, len(keys)), -1, np.int64)
            answer[mine[late]] = ends[ended_before[late]]
            marker[mine[late]] = markers["base"][there][ended_before[late]]
            yield _shown(LATE_DATA, one, chosen, answer, marker)

    def _outside(self, place: Place, one: _Batches) -> Iterator[_Shown]:
        """Batches of transactions that were decided without the partition."""
        outside, at = self._decided.outside(place, one.producer_id, one.epoch)
        nothing = np.full(len(at), -1, np.int64)
        yield _shown(UNREGISTERED, one, outside, nothing, at)

    def _listed(
        self,
        place: Place,
        rows: PackedRows,
        state: Int8,
        base: Int64,
        found: list[_Shown],
        copy: CopyOfPartition | None,
    ) -> Iterator[TransactionAnomaly]:
        answers, files, clients = self._answers, self._sources.files, self._sources.clients
        for shown in found:
            for batch, answer, marker in zip(*(column.tolist() for column in shown[1:]), strict=True):
                source, where = (answers, answer) if answer >= 0 else (rows, batch)
                log = None if copy is None else copy.segment(int(base[batch]))
                promise = shown.promise
                if promise is UNREGISTERED:
                    path, offset, _ = self._decided.source(marker)
                    log, marker = f"{path}: offset {offset}", -1
                yield TransactionAnomaly(
                    name=promise.name,
                    offset=int(base[batch]),
                    marker_offset=marker if marker >= 0 else None,
                    end_txn=_NAMES[int(answers["committed"][answer])] if answer >= 0 else None,
                    transaction=STATES[int(state[batch])],
                    log=log,
                    rule=promise.rule,
                    hint=promise.hint,
                    **evidence_of(place, rows, batch, files, clients, (source, where)),
                )


def transaction_rows(batches: Counter[tuple[int, int]]) -> Iterator[TransactionTotal]:
    """A row for each count of `TransactionCounts.batches`."""
    for (wanted, state), number in sorted(batches.items(), reverse=True):
        if number:
            yield TransactionTotal(end_txn=_NAMES[wanted], transaction=STATES[state], batches=number)


class _Batches:
    """Batches of transactions that a copy holds. `number`: their rows among all that were sent."""

    def __init__(self, number: Int64, rows: PackedRows, state: Int8, base: Int64) -> None:
        self.number = number
        self._rows, self._state = rows, state
        self.producer_id, self.epoch = (rows[name][number].astype(np.int64) for name in ("producer_id", "epoch"))
        self.file, self.packet = rows["file"][number], rows["packet"][number]
        self.state, self.base = state[number], base[number]

    def newest_packets(self) -> dict[int, int]:
        """The last packet of each capture with a request whose batch the copy holds."""
        rows, held = self._rows, self._state >= 0
        files, packets = rows["file"][held], rows["packet"][held]
        return {file: int(packets[files == file].max()) for file in np.unique(files).tolist()}


def _shown(promise: _Promise, one: _Batches, broken: Bools, answer: Int64, marker: Int64) -> _Shown:
    return _Shown(promise, one.number[broken], answer[broken], marker[broken])


def _markers_around(markers: PackedRows, one: _Batches) -> tuple[Int64, Int64]:
    """The last marker of its producer id before each batch, and the first one after it; -1: there is none."""
    order = np.lexsort((markers["base"], markers["producer_id"]))
    ids, bases = markers["producer_id"][order], markers["base"][order]
    before, after = np.full((2, len(one.number)), -1, np.int64)
    for producer_id in np.unique(one.producer_id).tolist():
        mine = np.flatnonzero(one.producer_id == producer_id)
        first, end = (int(np.searchsorted(ids, producer_id, side=side)) for side in ("left", "right"))
        at = first + np.searchsorted(bases[first:end], one.base[mine])
        before[mine] = np.where(at > first, order[np.maximum(at - 1, 0)], -1) if end > first else -1
        after[mine] = np.where(at < end, order[np.minimum(at, len(order) - 1)], -1) if end > first else -1
    return before, after


def _column(markers: PackedRows, name: str, at: Int64) -> Int64:
    """A column of the markers with these numbers; of -1 anything."""
    if not len(markers):
        return np.full(len(at), -1, np.int64)
    found: Int64 = markers[name][np.maximum(at, 0)].astype(np.int64)
    return found
