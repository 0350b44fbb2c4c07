"""A batch's header: where its fields lie, by magic, and what its bits mean (natively `native/src/records/header.rs`).

The header of magic 2 (KIP-98; Kafka's `DefaultRecordBatch`) has 61 bytes. A message of magic 0 or 1 (`LegacyRecord`)
begins in a similar way: offset, length, 4 bytes (a checksum instead of the leader epoch), and the magic at the same
place.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkawire.wire.values import Buffer


MAGIC = 2

#: baseOffset, batchLength, partitionLeaderEpoch, magic, crc, attributes, lastOffsetDelta, baseTimestamp, maxTimestamp,
#: producerId, producerEpoch, baseSequence, recordCount
HEADER = struct.Struct(">qiibIhiqqqhii")
#: What the length does not count: offset and length.
LOG_OVERHEAD = 12
MAGIC_AT = 16
#: Where the checksummed bytes begin, with the attributes. Magic 0 and 1: with the magic.
CHECKSUMMED = 21
#: The least length, by magic: a header without records; a message whose key and value are null.
SHORTEST = {0: 14, 1: 22, MAGIC: HEADER.size - LOG_OVERHEAD}
#: A base offset above this is not believed: the offsets after it would overflow.
HIGHEST_OFFSET = (1 << 63) - (1 << 32)

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40
KNOWN_ATTRIBUTES = 0x7F

_LENGTH = struct.Struct(">i")


def length_of(head: memoryview) -> int:
    """The length in a header of any magic, of which at least 12 bytes are there."""
    return int(_LENGTH.unpack_from(head, 8)[0])


def stored_checksum(batch: memoryview) -> int:
    """The checksum that a batch of any magic states."""
    end = CHECKSUMMED if batch[MAGIC_AT] == MAGIC else MAGIC_AT
    return int.from_bytes(batch[end - 4 : end], "big")


def checksum(batch: memoryview) -> int:
    """The checksum of a whole batch's bytes: CRC-32C; magic 0 and 1: CRC-32."""
    return crc32c(batch[CHECKSUMMED:]) if batch[MAGIC_AT] == MAGIC else zlib.crc32(batch[MAGIC_AT:])


def crc32c(data: Buffer, before: int = 0) -> int:
    """The checksum CRC-32C. `before`: that of the bytes in front of these."""
    # On first use: the package reads its metadata, which takes as long as all other imports of a command.
    from crc32c import crc32c as of_bytes

    return of_bytes(data, before)
