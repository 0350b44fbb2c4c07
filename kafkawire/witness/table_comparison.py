"""A partition and its rows in a lake table, compared by offsets. Pure."""

from __future__ import annotations

import numpy as np

from kafkawire.offsets import statuses
from kafkawire.records.array_types import Int8
from kafkawire.witness.copy_comparison import (
    BEFORE,
    BEHIND,
    CHANGED,
    COMPACTED,
    EXPIRED,
    EXTRA,
    LOST,
    REPEATED,
    SAME,
    UNCOMMITTED,
    UNPROVEN,
    UNREADABLE,
)
from kafkawire.witness.held import CopyOfPartition
from kafkawire.witness.lake_copies import TableRows
from kafkawire.witness.record_order import OrderedRecords

#: What a row of the table is whose offset has no record in the partition that consumers get, by the offset's status.
_ROW = np.full(statuses.CODES + 1, EXTRA, np.int8)
for _status, _kind in (
    (statuses.DELETED, EXPIRED),
    (statuses.COMPACTED, COMPACTED),
    (statuses.ABOVE, UNCOMMITTED),
    (statuses.TRUNCATED, UNREADABLE),
    (statuses.UNREADABLE, UNREADABLE),
    (-1, UNCOMMITTED),
):
    _ROW[_status] = _kind


def by_table(records: OrderedRecords, rows: TableRows, copy: CopyOfPartition, *, content: bool) -> tuple[Int8, Int8]:
    """What each record is in the table, and each row of the table in the partition, by the codes of `copy_comparison`.

    Args:
        records: what read_committed consumers get. rows: of the table, by offset. copy: the partition.
        content: whether keys and values are compared, too.
    """
    in_a, in_b = np.full(len(records.offset), LOST, np.int8), _ROW[copy.status(rows.offset)].astype(np.int8)
    in_b[(in_b == COMPACTED) & (rows.offset >= copy.compacted_to)] = UNPROVEN
    if len(rows.offset):
        in_a[records.offset < rows.offset[0]] = BEFORE
        in_a[records.offset > rows.offset[-1]] = BEHIND
        at = np.minimum(np.searchsorted(rows.offset, records.offset), len(rows.offset) - 1)
        there = rows.offset[at] == records.offset
        alike = there & ((rows.digest[at] == records.digest) | (not content))
        in_a[there], in_a[alike] = CHANGED, SAME
    else:
        in_a[:] = BEHIND
    if len(records.offset):
        at = np.minimum(np.searchsorted(records.offset, rows.offset), len(records.offset) - 1)
        there = records.offset[at] == rows.offset
        alike = there & ((rows.digest == records.digest[at]) | (not content))
        in_b[there], in_b[alike] = CHANGED, SAME
    again = np.append(False, rows.offset[1:] == rows.offset[:-1])[: len(rows.offset)]
    in_b[again] = REPEATED
    return in_a, in_b
