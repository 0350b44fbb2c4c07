"""Batches as bytes, well formed and not, that several tests share."""

from __future__ import annotations

import struct
import zlib

import crc32c

from kafkawire.messages import KRaftVersionRecord, SnapshotFooterRecord, SnapshotHeaderRecord, VotersRecord
from kafkawire.records import Batch, Record, build, read

HEADER_FIELDS = ["base_offset", "length", "epoch", "magic", "crc", "attributes", "delta", "base", "max"]
HEADER_FIELDS += ["producer_id", "producer_epoch", "sequence", "count"]


def fixed(data: bytes, **fields: int) -> bytes:
    """`data`, a batch, with header fields changed and the checksum set right."""
    layout = struct.Struct(">qiibIhiqqqhii")
    values = dict(zip(HEADER_FIELDS, layout.unpack_from(data), strict=True)) | fields
    out = layout.pack(*values.values()) + data[61:]
    if "crc" in fields:
        return out
    return out[:17] + crc32c.crc32c(out[21:]).to_bytes(4, "big") + out[21:]


def one(data: bytes) -> Batch:
    (item,) = read(data)
    assert isinstance(item, Batch)
    return item


def payload_batch(payload: bytes, count: int = 1, attributes: int = 0) -> Batch:
    """A batch whose checksum is right and whose records are these bytes."""
    head = build([], last_offset=count - 1 if count else 0)
    return one(fixed(head + payload, length=49 + len(payload), count=count, attributes=attributes))


def message(magic: int, value: bytes) -> bytes:
    """A message of magic 0 or 1."""
    body = struct.pack(">bb", magic, 0) + b"\0" * 8 * magic + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


FIRST, SECOND, THIRD = (build([Record(value=b"x" * 30)] * 3, base_offset=10 * i) for i in range(3))
SIZE = len(FIRST)


def kip853_header(until: int = 0) -> bytes:
    """The first batch of a snapshot of the metadata log under KIP-853: its header, the quorum's version and voters.

    Args:
        until: the newest time of the log that the snapshot replaces.
    """
    held = {
        3: SnapshotHeaderRecord(last_contained_log_timestamp=until),
        5: KRaftVersionRecord(kraft_version=1),
        6: VotersRecord(),
    }
    return build(
        [Record(key=struct.pack(">hh", 0, n), value=one.encode(version=0)) for n, one in held.items()], control=True
    )


def snapshot_footer(offset: int) -> bytes:
    """The last batch of a snapshot of the metadata log."""
    record = Record(key=struct.pack(">hh", 0, 4), value=SnapshotFooterRecord().encode(version=0))
    return build([record], base_offset=offset, control=True)
