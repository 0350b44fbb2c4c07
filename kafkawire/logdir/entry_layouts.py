"""The fixed binary layouts of index files, declared once with construct; `struct` and NumPy read them in bulk.

`struct_of` and `dtype_of` make the type of an entry out of its declaration, so that they cannot differ.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from construct import Int16sb, Int32sb, Int32ub, Int64sb, Struct

if TYPE_CHECKING:
    import numpy as np

#: `.index` (Kafka's `OffsetIndex`): an offset, relative to the segment's, and where in the segment its batch is.
OFFSET_ENTRY = Struct("relative_offset" / Int32sb, "log_position" / Int32sb)

#: `.timeindex` (`TimeIndex`): no record up to that offset, relative to the segment's, is newer.
TIME_ENTRY = Struct("timestamp" / Int64sb, "relative_offset" / Int32sb)

#: `.txnindex` (`TransactionIndex`, KIP-98): the version, then `AbortedTxn`.
ABORTED_ENTRY = Struct(
    "version" / Int16sb,
    "producer_id" / Int64sb,
    "first_offset" / Int64sb,
    "last_offset" / Int64sb,
    "last_stable_offset" / Int64sb,
)

#: `.snapshot` (`ProducerStateManager`): the CRC-32C is that of all bytes after it.
SNAPSHOT_HEAD = Struct("version" / Int16sb, "crc" / Int32ub, "count" / Int32sb)
SNAPSHOT_CHECKSUMMED = 6

#: A producer of a snapshot: `ProducerSnapshot`'s `ProducerEntry`.
PRODUCER_ENTRY = Struct(
    "producer_id" / Int64sb,
    "epoch" / Int16sb,
    "last_sequence" / Int32sb,
    "last_offset" / Int64sb,
    "offset_delta" / Int32sb,
    "timestamp" / Int64sb,
    "coordinator_epoch" / Int32sb,
    "current_txn_first_offset" / Int64sb,
)


def struct_of(entry: Any) -> struct.Struct:
    """An entry as a tuple of its fields."""
    return struct.Struct(">" + "".join(field.subcon.fmtstr[-1] for field in entry.subcons))


def dtype_of(entry: Any) -> np.dtype[Any]:
    """The NumPy record type of an entry: big-endian integers without gaps, under the names of the declaration."""
    import numpy as np

    kinds = {"h": ">i2", "i": ">i4", "l": ">i4", "q": ">i8", "H": ">u2", "I": ">u4", "L": ">u4", "Q": ">u8"}
    return np.dtype([(field.name, kinds[field.subcon.fmtstr[-1]]) for field in entry.subcons])
