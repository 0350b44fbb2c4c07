"""`IdColumns` as bytes."""

from __future__ import annotations

import msgspec
import numpy as np

from kafkawire.errors import DecodeError
from kafkawire.transactions.coordinator.id_columns import ROW, IdColumns, partition_lists
from kafkawire.transactions.log.packed_columns import (
    Kinds,
    PackedColumns,
    check_range,
    packed_columns,
    unpacked_columns,
)

_KINDS: Kinds = {name: (ROW[name], name in ("offset", "timestamp", "updated", "started")) for name in ROW.names or ()}


class PackedIds(msgspec.Struct, frozen=True, tag=True):
    """Packed `IdColumns`. `columns`: the fields of `ROW`. `names`, `lists`: as there."""

    columns: PackedColumns
    names: list[bytes]
    lists: list[bytes]


def packed_ids(found: IdColumns) -> PackedIds:
    """The records as bytes."""
    return PackedIds(packed_columns({name: found.rows[name] for name in _KINDS}, _KINDS), found.names, found.lists)


def unpacked_ids(found: PackedIds) -> IdColumns:
    """The reverse of `packed_ids`. Raises ValueError: something else."""
    columns = unpacked_columns(found.columns, _KINDS)
    check_range("id", columns["id"], 0, len(found.names))
    check_range("partitions", columns["partitions"], -1, len(found.lists))
    rows = np.empty(found.columns.count, ROW)
    for name, values in columns.items():
        rows[name] = values
    try:
        partition_lists(found.lists)
    except (DecodeError, IndexError, KeyError) as error:
        raise ValueError(f"a list of partitions: {error}") from error
    return IdColumns(rows, found.names, found.lists)
