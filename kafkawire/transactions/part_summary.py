"""`PartSummary`: what a part of a segment adds to its partition; `merge`; its form as bytes."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kafkawire.transactions.coordinator_log import UnreadableRecord
from kafkawire.transactions.facts import CoordinatorRecord
from kafkawire.transactions.segment_scan import PartScan
from kafkawire.transactions.span import Span
from kafkawire.transactions.span_merge import followed_by, fused


class PartSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a segment.

    Attributes:
        base_offset: in the name of the segment.
        start, end: its first byte, and one behind its last; None: the end of the file.
        scan: its offsets and counts. `records`: of `__transaction_state`.
    """

    base_offset: int = 0
    start: int
    end: int | None
    scan: PartScan
    spans: tuple[Span, ...] = ()
    records: tuple[CoordinatorRecord | UnreadableRecord, ...] = ()


#: The summaries of consecutive parts of a partition, merged as far as that can be.
LogSummary = tuple[PartSummary, ...]


def merge(one: LogSummary, other: LogSummary) -> LogSummary:
    """The summary of two stretches of a log, of which the second follows the first.

    A monoid: `()` is the identity, and any bracketing gives the same facts (`ReplicaMerge`). Parts of a segment become
    one part. They stay two where offsets go back, or where the second was judged from another state than the first
    leaves, as clocks that are far apart and forbidden batches make it.

    The cost grows with the producers of both and copies 69 bytes for each ended transaction; not with the batches.
    """
    if not one or not other:
        return one or other
    joined = _joined(one[-1], other[0])
    return one + other if joined is None else (*one[:-1], joined, *other[1:])


def _joined(one: PartSummary, other: PartSummary) -> PartSummary | None:
    if one.base_offset != other.base_offset:
        return None
    if one.start == one.end or other.start == other.end:
        return other if one.start == one.end else one
    if one.end != other.start:
        return None
    first = other.scan.first_offset
    if first is not None and one.scan.first_offset is not None and first < one.scan.reached:
        return None
    if not all(span.regular for span in (*one.spans, *other.spans)):
        return None
    if other.spans and other.spans[0].first_offset < one.scan.reached:  # behind a batch without a producer id
        return None
    spans = tuple(followed_by(span, one.scan.begins_at(first)) for span in other.spans)
    if one.spans and spans and spans[0].joint <= one.spans[-1].last_offset:
        both = fused(one.spans[-1], spans[0])
        if both is None:
            return None
        spans = (*one.spans[:-1], both, *spans[1:])
    else:
        spans = one.spans + spans
    records = one.records + other.records
    return replace(one, end=other.end, scan=one.scan.then(other.scan), spans=spans, records=records)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(PartSummary)


def encode(summary: PartSummary) -> bytes:
    """The summary as bytes (MessagePack)."""
    return _ENCODER.encode(summary)


def decode(data: bytes) -> PartSummary:
    """The reverse of `encode`."""
    return _DECODER.decode(data)
