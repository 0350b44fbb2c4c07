"""`distinct`: the distinct values of an array, in ascending order. `numpy.unique` is not used: from NumPy 2.3 on it
puts integers into a hash table, which takes a hundred times as long as sorting where millions of them differ."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_Values = TypeVar("_Values", bound=npt.NDArray[np.integer[Any]])


def distinct(values: _Values) -> _Values:
    """The distinct values, in ascending order."""
    ordered = np.sort(values)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]  # type: ignore[return-value]
