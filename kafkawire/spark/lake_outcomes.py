"""What a read_committed consumer gets of a partition, from parts of its log that are read independently.

The outcome of a transactional batch is in the next marker of its producer: what began before the part, or before the
first segment, needs no other file. A part is reduced to runs of offsets without a gap (`runs_of`); `decide` joins the
runs of a partition to the offset up to which records can be passed on, and the transactions to leave out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from kafkawire.errors import RecordError
from kafkawire.logdir import LogFile
from kafkawire.logdir.splits import pieces
from kafkawire.records import Batch, Damage
from kafkawire.records.array_types import Bools, Int64
from kafkawire.records.columns import Batches, records
from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.records.marker_columns import markers
from kafkawire.transactions.producer_append import append_of

#: Reason of damage in records whose batch has the right checksum.
BAD_RECORDS = "bad_records"

#: What a batch is for its transaction: the codes of markers are Kafka's.
_ABORT, _COMMIT, _EMPTY, _MALFORMED, _DATA = range(5)
_CODES = {"ABORT": _ABORT, "COMMIT": _COMMIT, EMPTY: _EMPTY, MALFORMED: _MALFORMED}


class Transaction(NamedTuple):
    """An aborted transaction: its producer, the first offset of its data, the offset of its marker."""

    producer_id: int
    first: int
    marker: int


class Run:
    """Batches of a part whose offsets follow one another.

    Attributes:
        first, end: the first offset, and the one after the last. `stop`: the position after the last batch.
        heads: by producer id: the first offset of data before the first marker, that marker and what it is; -1: none.
        aborted: the aborted transactions after those. `open`: what is still open, by producer id: its first offset.
        thinned: compaction removed records.
        problem: why what follows cannot be read.
    """

    def __init__(self, first: int) -> None:
        self.first = self.end = first
        self.stop = 0
        self.heads: dict[int, tuple[int, int, int]] = {}
        self.aborted: list[Transaction] = []
        self.open: dict[int, int] = {}
        self.thinned = False
        self.problem = ""

    def add(self, found: Batches) -> None:
        """Take batches that follow one another."""
        emptied = ~found.is_control & (found.record_count == 0)
        chosen = (found.producer_id >= 0) & (found.transactional | found.is_control) & ~emptied
        self.thinned = self.thinned or bool((found.record_count <= found.last_offset_delta).any())
        if not chosen.any():
            return
        codes = _codes(found)[chosen].tolist()
        events = zip(found.producer_id[chosen].tolist(), found.base_offset[chosen].tolist(), codes, strict=True)
        for producer_id, offset, code in events:
            head = self.heads.get(producer_id)
            if code == _DATA:
                if head is None:
                    self.heads[producer_id] = offset, -1, _DATA
                elif head[1] >= 0:
                    self.open.setdefault(producer_id, offset)
            elif head is None or head[1] < 0:
                self.heads[producer_id] = -1 if head is None else head[0], offset, code
            elif (begun := self.open.pop(producer_id, None)) is not None:
                self._end(producer_id, begun, offset, code)

    def _end(self, producer_id: int, begun: int, marker: int, code: int) -> None:
        if code == _ABORT:
            self.aborted.append(Transaction(producer_id, begun, marker))
        elif code != _COMMIT:
            self.open[producer_id] = begun
            self.problem = self.problem or _unknown(producer_id, begun, marker)


class Decided(NamedTuple):
    """What is known of a partition from an offset on.

    Attributes:
        end: records before it can be passed on: the last stable offset, or where reading had to stop.
        held: why reading had to stop; empty where nothing did.
        aborted: the transactions to leave out.
    """

    end: int
    held: str
    aborted: list[Transaction]


def runs_of(
    file: LogFile, start: int, end: int | None, first: int, limit: int | None, *, decode: bool = False
) -> Iterator[Run]:
    """The runs of the batches that begin in a range of bytes of a segment.

    Args:
        start, end: positions of batches; None: the end of the file.
        first, limit: offsets: batches that end before `first`, or begin at `limit` or after it, are passed over.
        decode: look at the records, too: what a checksum covers may still be no records.

    Raises:
        OSError: the file cannot be read.
    """
    run: Run | None = None
    most = np.iinfo(np.int64).max if limit is None else limit
    for found in pieces(file, start, end):
        if run is not None and run.end >= most:
            break
        if isinstance(found, Damage):
            if found.harmless:
                continue
            run = run or Run(-1)  # joined to the run before the part
            run.problem = run.problem or f"{file.path}: at byte {found.position}: {found.reason}: {found.detail}"
            break
        if isinstance(found, Batch):
            found = found.measured()
        base, last = np.atleast_1d(found.base_offset), np.atleast_1d(found.last_offset)
        wanted = np.flatnonzero((last >= first) & (base < most))
        broken = _first_broken(found, wanted) if decode else None
        if broken is not None:
            wanted = wanted[np.atleast_1d(found.position)[wanted] < broken.position]
        for stretch in np.split(wanted, np.flatnonzero(base[wanted][1:] != last[wanted][:-1] + 1) + 1):
            if not len(stretch):
                continue
            if run is not None and (run.end != base[stretch[0]] or run.problem):
                yield run
                run = None
            run = run or Run(int(base[stretch[0]]))
            run.end = int(last[stretch[-1]]) + 1
            run.stop = int(np.atleast_1d(found.position)[stretch[-1]] + np.atleast_1d(found.size)[stretch[-1]])
            if isinstance(found, Batches):  # older batches have no producer
                run.add(found if len(stretch) == len(found) else found.where(_mask(stretch, len(found))))
        if broken is not None:
            run = run or Run(-1)
            run.problem = run.problem or f"{file.path}: at byte {broken.position}: {broken.reason}: {broken.detail}"
            break
    if run is not None:
        yield run


def _first_broken(found: Batches | Batch, wanted: Int64) -> Damage | None:
    """The first of the wanted batches of data whose records cannot be read."""
    if not len(wanted):
        return None
    if isinstance(found, Batch):
        try:
            for _ in found.records:
                pass
        except RecordError as error:
            return Damage(found.position, BAD_RECORDS, str(error))
        return None
    data = found.where(_mask(wanted, len(found)) & ~found.is_control)
    return next((damage for part in records(data) for damage in part.damage), None)


def _mask(chosen: Int64, size: int) -> Bools:
    mask = np.zeros(size, bool)
    mask[chosen] = True
    return mask


def _codes(found: Batches) -> np.ndarray[tuple[int], np.dtype[np.int8]]:
    codes = np.full(len(found), _DATA, np.int8)
    plain = markers(found)
    codes[plain.at] = plain.type
    for index in plain.others.tolist():
        append = append_of(found.batch(index))
        codes[index] = _MALFORMED if append is None else _CODES.get(append.control or "", _MALFORMED)
    return codes


def _unknown(producer_id: int, begun: int, marker: int) -> str:
    return f"the marker at offset {marker} does not show how producer {producer_id}'s transaction from {begun} on ended"


def decide(runs: Iterable[Run], start: int, limit: int | None = None, *, compacted: bool = False) -> Decided:
    """Join the runs of a partition, in the order of its log.

    Args:
        start, limit: the offset from which records are wanted, and the high watermark.
        compacted: whether compaction has removed offsets; without it, missing offsets end what can be passed on.
    """
    listed = list(runs)
    compacted = compacted or any(run.thinned for run in listed)
    begun: dict[int, int] = {}
    aborted: list[Transaction] = []
    reached, held = start, ""
    for number, run in enumerate(listed):
        if run.first >= 0:
            if run.first > reached and not compacted:
                held = f"offsets {reached} to {run.first - 1} are missing"
            elif run.first < reached and number:
                held = f"offsets go back from {reached} to {run.first}"
            if held:
                break
        for producer_id, (first, marker, code) in run.heads.items():
            offset = begun.pop(producer_id, first)
            if offset < 0:
                continue  # a marker without data
            if code == _ABORT:
                aborted.append(Transaction(producer_id, offset, marker))
            elif code != _COMMIT:
                begun[producer_id] = offset
                if code != _DATA:
                    held = held or _unknown(producer_id, offset, marker)
        aborted += run.aborted
        begun |= run.open
        reached = max(reached, run.end)
        held = held or run.problem
        if held or (limit is not None and reached >= limit):
            break
    return Decided(max(start, min([reached, *begun.values()])), held, aborted)


def left_out(found: Batches, aborted: Sequence[Transaction]) -> Bools:
    """Which batches belong to one of these transactions."""
    chosen = np.zeros(len(found), bool)
    of_producer: dict[int, list[tuple[int, int]]] = {}
    for one in aborted:
        of_producer.setdefault(one.producer_id, []).append((one.first, one.marker))
    transactional = found.transactional & np.isin(found.producer_id, list(of_producer))
    for producer_id in np.unique(found.producer_id[transactional]).tolist():
        at = np.flatnonzero(transactional & (found.producer_id == producer_id))
        first, marker = np.array(sorted(of_producer[producer_id])).T
        nearest = np.searchsorted(first, found.base_offset[at], side="right") - 1
        chosen[at] = (nearest >= 0) & (found.base_offset[at] < marker[nearest])
    return chosen
