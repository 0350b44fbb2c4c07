"""The rules by which transactions of a partition begin and end, and read_committed consumers stop (KIP-98; Kafka's
`ProducerStateManager`, and `UnifiedLog.fetchLastStableOffsetMetadata`).

Data of a transaction begins one of its producer, unless one is open. A COMMIT, an ABORT and a marker whose record
compaction removed (EMPTY) end it, whatever epochs they carry; a control batch that cannot be read as a marker ends none
(`records.control.marker_name`). A transaction holds all data of its producer from its first offset up to its marker.

`TransactionScan` adds what missing offsets leave unknown, `transactions.Replay` what a broker keeps of producers. The
native engine's pass over a log (`native/src/log/producers.rs`) has the same rules, and takes many batches at once.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from kafkawire.records.control import DATA_CODE, MALFORMED_CODE
from kafkawire.wire.backend import native

if TYPE_CHECKING:  # brokers keep a state without NumPy
    from kafkawire.records.array_types import Int8, Int64

#: Batches from which on the native engine is faster than a step for each.
_MANY = 32


class Ongoing(OrderedDict[int, int]):
    """The open transactions of a partition: producer id -> first offset, in the order in which they began."""

    __slots__ = ()

    def begin(self, producer_id: int, offset: int) -> int:
        """Take data of a transaction. Returns the first offset of the transaction."""
        return self.setdefault(producer_id, offset)

    def end(self, producer_id: int) -> int:
        """Take a marker. Returns the first offset of the transaction that it ends; -1: none was open."""
        return self.pop(producer_id, -1)

    def take(self, producer_ids: Int64, offsets: Int64, codes: Int8) -> Int64:
        """Take batches of transactions, in order. `codes`: of `records.control`; malformed markers are passed over.
        Returns of each the first offset of the transaction that it belongs to, or ends; -1: none."""
        import numpy as np

        if native is None or len(codes) < _MANY:
            columns = (column.tolist() for column in (producer_ids, offsets, codes))
            return np.fromiter((self._step(*one) for one in zip(*columns, strict=True)), np.int64, len(codes))
        before: dict[int, int] = self
        if len(self) > len(codes):  # most batches are of other producers
            before = {one: self[one] for one in set(producer_ids.tolist()) if one in self}
        open_before = (np.fromiter(column, np.int64, len(before)) for column in (before.keys(), before.values()))
        arrays = map(np.ascontiguousarray, (producer_ids, offsets, codes))
        found: Int64
        found, ended, begun = native.transactions_of(tuple(open_before), *arrays)
        for producer_id in ended.tolist():
            del self[producer_id]
        for producer_id, first_offset in zip(*(column.tolist() for column in begun), strict=True):
            self[producer_id] = first_offset
        return found

    def _step(self, producer_id: int, offset: int, code: int) -> int:
        if code == DATA_CODE:
            return self.begin(producer_id, offset)
        return -1 if code == MALFORMED_CODE else self.end(producer_id)

    def first_unstable(self, otherwise: int) -> int:
        """The first offset of the earliest of them."""
        return next(iter(self.values()), otherwise)


def last_stable_offset(high_watermark: int, first_unstable: int, log_start: int) -> int:
    """Where read_committed readers stop.

    Args:
        first_unstable: first offset of the earliest transaction that is open or whose marker is at or above the high
            watermark; an offset below the log start counts as the log start.
    """
    return min(high_watermark, max(log_start, first_unstable))
