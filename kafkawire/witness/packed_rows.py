"""`PackedRows`: many rows as one array a column. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class PackedRows:
    """Rows whose columns are separate arrays, so that a step reads no more than it needs. Rows that are chosen from
    others are gathered column by column, when a column is first used.

    Args:
        columns: arrays of one length.
    """

    def __init__(self, columns: Mapping[str, Array]) -> None:
        self._columns = dict(columns)
        self._of: tuple[PackedRows, Array] | None = None
        self._length = len(next(iter(columns.values()))) if columns else 0

    @classmethod
    def of(cls, rows: Array) -> PackedRows:
        """The rows of a structured array, copied."""
        return cls({name: np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ()})

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> Array:
        """A column."""
        if name not in self._columns and self._of is not None:
            self._columns[name] = self._of[0][name][self._of[1]]
        return self._columns[name]

    def take(self, chosen: Array) -> PackedRows:
        """The rows with these numbers, or those for which it is true."""
        found = PackedRows({})
        if chosen.dtype == np.bool_:
            chosen = np.flatnonzero(chosen)
        found._of, found._length = (self, chosen), len(chosen)
        return found
