"""The distinct values of many. From NumPy 2.3 on `numpy.unique` puts integers into a table of hashes, which takes a
hundred times as long as to sort them, where millions are different."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

_Values = TypeVar("_Values", bound=npt.NDArray[np.integer[Any]])


def distinct(values: _Values) -> _Values:
    """The distinct ones, in ascending order."""
    ordered = np.sort(values)
    new = np.ones(len(ordered), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return ordered[new]  # type: ignore[return-value]
