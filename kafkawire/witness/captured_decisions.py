"""`DecidedTransactions`: the coordinators' decisions on transactions whose data was captured: copies of
`__transaction_state` -> packed rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

import numpy as np

from kafkawire.records import Batch, Damage
from kafkawire.records.array_types import Bools, Int64
from kafkawire.transactions.coordinator.coordinator_log import UnreadableRecord, coordinator_records, registration
from kafkawire.transactions.coordinator.coordinator_rules import raises_epoch
from kafkawire.transactions.coordinator.decisions import Decision, Decisions
from kafkawire.transactions.facts import TRANSACTION_STATE, Registration
from kafkawire.transactions.facts import Place as LogPlace
from kafkawire.witness.contents import mixed
from kafkawire.witness.ended import producer_keys
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.packed_rows import PackedRows

_DECIDED = np.dtype([("key", "<u8"), ("committed", "i1"), ("listed", "?"), ("offset", "<i8"), ("log", "<i4")])
_PENDING = 4096


class DecidedTransactions:
    """Takes copies of partitions of `__transaction_state`. Kept are transactions that have an epoch of their own
    (KIP-890): others cannot be found by producer id and epoch.

    Args:
        producer_ids: those whose transactions are kept.
    """

    def __init__(self, producer_ids: Int64) -> None:
        self._wanted = set(producer_ids.tolist())
        self._chunks: list[np.ndarray[tuple[int], np.dtype[np.void]]] = []
        self._members: list[np.ndarray[tuple[int], np.dtype[np.uint64]]] = []
        self.logs: list[str] = []

    def add(self, path: str, number: int, items: Iterable[Batch | Damage]) -> None:
        """Read a copy.

        Args:
            path: of the copy. number: of the partition. items: its batches, in order.

        Raises:
            OSError: a file cannot be read.
        """
        self.logs.append(path)
        pending: list[Decision] = []
        for decision in _decisions(LogPlace(path, TRANSACTION_STATE, number), items):
            if decision.producer_id in self._wanted and raises_epoch(decision.version):
                pending.append(decision)
                if len(pending) >= _PENDING:
                    self._pack(pending)
        self._pack(pending)

    def _pack(self, pending: list[Decision]) -> None:
        if not pending:
            return
        packed = np.empty(len(pending), _DECIDED)
        ids, epochs = (
            np.array([getattr(one, name) for one in pending], np.int64) for name in ("producer_id", "lowest_epoch")
        )
        packed["key"] = producer_keys(ids, epochs)
        packed["committed"] = [one.outcome == "COMMIT" for one in pending]
        packed["listed"] = [one.partitions is not None for one in pending]
        packed["offset"], packed["log"] = [one.offset for one in pending], len(self.logs) - 1
        self._chunks.append(packed)
        for key, one in zip(packed["key"], pending, strict=True):
            if one.partitions:
                places = np.array([_place_number(place) for place in one.partitions], np.uint64)
                self._members.append(mixed(np.full(len(places), key, np.uint64), places))
        pending.clear()

    def finish(self) -> None:
        """No copy follows."""
        found = np.concatenate([np.empty(0, _DECIDED), *self._chunks])
        self._rows = PackedRows.of(found[np.argsort(found["key"], kind="stable")])
        self._all = np.sort(np.concatenate([np.empty(0, np.uint64), *self._members]))
        self._chunks, self._members = [], []

    def outside(self, place: Place, producer_id: Int64, epoch: Int64) -> tuple[Bools, Int64]:
        """Whether batches of a partition are of transactions that were decided without the partition; and the rows of
        the decisions."""
        keys = producer_keys(producer_id, epoch)
        rows = self._rows
        if not len(rows):
            return np.zeros(len(keys), bool), np.zeros(len(keys), np.int64)
        at = np.minimum(np.searchsorted(rows["key"], keys), len(rows) - 1)
        known = (rows["key"][at] == keys) & rows["listed"][at]
        wanted = mixed(keys, np.full(len(keys), _place_number(place), np.uint64))
        inside = np.zeros(len(keys), bool)
        if len(self._all):
            inside = self._all[np.minimum(np.searchsorted(self._all, wanted), len(self._all) - 1)] == wanted
        return known & ~inside, at

    def source(self, row: int) -> tuple[str, int, bool]:
        """The copy and the offset of a decision, and whether it is COMMIT."""
        rows = self._rows
        return self.logs[int(rows["log"][row])], int(rows["offset"][row]), bool(rows["committed"][row])


def _decisions(place: LogPlace, items: Iterable[Batch | Damage]) -> Iterator[Decision]:
    decided, before = Decisions(), dict[str, Registration]()
    for item in items:
        if not isinstance(item, Batch):
            continue
        for record in coordinator_records(item):
            found = None if isinstance(record, UnreadableRecord) else registration(place, record)
            if isinstance(found, Registration):
                decided.add(before.get(found.transactional_id), found)
                before[found.transactional_id] = found
        yield from decided.drain()
    yield from decided.drain(last=True)


def _place_number(place: Place) -> int:
    return int.from_bytes(blake2b(f"{place[0]}\0{place[1]}".encode("utf-8", "surrogateescape"), digest_size=8).digest())
