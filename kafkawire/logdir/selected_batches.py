"""A `Selection`, applied to many batches at a time by their headers. For some batches only the records decide.

The result for each batch is that of `Selection.batch`, and for those that are taken, whether all their records are.
"""

from __future__ import annotations

import numpy as np

from kafkawire.logdir.selection import Selection
from kafkawire.records import Batch
from kafkawire.records.array_types import Bools, Int64
from kafkawire.records.columns import Batches, records

#: The time of records that cannot be read, less than any other.
_UNREAD = np.iinfo(np.int64).min


def selected(found: Batches, selection: Selection, *, deep: bool) -> tuple[Bools, Bools]:
    """Which batches are taken with all their records; and those of which the records decide, one by one. `selection`:
    what is selected, but for keys. `deep`: whether records have rows."""
    chosen = np.ones(len(found), bool)
    parts = np.zeros(len(found), bool)
    if selection.offsets is not None:
        first, end = selection.offsets
        if first is not None:
            chosen &= found.last_offset >= first
            parts |= found.base_offset < first
        if end is not None:
            chosen &= found.base_offset < end
            parts |= found.last_offset >= end
    if selection.producer_id is not None:
        chosen &= found.producer_id == selection.producer_id
    if selection.control is not None:
        chosen &= found.is_control == selection.control
    if not deep:
        parts[:] = False
    if selection.times is not None:
        # The header has the newest time of its records.
        first, end = selection.times
        if first is not None:
            chosen &= found.max_timestamp >= first
        if end is not None:
            parts |= found.max_timestamp >= end
        if deep and first is not None:
            parts |= _least_timestamps(found, chosen & ~parts) < first
    return chosen & ~parts, chosen & parts


def _least_timestamps(found: Batches, chosen: Bools) -> Int64:
    """The oldest time of the records of chosen batches; `_UNREAD` where one cannot be read."""
    places = np.flatnonzero(chosen)
    least = np.full(len(places), np.iinfo(np.int64).max)
    some = found.where(chosen)
    for piece in records(some):
        np.minimum.at(least, piece.batch, piece.timestamp)
        for damage in piece.damage:
            least[some.position == damage.position] = _UNREAD
    out = np.full(len(found), _UNREAD)
    out[places] = least
    return out


def before_end(item: Batches | Batch, end: int, beyond: int) -> tuple[Batches | Batch, int]:
    """Batches up to the second one whose base offset is an end or more, with which reading ends; and how many of these
    there were with those before (`beyond`)."""
    if isinstance(item, Batch):
        return item, beyond + (item.base_offset >= end)
    places = np.flatnonzero(item.base_offset >= end)
    if beyond + len(places) > 1:
        item = item.where(slice(0, int(places[1 - beyond]) + 1))
    return item, beyond + len(places)
