"""`PartColumns`: what a part of a segment adds to its partition; its form as bytes."""

from __future__ import annotations

import msgspec

from kafkawire.transactions.coordinator.coordinator_log import UnreadableRecord
from kafkawire.transactions.coordinator.id_columns import CoordinatorFact, IdColumns
from kafkawire.transactions.coordinator.packed_ids import PackedIds, packed_ids, unpacked_ids
from kafkawire.transactions.facts import CoordinatorRecord
from kafkawire.transactions.log.appends import Appends
from kafkawire.transactions.log.packed_appends import PackedAppends, packed, unpacked
from kafkawire.transactions.parts.segment_scan import PartScan


class PartColumns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A part of a segment.

    Attributes:
        start, end: its first byte, and one after its last; None: the end of the file.
        scan: its offsets and counts.
        appends: its batches of producers, in order. `records`: of `__transaction_state`.
    """

    start: int
    end: int | None
    scan: PartScan
    appends: tuple[Appends, ...] = ()
    records: tuple[CoordinatorFact, ...] = ()


class _Encoded(msgspec.Struct, frozen=True, array_like=True):
    """A part of a segment with packed columns."""

    start: int
    end: int | None
    scan: PartScan
    appends: PackedAppends | None
    records: tuple[PackedIds | CoordinatorRecord | UnreadableRecord, ...]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(_Encoded)


def encode(part: PartColumns) -> bytes:
    """The part as bytes (MessagePack)."""
    appends = packed(Appends.joined(part.appends)) if part.appends else None
    records = tuple(packed_ids(one) if isinstance(one, IdColumns) else one for one in part.records)
    return _ENCODER.encode(_Encoded(part.start, part.end, part.scan, appends, records))


def decode(data: bytes) -> PartColumns:
    """The reverse of `encode`.

    Raises:
        ValueError, msgspec.MsgspecError: something else.
    """
    found = _DECODER.decode(data)
    appends = () if found.appends is None else (unpacked(found.appends),)
    records = tuple(unpacked_ids(one) if isinstance(one, PackedIds) else one for one in found.records)
    return PartColumns(start=found.start, end=found.end, scan=found.scan, appends=appends, records=records)
