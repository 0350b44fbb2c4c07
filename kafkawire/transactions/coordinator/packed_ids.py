"""`IdColumns` as bytes."""

from __future__ import annotations

import msgspec
import numpy as np

from kafkawire.errors import DecodeError
from kafkawire.transactions.coordinator.id_columns import ROW, IdColumns, partition_lists
from kafkawire.transactions.log.packed_columns import PackedColumns, narrowed, packed_columns, unpacked_columns

#: Fields of which the difference to the record before is packed.
_ASCENDING = frozenset({"offset", "timestamp", "updated", "started"})
_NAMES = ROW.names or ()


class PackedIds(msgspec.Struct, frozen=True, tag=True):
    """Packed `IdColumns`.

    Attributes:
        columns: the fields of `ROW`. `names`, `lists`: as in `IdColumns`.
    """

    columns: PackedColumns
    names: list[bytes]
    lists: list[bytes]


def packed_ids(found: IdColumns) -> PackedIds:
    """The records as bytes."""
    columns = ((name in _ASCENDING, found.rows[name].astype(np.int64)) for name in _NAMES)
    return PackedIds(packed_columns(columns), found.names, found.lists)


def unpacked_ids(found: PackedIds) -> IdColumns:
    """The reverse of `packed_ids`.

    Raises:
        ValueError: something else.
    """
    columns = unpacked_columns(found.columns, [name in _ASCENDING for name in _NAMES])
    rows = np.empty(found.columns.count, ROW)
    for name, values in zip(_NAMES, columns, strict=True):
        rows[name] = narrowed(name, values, ROW[name])
    for name, least, behind in (("id", 0, len(found.names)), ("partitions", -1, len(found.lists))):
        if len(rows) and not (least <= rows[name].min() and rows[name].max() < behind):
            raise ValueError(f"the {name} of a record is out of range")
    try:
        partition_lists(found.lists)
    except (DecodeError, IndexError, KeyError) as error:
        raise ValueError(f"a list of partitions: {error}") from error
    return IdColumns(rows, found.names, found.lists)
