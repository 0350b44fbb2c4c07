"""Digests of a replica's batches, one a range of offsets: where those of two replicas are equal, so are the batches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Int64
from kafkawire.wire.backend import native

#: Whether the native engine makes them.
ENGINE = native is not None

_RANGE_BITS = 16
#: Offsets in a range.
RANGE_OFFSETS = 1 << _RANGE_BITS

#: `number`: of the range, its first offset divided by `RANGE_OFFSETS`. `first`, `last`: the lowest base offset and the
#: highest last offset of its batches, which are those that begin in it. `digest`: a sum, whatever their order.
DIGEST = np.dtype([("number", "<i8"), ("first", "<i8"), ("last", "<i8"), ("batches", "<i8"), ("digest", "<u8")])

Digests = npt.NDArray[np.void]
#: `Digests`, as they are in memory.
PackedDigests = bytes

#: How the fields after `number` are added up.
_SUMS = (np.minimum, np.maximum, np.add, np.add)

_ODD = tuple(np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F))
#: Steps of `spread`.
_STEPS = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))


def digests_of(base: Int64, last: Int64, crc: npt.NDArray[np.integer]) -> Digests:
    """The digests of some batches.

    Args:
        base, last: their offsets. `crc`: their checksums, which cover all else but the leader's epoch.
    """
    if ENGINE:
        assert native is not None
        columns = (np.ascontiguousarray(column) for column in (base, last, crc.astype(np.uint64)))
        packed: npt.NDArray[np.uint8] = native.range_digests(*columns)
        return packed.view(DIGEST)
    mixed = base.astype(np.uint64) * _ODD[0] + last.astype(np.uint64) * _ODD[1] + crc.astype(np.uint64)
    return _summed(base >> _RANGE_BITS, base, last, np.ones(len(base), np.int64), spread(mixed))


def spread(numbers: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Hashes of numbers: the finalizer of SplitMix64 spreads each of their bits over all."""
    for shift, factor in _STEPS:
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * factor
    return numbers ^ (numbers >> np.uint64(31))


def joined(several: Iterable[Digests]) -> Digests:
    """The digests of several parts of a log."""
    parts = [one for one in several if len(one)]
    if len(parts) == 1:
        return parts[0]
    found = np.concatenate([np.empty(0, DIGEST), *parts])
    return _summed(*(found[name] for name in DIGEST.names or ()))


def _summed(*columns: npt.NDArray[Any]) -> Digests:
    """The digests with one element for each range. `columns`: in the order of `DIGEST`."""
    number = columns[0]
    if not (number[1:] >= number[:-1]).all():
        order = np.argsort(number, kind="stable")
        columns = tuple(column[order] for column in columns)
        number = columns[0]
    starts = np.flatnonzero(np.append(True, np.diff(number) != 0)[: len(number)])
    added = np.empty(len(starts), DIGEST)
    if len(starts):
        added["number"] = number[starts]
        for name, column, sums in zip(DIGEST.names[1:], columns[1:], _SUMS, strict=True):  # type: ignore[index]
            added[name] = sums.reduceat(column, starts)
    return added
