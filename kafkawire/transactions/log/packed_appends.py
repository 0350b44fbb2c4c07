"""`Appends` as bytes: about five for a batch, so that parts of logs can be read elsewhere and replayed in one place."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kafkawire.records.control import DATA_CODE, MARKERS
from kafkawire.transactions.log.appends import Appends
from kafkawire.transactions.log.packed_columns import PackedColumns, narrowed, packed_columns, unpacked_columns

#: Columns of which the difference to the element before is packed.
_ASCENDING = frozenset({"base_offset", "timestamp", "intact_from"})

#: Each column's name and type.
_TYPES: dict[str, Any] = {
    "base_offset": np.int64,
    "last_offset": np.int64,
    "timestamp": np.int64,
    "producer_id": np.int64,
    "producer_epoch": np.int16,
    "control": np.int8,
    "coordinator_epoch": np.int64,
    "base_sequence": np.int32,
    "transactional": np.bool_,
    "intact_from": np.int64,
    "compacted": np.bool_,
    "problem": np.int32,
    "append_time": np.bool_,
}


class PackedAppends(msgspec.Struct, frozen=True, array_like=True):
    """Packed `Appends`.

    Attributes:
        columns: in the order of `_TYPES`. `problems`: as in `Appends`.
    """

    columns: PackedColumns
    problems: tuple[str, ...]


def packed(appends: Appends) -> PackedAppends:
    """The columns as bytes."""
    columns = ((name in _ASCENDING, _relative(name, appends)) for name in _TYPES)
    return PackedAppends(packed_columns(columns), appends.problems)


def _relative(name: str, appends: Appends) -> npt.NDArray[np.int64]:
    values: npt.NDArray[Any] = getattr(appends, name)
    if name == "last_offset":
        values = values - appends.base_offset
    return values.astype(np.int64)


def unpacked(found: PackedAppends) -> Appends:
    """The reverse of `packed`.

    Raises:
        ValueError: something else.
    """
    columns = unpacked_columns(found.columns, [name in _ASCENDING for name in _TYPES])
    arrays = dict[str, npt.NDArray[Any]]()
    for (name, kind), values in zip(_TYPES.items(), columns, strict=True):
        whole = values + arrays["base_offset"] if name == "last_offset" else values
        arrays[name] = narrowed(name, whole, kind)
    _check(arrays, found.problems)
    return Appends(**arrays, problems=found.problems)


def _check(arrays: dict[str, npt.NDArray[Any]], problems: tuple[str, ...]) -> None:
    """Codes and indexes are ones that there are."""
    for name, least, behind in (("control", DATA_CODE, len(MARKERS)), ("problem", -1, len(problems))):
        values = arrays[name]
        if len(values) and not (least <= values.min() and values.max() < behind):
            raise ValueError(f"the {name} of a batch is out of range")
