"""`Selection`: the criteria for batches, records and entries of small files.

A criterion that is None selects everything. Rows that have no field for a given criterion (checkpoints, properties) are
left out. Damage that was read is never left out. Ranges are half open; an end that is None is open.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kafkawire import rows
from kafkawire.errors import RecordError
from kafkawire.records import Batch, Record

Range = tuple[int | None, int | None]


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Criteria for rows.

    Attributes:
        offsets, times: half-open ranges of offsets and of timestamps (epoch milliseconds).
        producer_id: of the batches, transactions and producers.
        key: of the records, as bytes.
        name_at: where the keys of the records have the transactional id, group or topic that `key` may be, too, as a
            string with an int16 length (`Options.selection_of`); None: nowhere.
        control: True for control batches only, False for data only.
    """

    offsets: Range | None = None
    times: Range | None = None
    producer_id: int | None = None
    key: bytes | None = None
    name_at: int | None = None
    control: bool | None = None

    @property
    def all(self) -> bool:
        """Whether nothing is left out."""
        return self == _ALL

    def batch(self, batch: Batch) -> bool:
        """Whether a batch contains something selected. Its records are read only where its header does not decide;
        a batch with unreadable records is selected."""
        if self.offsets and not _overlap(self.offsets, batch.base_offset, batch.last_offset):
            return False
        if self.producer_id is not None and batch.producer_id != self.producer_id:
            return False
        if self.control is not None and batch.is_control != self.control:
            return False
        # Of the records' timestamps only the newest is in the header.
        if self.times and not _above(self.times, batch.max_timestamp):
            return False
        undecided = self.times and not _within(self.times, batch.max_timestamp)
        if self.key is None and not undecided:
            return True
        try:
            return any(self.record(record) for record in batch.records)
        except RecordError:
            return True

    def record(self, record: Record) -> bool:
        """Whether a record of a selected batch is selected itself."""
        return (
            (self.offsets is None or _within(self.offsets, record.offset))
            and (self.times is None or _within(self.times, record.timestamp))
            and (self.key is None or record.key == self.key or self._names(record.key))
        )

    def _names(self, key: bytes | memoryview | None) -> bool:
        return self.name_at is not None and _name_in(key, self.name_at) == self.key

    def row(self, row: rows.Row) -> bool:
        """Whether an entry of a small file is selected."""
        if isinstance(row, (rows.DamageRow, rows.Check)) or self.all:
            return True
        fields = _FIELDS.get(type(row), {})
        for criterion, wanted in self._criteria():
            names = fields.get(criterion)
            if names is None:
                return False
            values = [getattr(row, name) for name in names]
            if criterion == "producer_id":
                if values != [wanted]:
                    return False
            elif not _overlap(wanted, min(values), max(values)):
                return False
        return True

    def _criteria(self) -> list[tuple[str, Any]]:
        found = ((name, getattr(self, name)) for name in self.__struct_fields__ if name != "name_at")
        return [(name, wanted) for name, wanted in found if wanted is not None]


def _name_in(key: bytes | memoryview | None, at: int) -> bytes | None:
    """The string with an int16 length in a key. None where there is none."""
    start = at + 2
    if key is None or len(key) < start:
        return None
    end = start + int.from_bytes(key[at:start], signed=True)
    return bytes(key[start:end]) if start <= end <= len(key) else None


_ALL = Selection()

#: Rows of small files -> criterion -> the fields that it is about: one value, or the first and the last of a range.
_FIELDS: dict[type[rows.Row], dict[str, tuple[str, ...]]] = {
    rows.Index: {"offsets": ("offset",)},
    rows.TimeIndex: {"offsets": ("offset",), "times": ("timestamp",)},
    rows.TxnIndex: {"offsets": ("first_offset", "last_offset"), "producer_id": ("producer_id",)},
    rows.Snapshot: {"times": ("timestamp",), "producer_id": ("producer_id",)},
}


def _above(wanted: Range, value: int) -> bool:
    return wanted[0] is None or value >= wanted[0]


def _below(wanted: Range, value: int) -> bool:
    return wanted[1] is None or value < wanted[1]


def _within(wanted: Range, value: int) -> bool:
    return _above(wanted, value) and _below(wanted, value)


def _overlap(wanted: Range, first: int, last: int) -> bool:
    return _above(wanted, last) and _below(wanted, first)
