"""Where in a stretch of bytes a batch could begin, by sane values in its header. A checksum has the last word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.records.compression import CODECS
from kafkawire.records.header import (
    CODEC_MASK,
    HEADER,
    HIGHEST_OFFSET,
    KNOWN_ATTRIBUTES,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    SHORTEST,
)
from kafkawire.records.legacy import KEY_AT, LEGACY_CODECS

if TYPE_CHECKING:
    from kafkawire.records.arrays import Bools, Bytes, Int64

#: As many bytes from a position on are looked at.
REACH = HEADER.size


def candidates(window: bytes, count: int, left: int, longest: int) -> list[tuple[int, int]]:
    """Positions below `count` at which a header of sane values begins, ascending, and its batch's size in bytes.

    Args:
        window: reaches over the header of a batch that begins at `count`, unless the bytes end before.
        left: how many bytes there are from the window's beginning on.
        longest: most bytes of a batch.
    """
    import numpy as np

    count = min(count, len(window))
    # Zeros behind the end: a message of magic 0 can be shorter than a header of magic 2.
    data = np.frombuffer(window + bytes(REACH), dtype=np.uint8)
    # The magic, and the highest bytes of offset and length; then ever more of the header at ever fewer places.
    high = min(0x7F, longest >> 24)
    kept = (data[MAGIC_AT : MAGIC_AT + count] <= MAGIC) & (data[:count] < 0x80) & (data[8 : 8 + count] <= high)
    kept &= (data[9 : 9 + count] | data[10 : 10 + count] | data[11 : 11 + count]) != 0
    at = np.flatnonzero(kept)
    size = _int32(data, at + 8) + LOG_OVERHEAD
    kept = (size >= SHORTEST[0] + LOG_OVERHEAD) & (size <= np.minimum(longest, left - at))
    at, size = at[kept], size[kept]
    batches = data[at + MAGIC_AT] == MAGIC
    kept = np.empty(len(at), bool)
    kept[batches] = _batches(data, at[batches], size[batches])
    kept[~batches] = _messages(data, at[~batches], size[~batches])
    return list(zip(at[kept].tolist(), size[kept].tolist(), strict=True))


def _batches(data: Bytes, at: Int64, size: Int64) -> Bools:
    attributes = data[at + 21].astype(int) << 8 | data[at + 22]
    delta, count = _int32(data, at + 23), _int32(data, at + 57)
    sane = size >= HEADER.size
    sane &= (attributes <= KNOWN_ATTRIBUTES) & (attributes & CODEC_MASK < len(CODECS))
    sane &= _int32(data, at + 12) >= -1
    sane &= (delta >= 0) & (count >= 0) & (count <= delta + 1)
    return _sane_offset(data, at, sane)


def _messages(data: Bytes, at: Int64, size: Int64) -> Bools:
    import numpy as np

    magic, attributes = data[at + MAGIC_AT].astype(int), data[at + 17]
    key_at = at + KEY_AT[0] + 8 * magic
    key = _int32(data, key_at)
    # Key and value fill the message, as far as the window tells.
    value_at = key_at + 4 + np.maximum(key, 0)
    sane = (
        (attributes < 0x10) & (attributes & CODEC_MASK < len(LEGACY_CODECS)) & (key >= -1) & (value_at + 4 <= at + size)
    )
    sane &= (attributes & CODEC_MASK == 0) | (key == -1)  # wrappers have no key
    inside = sane & (value_at + 4 <= len(data) - REACH)
    value = _int32(data, value_at[inside])
    sane[inside] &= (value >= -1) & (value_at[inside] + 4 + np.maximum(value, 0) == (at + size)[inside])
    return _sane_offset(data, at, sane)


def _sane_offset(data: Bytes, at: Int64, sane: Bools) -> Bools:
    sane[sane] &= _int32(data, at[sane]) < HIGHEST_OFFSET >> 32
    return sane


def _int32(data: Bytes, at: Int64) -> Int64:
    number: Int64 = data[at].astype(int)
    for i in (1, 2, 3):
        number = number << 8 | data[at + i]
    number -= (number >> 31) << 32
    return number
