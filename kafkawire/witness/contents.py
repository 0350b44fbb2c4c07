"""The checksum of a batch's records, without reading them. Pure.

A batch's CRC-32C covers its header from the attributes on, and its records. A checksum is linear: the part that the
header adds can be removed again. The rest is the checksum of the records alone, which is the same when a producer sends
them again under another producer id, epoch or sequence (KIP-360), and when the broker sets timestamps (LogAppendTime).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Bools, Bytes, Int64
from kafkawire.records.header import CHECKSUMMED, HEADER

UInt32 = npt.NDArray[np.uint32]
UInt64 = npt.NDArray[np.uint64]

#: The content of batches that cannot be compared.
NOT_COMPARABLE = 0

_POLYNOMIAL = 0x82F63B78
#: Bytes of a header that the checksum covers.
_COVERED = HEADER.size - CHECKSUMMED
#: Lengths of records have at most this number of bits.
_LENGTH_BITS = 31
#: Batches that are looked at in one go: what this takes is bounded, and fits a processor's cache.
_CHUNK = 1 << 14

#: Odd factors and the steps of SplitMix64, which spread each bit over all.
_ODD = tuple(map(np.uint64, (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)))
_STEPS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


def record_checksums(data: Bytes, start: Int64, size: Int64, crc: UInt32) -> UInt32:
    """CRC-32C of the records of batches of magic 2, as they are stored (compressed ones as compressed bytes).

    Args:
        data: holds the headers. start: byte offset in it at which each batch begins.
        size: bytes of each batch. crc: the checksum in its header.
    """
    found = np.empty(len(start), np.uint32)
    for first in range(0, len(start), _CHUNK):
        chosen = slice(first, first + _CHUNK)
        header = data[start[chosen, None] + np.arange(CHECKSUMMED, HEADER.size)]
        found[chosen] = crc[chosen] ^ _behind(_header_checksums(header), size[chosen] - HEADER.size)
    return found


def contents(checksum: UInt32, size: Int64, records: Int64, base_timestamp: Int64, comparable: Bools) -> UInt64:
    """A number a batch that is equal where its records are.

    Args:
        checksum: of the records. size: bytes of the batch. records: their number.
        base_timestamp: epoch milliseconds: records hold differences to it.
        comparable: whether the batch still holds what its producer sent; others get NOT_COMPARABLE.
    """
    found = mixed(checksum.astype(np.uint64) << np.uint64(32) | size.astype(np.uint64), base_timestamp, records)
    return np.where(comparable, np.maximum(found, np.uint64(1)), np.uint64(NOT_COMPARABLE))


def mixed(*parts: npt.NDArray[np.integer]) -> UInt64:
    """Numbers of 64 bits that depend on all bits of at most three columns."""
    found = np.zeros(len(parts[0]), np.uint64)
    for part, factor in zip(parts, _ODD, strict=False):
        found = (found ^ part.astype(np.uint64)) * factor
        for shift, by in _STEPS:
            found = (found ^ (found >> np.uint64(shift))) * by
    return found ^ (found >> np.uint64(31))


def _header_checksums(header: Bytes) -> UInt32:
    """CRC-32C of rows of bytes: the sum of what each byte adds, at its place."""
    tables = _by_place()
    found = np.full(len(header), tables.constant, np.uint32)
    for place in range(_COVERED):
        found ^= tables.byte[place][header[:, place]]
    return found


class _ByPlace:
    """What each byte of a header adds to its checksum, by its place; and the checksum of zeros."""

    def __init__(self) -> None:
        table = _table()
        self.byte = np.empty((_COVERED, 256), np.uint32)
        self.byte[-1] = table
        for place in range(_COVERED - 2, -1, -1):
            after = self.byte[place + 1]
            self.byte[place] = table[after & 0xFF] ^ (after >> np.uint32(8))
        state = 0xFFFFFFFF
        for _ in range(_COVERED):
            state = int(table[state & 0xFF]) ^ (state >> 8)
        self.constant = state ^ 0xFFFFFFFF


@cache
def _by_place() -> _ByPlace:
    return _ByPlace()


@cache
def _table() -> UInt32:
    """The remainder of each byte."""
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = np.where(value & 1, (value >> np.uint32(1)) ^ np.uint32(_POLYNOMIAL), value >> np.uint32(1))
    return value


@cache
def _zeros(bit: int) -> npt.NDArray[np.uint32]:
    """What 2 ** bit zero bytes after it make of a checksum: a table for each of its four bytes."""
    if bit == 0:
        table, value = _table(), np.arange(256, dtype=np.uint32)
        low = [table, *(value << np.uint32(shift) for shift in (0, 8, 16))]
        return np.stack(low)
    half = _zeros(bit - 1)
    return np.stack([_applied(half, one) for one in half])


def _applied(tables: npt.NDArray[np.uint32], value: UInt32) -> UInt32:
    found: UInt32 = tables[0][value & 0xFF]
    for place in (1, 2, 3):
        found = found ^ tables[place][(value >> np.uint32(8 * place)) & 0xFF]
    return found


def _behind(checksum: UInt32, length: Int64) -> UInt32:
    """The checksums of the same bytes with this number of zero bytes after each."""
    found = checksum.copy()
    for bit in range(_LENGTH_BITS):
        if not (length >> bit).any():
            break
        at = np.flatnonzero((length >> bit) & 1)
        if len(at):
            found[at] = _applied(_zeros(bit), found[at])
    return found
