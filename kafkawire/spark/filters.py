"""Filters that Spark pushes down, as what they leave of a column. Spark evaluates all of them again: what a source
makes of them only spares work."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql.datasource import EqualTo, Filter, GreaterThan, GreaterThanOrEqual, In, LessThan, LessThanOrEqual

Range = tuple[int | None, int | None]


def wanted_range(filters: Iterable[Filter], column: str) -> Range | None:
    """The half-open range of integers that the filters leave of a column; None where they leave all."""
    low: int | None = None
    high: int | None = None
    for filter, value in _of(filters, column):
        values = value if isinstance(filter, In) else (value,)
        if not values or not all(isinstance(one, int) for one in values):
            continue
        if isinstance(filter, (EqualTo, In, GreaterThan, GreaterThanOrEqual)):
            bound = min(values) + isinstance(filter, GreaterThan)
            low = bound if low is None else max(low, bound)
        if isinstance(filter, (EqualTo, In, LessThan, LessThanOrEqual)):
            bound = max(values) + (not isinstance(filter, LessThan))
            high = bound if high is None else min(high, bound)
    return None if low is None and high is None else (low, high)


def wanted_values(filters: Iterable[Filter], column: str) -> frozenset[Any] | None:
    """The values that the filters leave of a column; None where they leave all, or a range."""
    found: frozenset[Any] | None = None
    for filter, value in _of(filters, column):
        if isinstance(filter, (EqualTo, In)):
            values = frozenset(value) if isinstance(filter, In) else frozenset((value,))
            found = values if found is None else found & values
    return found


def _of(filters: Iterable[Filter], column: str) -> Iterable[tuple[Filter, Any]]:
    for filter in filters:
        if getattr(filter, "attribute", None) == (column,):
            yield filter, getattr(filter, "value", None)
