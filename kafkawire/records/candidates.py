"""Where in a stretch of bytes a batch could begin, by sane values in its header. A checksum has the last word."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kafkawire.records.batch import HEADER, KNOWN_ATTRIBUTES, LOG_OVERHEAD, MAGIC
from kafkawire.records.compression import CODECS
from kafkawire.records.legacy import KEY_AT, SHORTEST

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: A base offset above this is not believed: the offsets after it would overflow.
HIGHEST_OFFSET = (1 << 63) - (1 << 32)
#: The shortest batch of magic 2: a header, without what its length does not count.
SHORTEST_BATCH = HEADER.size - LOG_OVERHEAD
#: As many bytes from a position on are looked at.
REACH = HEADER.size
_MAGIC_AT = 16
_LENGTH = struct.Struct(">i")


def candidates(window: bytes, count: int, left: int, longest: int) -> list[int]:
    """Positions below `count` at which a header of sane values begins.

    Args:
        window: reaches over the header of a batch that begins at `count`, unless the bytes end before.
        left: how many bytes there are from the window's beginning on.
        longest: most bytes of a batch.
    """
    import numpy as np

    count = min(count, len(window))
    # Zeros behind the end: a message of magic 0 can be shorter than a header of magic 2.
    window += bytes(REACH)
    data = np.frombuffer(window, dtype=np.uint8)
    # The magic, and the highest bytes of offset and length; then ever more of the header at ever fewer places.
    high = min(0x7F, longest >> 24)
    at = np.flatnonzero(
        (data[_MAGIC_AT : _MAGIC_AT + count] <= MAGIC) & (data[:count] < 0x80) & (data[8 : 8 + count] <= high)
    )
    length = _int32(data, at + 8)
    kept = (length >= SHORTEST[0]) & (length <= np.minimum(longest, left - at) - LOG_OVERHEAD)
    at, length = at[kept], length[kept]
    batches = data[at + _MAGIC_AT] == MAGIC
    found = np.concatenate(
        (_batches(data, at[batches], length[batches]), _messages(data, at[~batches], length[~batches]))
    )
    found.sort()
    return [int(p) for p in found if window[p + _MAGIC_AT] == MAGIC or _fills(window, int(p))]


def _batches(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.intp], length: npt.NDArray[np.int64]
) -> npt.NDArray[np.intp]:
    attributes = data[at + 21].astype(int) << 8 | data[at + 22]
    delta, count = _int32(data, at + 23), _int32(data, at + 57)
    sane = length >= SHORTEST_BATCH
    sane &= (attributes <= KNOWN_ATTRIBUTES) & (attributes & 7 < len(CODECS))
    sane &= _int32(data, at + 12) >= -1
    sane &= (delta >= 0) & (count >= 0) & (count <= delta + 1)
    sane &= _int32(data, at) < HIGHEST_OFFSET >> 32
    return at[sane]


def _messages(
    data: npt.NDArray[np.uint8], at: npt.NDArray[np.intp], length: npt.NDArray[np.int64]
) -> npt.NDArray[np.intp]:
    magic, attributes = data[at + _MAGIC_AT], data[at + 17]
    key = _int32(data, at + 18 + 8 * magic.astype(int))
    sane = length >= SHORTEST[0] + 8 * magic.astype(int)
    sane &= (attributes < 0x10) & (attributes & 7 < 4)
    sane &= (key >= -1) & (key <= length)
    sane &= _int32(data, at) < HIGHEST_OFFSET >> 32
    return at[sane]


def _int32(data: npt.NDArray[np.uint8], at: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    number = (data[at].astype(int) << 24) | (data[at + 1].astype(int) << 16) | (data[at + 2].astype(int) << 8)
    number |= data[at + 3]
    return number - ((number >> 31) << 32)


def _fills(window: bytes, position: int) -> bool:
    """Whether a message's key and value fill its size, as far as the window tells."""
    end = position + LOG_OVERHEAD + _LENGTH.unpack_from(window, position + 8)[0]
    key_at = position + KEY_AT[window[position + _MAGIC_AT]]
    value_at = key_at + 4 + max(0, _LENGTH.unpack_from(window, key_at)[0])
    if value_at + 4 > end:
        return False
    if value_at + 4 > len(window):
        return True
    (value,) = _LENGTH.unpack_from(window, value_at)
    return bool(value >= -1 and value_at + 4 + max(0, value) == end)
