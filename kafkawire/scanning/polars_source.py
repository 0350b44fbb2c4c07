"""A scan as a Polars `LazyFrame`, with the columns and the filters of a query pushed down.

A filter is looked at in the JSON form of its expression: comparisons and `is_in` of single columns, joined by "and".
They decide what is not read; what is read is filtered by Polars again, so an expression that is not understood costs
time, and no row. Needs polars (not an extra of this package).
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from kafkawire.capture import ExchangeSelection
from kafkawire.logdir.transaction_states import STATES
from kafkawire.scanning.record_filter import EVERYTHING, Range, RecordFilter, epoch_ms, narrowed

#: Reads columns within bounds.
Read = Callable[[list[str], "Bounds"], Iterator[pa.RecordBatch]]

_MILLISECOND = timedelta(milliseconds=1)
_SWAPPED = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}
#: Types to which a column may have been converted for a comparison, without a change of its order.
_SAME_ORDER = ("Int64", "Int128", "Datetime", "String")
_CLOSED = {"Both": ("GtEq", "LtEq"), "Left": ("GtEq", "Lt"), "Right": ("Gt", "LtEq"), "None": ("Gt", "Lt")}


class Bounds(NamedTuple):
    """What all rows of a query have in common. None: any value."""

    offsets: Range = EVERYTHING
    times: Range = EVERYTHING
    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    producers: frozenset[int] | None = None
    states: frozenset[str] | None = None
    apis: frozenset[str] | None = None
    connections: frozenset[int] | None = None

    def narrow(self, wanted: RecordFilter) -> RecordFilter:
        """A filter, without what is out of bounds."""
        states = None if self.states is None else frozenset(map(STATES.index, self.states & set(STATES)))
        producers, known = wanted.producer_ids, wanted.states
        return msgspec.structs.replace(
            wanted,
            offsets=narrowed(wanted.offsets, self.offsets),
            offsets_of={place: narrowed(one, self.offsets) for place, one in wanted.offsets_of.items()},
            times=narrowed(wanted.times, self.times),
            topics=_both(wanted.topics, self.topics),
            partitions=_both(wanted.partitions, self.partitions),
            producer_ids=_tuple(_both(None if producers is None else frozenset(producers), self.producers)),
            states=_tuple(_both(None if known is None else frozenset(known), states)),
        )

    def narrow_exchanges(self, wanted: ExchangeSelection) -> ExchangeSelection:
        """A selection of exchanges, without what is out of bounds. What has no value in it is left to Polars."""
        times = narrowed(wanted.times or EVERYTHING, self.times)
        return msgspec.structs.replace(
            wanted,
            apis=wanted.apis or tuple(sorted(self.apis or ())),
            connections=wanted.connections or tuple(sorted(self.connections or ())),
            times=None if times == EVERYTHING else times,
        )

    def and_(self, other: Bounds) -> Bounds:
        """What is within both."""
        ranges = (narrowed(one, two) for one, two in zip(self[:2], other[:2], strict=True))
        sets = (_both(one, two) for one, two in zip(self[2:], other[2:], strict=True))
        return Bounds(*ranges, *sets)  # type: ignore[arg-type]


def lazy_frame(schema: pa.Schema, read: Read) -> pl.LazyFrame:
    """A `LazyFrame` that reads when it is collected.

    Args:
        schema: of the rows. read: reads them.
    """

    def source(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        needed = set(schema.names if with_columns is None else with_columns)
        if predicate is not None:
            needed.update(predicate.meta.root_names())
        names = [name for name in schema.names if name in needed] or schema.names[:1]
        left = n_rows
        for batch in read(names, bounds_of(predicate)):
            frame: Any = pl.DataFrame(batch)
            if predicate is not None:
                frame = frame.filter(predicate)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            yield frame if with_columns is None else frame.select(with_columns)
            if left == 0:
                return

    types = pl.DataFrame(schema.empty_table()).schema
    return register_io_source(source, schema=types)


def bounds_of(predicate: pl.Expr | None) -> Bounds:
    """The bounds that an expression states; none where it is of another form."""
    if predicate is None:
        return Bounds()
    try:
        return _bounds(json.loads(predicate.meta.serialize(format="json")))
    except (pl.exceptions.PolarsError, ValueError, KeyError, TypeError, AttributeError):
        return Bounds()  # another form of expressions: everything is read, and filtered by Polars


def _bounds(node: Any) -> Bounds:
    kind, of = _only(node)
    if kind == "BinaryExpr":
        left, op, right = of["left"], of["op"], of["right"]
        if op in ("And", "LogicalAnd"):
            return _bounds(left).and_(_bounds(right))
        if op in _SWAPPED:
            name, other = _column(left), right
            if name is None:
                name, other, op = _column(right), left, _SWAPPED[op]
            return Bounds() if name is None else _compared(name, op, _value(other))
    if kind == "Function" and "Boolean" in of.get("function", {}):
        name, (function, options) = _column(of["input"][0]), _only(of["function"]["Boolean"])
        if name is not None and function == "IsIn" and not options["nulls_equal"]:
            return _among(name, _value(of["input"][1]))
        if name is not None and function == "IsBetween":
            low, high = (_value(one) for one in of["input"][1:])
            first, last = _CLOSED[options["closed"]]
            return _compared(name, first, low).and_(_compared(name, last, high))
    return Bounds()


def _only(node: Any) -> tuple[str, Any]:
    """The one key of an object and its value; of text, the text."""
    if isinstance(node, str):
        return node, {}
    ((kind, of),) = node.items()
    return kind, of


def _column(node: Any) -> str | None:
    kind, of = _only(node)
    if kind == "Cast" and any(name in json.dumps(of["dtype"]) for name in _SAME_ORDER):
        return _column(of["expr"])
    return of if kind == "Column" and isinstance(of, str) else None


def _value(node: Any) -> Any:
    """The value of an expression without columns."""
    expression = pl.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")
    if expression.meta.root_names():
        return None
    found = pl.select(expression).to_series()
    values = found.to_list()
    return values[0] if len(values) == 1 else values


def _among(name: str, values: Any) -> Bounds:
    listed = [one for one in values if one is not None] if isinstance(values, (list, pl.Series)) else [values]
    found = None
    for value in listed:
        one = _compared(name, "Eq", value)
        if one == Bounds():
            return one
        found = one if found is None else _either(found, one)
    return Bounds() if found is None else found


def _compared(name: str, op: str, value: Any) -> Bounds:
    """The bounds of one comparison."""
    field = _SETS.get(name)
    if isinstance(value, str) and "\ufffd" in value:
        return Bounds()  # what the name of a folder really has there, rows do not show
    if field is not None and op == "Eq" and isinstance(value, (str, int)) and not isinstance(value, bool):
        only: Any = frozenset((value,))
        return Bounds(**{field: only})
    if name == "offset" and isinstance(value, int) and not isinstance(value, bool):
        return Bounds(offsets=_range(op, value, value + 1))
    if name == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
        return Bounds(times=_range(op, epoch_ms(value), epoch_ms(value + _MILLISECOND)))
    if name == "time" and isinstance(value, datetime) and value.tzinfo is not None:
        # Times have nanoseconds, and a `datetime` lacks the last three digits.
        low, high = epoch_ms(value - _MILLISECOND), epoch_ms(value + 2 * _MILLISECOND)
        least, most = op in ("Gt", "GtEq", "Eq"), op in ("Lt", "LtEq", "Eq")
        return Bounds(times=(low if least else None, high if most else None))
    return Bounds()


#: Column -> the field of `Bounds` that has its values.
_SETS = {
    "topic": "topics", "partition": "partitions", "producer_id": "producers", "transaction": "states", "api": "apis",
    "connection": "connections",
}  # fmt: skip


def _range(op: str, at: int, after: int) -> Range:
    """The range of whole numbers that a comparison states.

    Args:
        at: the least number that is not below the value. after: the least that is above it.
    """
    return {"Lt": (None, at), "LtEq": (None, after), "Gt": (after, None), "GtEq": (at, None), "Eq": (at, after)}[op]


def _either(one: Bounds, other: Bounds) -> Bounds:
    """The least bounds that have both inside."""
    ranges: list[Any] = []
    for (low, high), (least, most) in zip(one[:2], other[:2], strict=True):
        lows = None if low is None or least is None else min(low, least)
        ranges.append((lows, None if high is None or most is None else max(high, most)))
    sets: list[Any] = [None if a is None or b is None else a | b for a, b in zip(one[2:], other[2:], strict=True)]
    return Bounds(*ranges, *sets)


def _both(one: frozenset[Any] | None, other: frozenset[Any] | None) -> frozenset[Any] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _tuple(found: frozenset[int] | None) -> tuple[int, ...] | None:
    return None if found is None else tuple(sorted(found))
