"""`Appends` as bytes: about five for a batch, so that parts of logs can be read elsewhere and replayed in one place."""

from __future__ import annotations

import msgspec
import numpy as np

from kafkawire.records.control import DATA_CODE, MARKERS
from kafkawire.transactions.log.appends import Appends
from kafkawire.transactions.log.packed_columns import (
    Kinds,
    PackedColumns,
    check_range,
    packed_columns,
    unpacked_columns,
)

_KINDS: Kinds = {
    name: (np.dtype(kind), name in ("base_offset", "last_offset", "timestamp", "intact_from"))
    for name, kind in zip(
        Appends.__struct_fields__,
        ("i8", "i8", "i8", "i8", "i2", "i1", "i8", "i4", "?", "i8", "?", "i4", "?"),
        strict=False,
    )
}


class PackedAppends(msgspec.Struct, frozen=True, array_like=True):
    """Packed `Appends`. `problems`: as there."""

    columns: PackedColumns
    problems: tuple[str, ...]


def packed(appends: Appends) -> PackedAppends:
    """The columns as bytes."""
    return PackedAppends(packed_columns({name: getattr(appends, name) for name in _KINDS}, _KINDS), appends.problems)


def unpacked(found: PackedAppends) -> Appends:
    """The reverse of `packed`. Raises ValueError: something else."""
    columns = unpacked_columns(found.columns, _KINDS)
    check_range("control", columns["control"], DATA_CODE, len(MARKERS))
    check_range("problem", columns["problem"], -1, len(found.problems))
    return Appends(**columns, problems=found.problems)
