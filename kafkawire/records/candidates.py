"""The search for positions at which a batch could begin, by plausible header values. `batch_walk` checks the
checksum."""

from __future__ import annotations

import re
import struct
from functools import cache

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
from kafkawire.wire.backend import native

#: The number of bytes from a position on that are examined.
REACH = HEADER.size
_LENGTH_AT = 8
_LENGTH = struct.Struct(">i")


def candidates(window: bytes, count: int, left: int, longest: int) -> list[tuple[int, int]]:
    """Positions below `count` at which a header of sane values begins, ascending, and its batch's size in bytes.

    Args:
        window: reaches over the header of a batch that begins at `count`, unless the bytes end before.
        left: how many bytes there are from the window's beginning on.
        longest: most bytes of a batch.
    """
    if native is not None:
        found: list[tuple[int, int]] = native.candidates(window, count, left, longest)
        return found
    return search(window, count, left, longest)


def search(window: bytes, count: int, left: int, longest: int) -> list[tuple[int, int]]:
    """`candidates` in pure Python.

    Args:
        window, count, left, longest: see `candidates`.
    """
    # Zeros after the end: a message of magic 0 can be shorter than a header of magic 2.
    data = window + bytes(REACH)
    last = min(count, len(window))
    found = []
    for match in _lengths(min(0x7F, longest >> 24)).finditer(data, _LENGTH_AT):
        at = match.start() - _LENGTH_AT
        if at >= last:
            break
        size = int(_LENGTH.unpack_from(data, at + _LENGTH_AT)[0]) + LOG_OVERHEAD
        magic = data[at + MAGIC_AT]
        if SHORTEST[0] + LOG_OVERHEAD <= size <= min(longest, left - at) and (
            _batch(data, at, size) if magic == MAGIC else _message(data, at, size, magic, len(window))
        ):
            found.append((at, size))
    return found


@cache
def _lengths(high: int) -> re.Pattern[bytes]:
    """The lengths of batches: the highest byte is `high` at most, one of the others is not zero, a magic follows."""
    return re.compile(rb"[\x00-\x%02x](?=(?!\x00{3}).{7}[\x00-\x%02x])" % (high, MAGIC), re.DOTALL)


def _batch(data: bytes, at: int, size: int) -> bool:
    offset, _, epoch, _, _, attributes, delta, *_, count = HEADER.unpack_from(data, at)
    return (
        size >= HEADER.size
        and 0 <= offset < HIGHEST_OFFSET
        and epoch >= -1
        and 0 <= attributes <= KNOWN_ATTRIBUTES
        and attributes & CODEC_MASK < len(CODECS)
        and delta >= 0
        and 0 <= count <= delta + 1
    )


def _message(data: bytes, at: int, size: int, magic: int, end: int) -> bool:
    """Whether a message of magic 0 or 1 could be there; `end` is where the bytes given end."""
    attributes = data[at + MAGIC_AT + 1]
    key_at = at + KEY_AT[magic]
    key = _LENGTH.unpack_from(data, key_at)[0]
    value_at = key_at + _LENGTH.size + max(key, 0)
    codec = attributes & CODEC_MASK
    sane = attributes < 0x10 and codec < len(LEGACY_CODECS) and key >= -1 and value_at + _LENGTH.size <= at + size
    if not sane or (codec and key != -1):  # wrappers have no key
        return False
    # Key and value fill the message, as far as the window reaches.
    if value_at + _LENGTH.size <= end:
        value = _LENGTH.unpack_from(data, value_at)[0]
        if value < -1 or value_at + _LENGTH.size + max(value, 0) != at + size:
            return False
    return bool(0 <= struct.unpack_from(">q", data, at)[0] < HIGHEST_OFFSET)
