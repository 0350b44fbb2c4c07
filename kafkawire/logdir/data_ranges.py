"""`DataRanges`: ranges of offsets of producers' data, by which the offsets of many batches are looked up at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkawire.records.array_types import Bools, Int64


class DataRange(NamedTuple):
    """Transactional data of a producer: offsets `[first, end)`."""

    producer_id: int
    first: int
    end: int


class DataRanges(NamedTuple):
    """Ranges in the order of their ends, one in each element of the arrays. `least`: the lowest `first` of a range and
    all after it."""

    producer_id: Int64
    first: Int64
    end: Int64
    least: Int64

    def within(self, low: int, high: int) -> DataRanges:
        """The ranges that have offsets from `low` up to `high`, and perhaps a few others."""
        chosen = slice(int(self.end.searchsorted(low, "right")), int(self.least.searchsorted(high)))
        return DataRanges(*(array[chosen] for array in self))

    def cover(self, producer_id: Int64, offset: Int64) -> Bools:
        """For each pair of a producer id and an offset, whether it is in one of the ranges."""
        covered = np.zeros(len(offset), bool)
        if not len(self.first) or not len(offset):
            return covered
        near = self.within(int(offset.min()), int(offset.max()) + 1)
        if not len(near.first):
            return covered
        order = np.argsort(offset, kind="stable")
        offset = offset[order]
        numbers = numbered(np.concatenate((near.producer_id, producer_id[order])))
        number, owner = numbers[: len(near.first)].astype(np.int64), numbers[len(near.first) :]
        # A place for each producer and offset; of a producer's ranges, the last that begins at it or before it.
        count = len(offset) + 1
        first, end = (number * count + offset.searchsorted(bound) for bound in (near.first, near.end))
        by_first = np.argsort(first, kind="stable")
        first, end = first[by_first], np.maximum.accumulate(end[by_first])
        by_owner = np.argsort(owner, kind="stable")
        place = owner[by_owner].astype(np.int64) * count + by_owner
        last = first.searchsorted(place, "right") - 1
        covered[order[by_owner]] = (last >= 0) & (place < end[last])
        return covered


def numbered(values: Int64) -> npt.NDArray[np.integer[Any]]:
    """Numbers that are in the same order as the values: small ones, which sort fast, where the values are near to one
    another. There must be values."""
    least = int(values.min())
    if int(values.max()) - least < 1 << 16:
        return (values - least).astype(np.uint16)
    return np.unique(values, return_inverse=True)[1]


def table_of(ranges: Iterable[DataRange]) -> DataRanges:
    """The ranges as a table."""
    found = np.array(list(ranges), np.int64).reshape(-1, 3)
    producer_id, first, end = found[np.argsort(found[:, 2], kind="stable")].T
    least = np.minimum.accumulate(first[::-1])[::-1]
    return DataRanges(*map(np.ascontiguousarray, (producer_id, first, end, least)))
