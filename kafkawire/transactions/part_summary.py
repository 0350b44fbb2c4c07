"""`PartSummary`: what a part of a segment adds to its partition; its form as bytes."""

from __future__ import annotations

import msgspec

from kafkawire.transactions.coordinator_log import UnreadableRecord
from kafkawire.transactions.facts import CoordinatorRecord
from kafkawire.transactions.segment_scan import PartScan
from kafkawire.transactions.span import Span


class PartSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a segment.

    Attributes:
        start, end: its first byte, and one behind its last; None: the end of the file.
        scan: its offsets and counts. `records`: of `__transaction_state`.
    """

    start: int
    end: int | None
    scan: PartScan
    spans: tuple[Span, ...] = ()
    records: tuple[CoordinatorRecord | UnreadableRecord, ...] = ()


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(PartSummary)


def encode(summary: PartSummary) -> bytes:
    """The summary as bytes (MessagePack)."""
    return _ENCODER.encode(summary)


def decode(data: bytes) -> PartSummary:
    """The reverse of `encode`."""
    return _DECODER.decode(data)
