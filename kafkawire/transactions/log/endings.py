"""Transactions of a partition that have ended, packed: there may be millions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from kafkawire.records.control import EMPTY_CODE
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.producer_append import OUTCOMES
from kafkawire.transactions.log.spill import Block, Groups, Packed, Spill, of_group

#: An ended transaction: `offset`, `timestamp`, `marker_epoch`, `coordinator_epoch` (`NO_EPOCH` for none) and `outcome`
#: of its marker, the others of its data.
PACKED = np.dtype(
    [
        ("producer_id", "<i8"),
        ("offset", "<i8"),
        ("timestamp", "<i8"),
        ("first_offset", "<i8"),
        ("data_epoch", "<i2"),
        ("marker_epoch", "<i2"),
        ("outcome", "i1"),
        ("last_offset", "<i8"),
        ("first_timestamp", "<i8"),
        ("last_timestamp", "<i8"),
        ("batches", "<i4"),
        ("coordinator_epoch", "<i4"),
    ]
)
#: The fields that the rules need, and an ended transaction with these only: 37 bytes.
_JUDGED = ["producer_id", "offset", "timestamp", "first_offset", "data_epoch", "marker_epoch", "outcome"]
JUDGED = np.dtype([(name, PACKED[name]) for name in _JUDGED])

R = TypeVar("R")

#: Ended transactions that are judged at once.
_AT_ONCE = 1 << 18
#: Bytes of them that are written at once.
_BLOCK_BYTES = 8 << 20


def packed(rows: Sequence[tuple[int, ...]]) -> Packed:
    """Rows with a value a field of `PACKED`."""
    return np.array(list(rows), PACKED)


class Ending(msgspec.Struct, frozen=True, order=True, gc=False):
    """A transaction with data in one partition, and its marker.

    Attributes:
        offset: the marker's. `data_epoch`: of the producer's last batch before it. `timestamp`: the marker's, epoch
            milliseconds, the clock of the partition's leader.
        outcome: COMMIT or ABORT.
    """

    place: Place
    offset: int
    producer_id: int
    data_epoch: int
    marker_epoch: int
    outcome: str
    timestamp: int


def kept_fields(ended: Packed, *, whole: bool) -> Packed:
    """What `Endings` keep. EMPTY: compaction removed the marker's record."""
    if whole:
        return ended
    known = ended["outcome"] != EMPTY_CODE
    found = np.ascontiguousarray(ended if known.all() else ended[known])
    # They are the first ones of each row.
    rows = found.view(np.uint8).reshape(len(found), PACKED.itemsize)[:, : JUDGED.itemsize]
    return np.ascontiguousarray(rows).view(JUDGED).reshape(len(found))


class Endings:
    """The ended transactions of one replica, in chunks of packed rows (`PACKED`).

    Attributes:
        chunks: arrays, in the order of the log. `blocks`: those before, which were written.
        undecided: number of those that were not kept, because nothing can be said of them.

    Args:
        whole: keep all fields, and those whose outcome is not known; otherwise what the rules need.
        without_decisions: no record of a coordinator will be compared with them. Then markers of one transaction are
            compared with each other, which are known by the epoch that they raised; the others are only counted, unless
            they are kept `whole`.
        spill: takes those that are too many for memory; None: none are.
    """

    __slots__ = ("_size", "_spill", "blocks", "chunks", "place", "undecided", "whole", "without_decisions")

    def __init__(
        self, place: Place, *, whole: bool = False, without_decisions: bool = False, spill: Spill | None = None
    ) -> None:
        self.place = place
        self.whole = whole
        self.without_decisions = without_decisions and not whole
        self.chunks: list[Packed] = []
        self.blocks: list[Block] = []
        self.undecided = 0
        self._spill = spill
        self._size = 0

    def __len__(self) -> int:
        return sum(map(len, self.chunks)) + sum(map(len, self.blocks))

    def drain(self) -> list[Packed]:
        """Take out what is there."""
        chunks, self.chunks = self.chunks, []
        return chunks

    def chosen(self, rows: Iterable[npt.NDArray[np.integer]]) -> Endings:
        """Some of them. `rows`: of each chunk the indexes."""
        found = Endings(self.place, whole=self.whole)
        pairs = ((chunk, at) for chunk, at in zip(self.chunks, rows, strict=True) if len(at))
        found.chunks = [chunk if len(at) == len(chunk) else chunk.take(at) for chunk, at in pairs]
        return found

    def add(self, ended: Packed) -> None:
        """Take the next, in the order of their markers."""
        known = kept_fields(ended, whole=self.whole)
        if self.without_decisions and len(known):
            raised = known["marker_epoch"] > known["data_epoch"]
            count = int(raised.sum())
            self.undecided += len(known) - count
            known = known if count == len(known) else known[raised]
        if len(known):
            self.chunks.append(known)
            if self._spill is not None:
                self._size += known.nbytes
                self._spill.hold(known.nbytes)
                if self._size >= _BLOCK_BYTES and self._spill.is_full:
                    self.put_out()

    def share(self, spill: Spill) -> None:
        """Let it take those that are too many, where none did before."""
        if self._spill is None:
            self._spill, self._size = spill, sum(chunk.nbytes for chunk in self.chunks)
            spill.hold(self._size)

    def put_out(self) -> None:
        """Write those that are in memory."""
        if self._spill is None or not self.chunks:
            return
        block = self._spill.write(stacked(self.chunks, self.chunks[0].dtype))
        if block is not None:
            self.blocks.append(block)
            self.chunks, self._size = [], 0

    def group(self, number: int) -> Endings:
        """Those of one group of producer ids (`spill.GROUPS`), in memory."""
        found = Endings(self.place, whole=self.whole)
        found.chunks = of_group(self.chunks, self.blocks, number)
        return found


def stacked(chunks: Sequence[Packed], kind: np.dtype[np.void]) -> Packed:
    """All rows of chunks of one type, one after the other."""
    if len(chunks) == 1:
        return chunks[0]
    data = [np.ascontiguousarray(chunk).view(np.uint8) for chunk in chunks if len(chunk)]  # copied as they are
    return np.concatenate(data).view(kind) if data else np.empty(0, kind)


class Each(Protocol):
    """See `JoinedEndings.groups`."""

    def __call__(self, work: Callable[[int], R], numbers: range, /) -> Iterator[R]: ...


class JoinedEndings(NamedTuple):
    """The ended transactions of several replicas: packed, each with the index of its place in `places`."""

    rows: Packed
    numbers: npt.NDArray[np.int64]
    places: Sequence[Place]

    @classmethod
    def groups(cls, endings: Iterable[Endings], each: Each = map) -> Iterator[JoinedEndings]:
        """All, in groups of about `_AT_ONCE`, each of which has all transactions of its producer ids (`Groups`); one
        at least.

        Args:
            each: calls a function with numbers and returns the results in their order, as `map` does.
        """
        found = [one for one in endings if len(one)]
        count = min(1 + sum(map(len, found)) // _AT_ONCE, 1 << 16)
        of_rows = [[Groups(chunk["producer_id"], count) for chunk in one.chunks] for one in found if count > 1]

        def group(number: int) -> JoinedEndings:
            chunks = [one.chunks for one in found]
            if count > 1:
                chunks = [
                    [of_row.take(chunk, number) for chunk, of_row in zip(one.chunks, groups, strict=True)]
                    for one, groups in zip(found, of_rows, strict=True)
                ]
            numbers = np.repeat(np.arange(len(found)), [sum(map(len, of_place)) for of_place in chunks])
            rows = stacked([chunk for of_place in chunks for chunk in of_place], JUDGED)
            return cls(rows, numbers, [one.place for one in found])

        return each(group, range(count))

    def where(self, chosen: npt.NDArray[np.bool_]) -> JoinedEndings:
        return JoinedEndings(self.rows[chosen], self.numbers[chosen], self.places)

    def by_producer(self) -> Iterator[tuple[int, list[Ending]]]:
        """The transactions of each producer id."""
        if not len(self.rows):
            return
        order = np.argsort(self.rows["producer_id"], kind="stable")
        bounds = np.flatnonzero(np.diff(self.rows["producer_id"][order])) + 1
        for chosen in np.split(order, bounds):
            rows, numbers = self.rows[chosen].tolist(), self.numbers[chosen].tolist()
            yield (
                rows[0][0],
                [
                    Ending(
                        self.places[number], offset, producer_id, data_epoch, marker_epoch, OUTCOMES[outcome], timestamp
                    )
                    for number, (producer_id, offset, timestamp, _, data_epoch, marker_epoch, outcome) in zip(
                        numbers, rows, strict=True
                    )
                ],
            )
