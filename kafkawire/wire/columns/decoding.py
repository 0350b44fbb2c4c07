"""Many values of one message -> an Arrow `RecordBatch`, or one array of structs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kafkawire.errors import DecodeError, MissingExtraError, UnsupportedVersionError
from kafkawire.wire.backend import native
from kafkawire.wire.columns import objects
from kafkawire.wire.columns.build import Built, PlanColumns, build
from kafkawire.wire.columns.inputs import MISSING, Ints, ValueBytes, ValueVersions, read_values, read_versions
from kafkawire.wire.columns.plan import LayoutPlan, make_plan
from kafkawire.wire.columns.schema import ARROW, ArrowStyle, Shape, shape_of, struct_type
from kafkawire.wire.layout import Table

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkawire.wire.message import Message

#: Columns of a batch beside the message's own: no schema's name begins with an underscore.
VERSION, ERROR = "_version", "_error"

#: Fills the columns of a plan out of values.
Engine = Callable[[LayoutPlan, ValueBytes], PlanColumns]

#: Values that are decoded one by one before arrays are made of them: their objects are in memory together.
_AT_ONCE = 4096


@lru_cache(maxsize=1024)
def _prepared(plan: LayoutPlan) -> Any:
    return native.ColumnPlan(plan)  # type: ignore[union-attr]


def _native_engine(plan: LayoutPlan, values: ValueBytes) -> PlanColumns:
    """The native engine, which walks over values with the GIL released."""
    return PlanColumns(*_prepared(plan).walk(values.data, values.starts, values.ends))


#: The native engine where it runs; None: values are decoded object by object.
ENGINE: Engine | None = None if native is None else _native_engine


class DecodedColumns(NamedTuple):
    """Values as one array of structs.

    Attributes:
        array: null where a value is null or bad.
        versions: the version of each value; None where it has none that the message has.
        errors: what is wrong with bad values, by their number.
        impure: the numbers of values with text that is no UTF-8, shown with U+FFFD; `utf8_problem(number)` names the
            places.
    """

    array: pa.StructArray
    versions: pa.Array
    errors: dict[int, DecodeError | UnsupportedVersionError]
    impure: list[int]
    utf8_problem: Callable[[int], str | None]

    def problems(self) -> pa.Array:
        """The problem of each value: its error, or its texts that are no UTF-8; null where there is none."""
        import pyarrow as pa

        if not self.errors and not self.impure:
            return pa.nulls(len(self.array), pa.string())
        texts: list[str | None] = [None] * len(self.array)
        for number, error in self.errors.items():
            texts[number] = objects.clean(str(error))
        for number in self.impure:
            texts[number] = self.utf8_problem(number)
        return pa.array(texts, pa.string())


def schema(message: type[Message], *, columns: Iterable[str] | None = None, unknown_tags: bool = True) -> pa.Schema:
    """The schema of what `decode` returns for a message, whatever its versions.

    Args:
        message: the class of the message.
        columns: names or dotted paths of fields; None: all.
        unknown_tags: with a column for unknown tagged fields.

    Raises:
        LookupError: `columns` names no field. MissingExtraError: pyarrow is not installed.
    """
    _need_pyarrow()
    return _batch_schema(struct_type(shape(message, columns, unknown_tags=unknown_tags)))


def shape(message: type[Message], columns: Iterable[str] | None = None, *, unknown_tags: bool = True) -> Shape:
    """The shape of a message (`shape_of`), made once.

    Args:
        message, columns, unknown_tags: see `schema`.
    """
    if isinstance(columns, str):
        raise TypeError("columns is a list of names, not one string")
    return _shape(message, None if columns is None else tuple(columns), unknown_tags)


@lru_cache(maxsize=1024)
def _shape(message: type[Message], columns: tuple[str, ...] | None, unknown_tags: bool) -> Shape:
    return shape_of(message.spec, columns, unknown_tags=unknown_tags)


def _batch_schema(type_: pa.StructType) -> pa.Schema:
    """The fields of a struct as columns; all may be null, as they are for bad values."""
    import pyarrow as pa

    fields = [field.with_nullable(True) for field in type_]
    return pa.schema([*fields, pa.field(VERSION, pa.int16()), pa.field(ERROR, pa.string())])


def decode(
    message: type[Message],
    values: Any,
    version: int | str | Sequence[int | None] | NDArray[Any] | pa.Array,
    *,
    offsets: Any = None,
    columns: Iterable[str] | None = None,
    unknown_tags: bool = True,
) -> pa.RecordBatch:
    """Many values of one message as columns.

    Args:
        values: a list of buffers, with None for values that are null; or an Arrow array of binary (its buffers are
            not copied); or, with `offsets`, one buffer.
        version: of all values; or of each (a list, a NumPy or Arrow array of integers); or "prefix": the int16 in
            front of each, as in coordinator keys and values.
        offsets: n + 1 ascending integers: value i is `values[offsets[i]:offsets[i + 1]]`.
        columns: the selected fields, by name or by path ("topics.partitions.error_code"); all by default.
            Values are checked in whole, and other fields are skipped.
        unknown_tags: whether structs have a column `unknown_tagged_fields`, a list of tags and their data.

    Returns:
        A row a value: a column for each field (nested structs and lists inside), then `_version` and `_error`.
        Where `decode` of the message would raise, all fields are null and `_error` is the text of its error. Text
        that is no UTF-8 has U+FFFD for what is wrong, and `_error` names the places. Unsigned integers take the next
        wider type, uuids are 16 bytes.

    Raises:
        UnsupportedVersionError: the one version given for all values is none of the message's.
        ValueError: offsets that do not ascend or lie outside the buffer; not one version a value; more than 2 GiB.
        TypeError: values or versions that are none.
        LookupError: `columns` names no field.
        MissingExtraError: pyarrow is not installed.
    """
    _need_pyarrow()
    import pyarrow as pa

    asked = shape(message, columns, unknown_tags=unknown_tags)
    decoded = decode_structs(message, values, version, offsets=offsets, asked=asked)
    arrays = [*decoded.array.flatten(), decoded.versions, decoded.problems()]
    return pa.RecordBatch.from_arrays(arrays, schema=_batch_schema(decoded.array.type))


def decode_structs(
    message: type[Message],
    values: Any,
    version: Any,
    *,
    offsets: Any = None,
    asked: Shape | None = None,
    style: ArrowStyle = ARROW,
    engine: Engine | None = ENGINE,
) -> DecodedColumns:
    """Many values as one array of structs, with their errors: what `decode` is made of.

    Args:
        message: as in `decode`, and so are `values`, `version` and `offsets`.
        asked: the fields (see `shape`); all by default.
        style: what differs between users.
        engine: the native engine; None decodes values object by object, with the same result. By default
            that of `kafkawire.backend`.
    """
    _need_pyarrow()
    import pyarrow as pa

    asked = shape(message) if asked is None else asked
    read = read_values(values, offsets)
    versions = read_versions(message.spec, read, version)
    type_ = struct_type(asked, style)
    there = read.starts != MISSING
    parts: list[_DecodedPart] = []
    rest = np.arange(len(read))
    if engine is not None:
        parts, rest = _by_layout(message, read, versions, asked, style, engine)
    impure = [part.rows[part.built.impure] for part in parts]
    errors: dict[int, DecodeError | UnsupportedVersionError] = {}
    make = objects.row_maker(asked, style)
    rest = rest[there[rest]]
    for begin in range(0, len(rest), _AT_ONCE):
        found, wrong = objects.decode_each(message, read, versions, rest[begin : begin + _AT_ONCE].tolist())
        errors |= wrong
        if found:
            array = pa.array([make(value) for value in found.values()], type_)
            rows = np.fromiter(found, np.int64, len(found))
            parts.append(_DecodedPart(rows, Built(array.flatten(), _none()), _none()))
            impure.append(
                np.array([row for row, value in found.items() if objects.utf8_problem(value, asked)], np.int64)
            )

    def utf8_problem(row: int) -> str | None:
        return objects.utf8_problem(objects.decode_one(message, read, versions, row), asked)

    return DecodedColumns(
        _joined(parts, len(read), type_),
        _version_column(versions, there),
        errors,
        sorted(np.concatenate(impure).tolist()) if impure else [],
        utf8_problem,
    )


class _DecodedPart(NamedTuple):
    """Columns of some of the values; `refused` are places in `rows` whose values are to be null."""

    rows: Ints
    built: Built
    refused: Ints


def _by_layout(
    message: type[Message], values: ValueBytes, versions: ValueVersions, shape: Shape, style: ArrowStyle, engine: Engine
) -> tuple[list[_DecodedPart], Ints]:
    """Parts, one for each layout that values have; and the numbers of values that no engine read."""
    table = message.codec.table
    known = values.starts != MISSING
    if versions.valid is not None:
        known &= versions.valid
    starts = values.starts + versions.skip if versions.skip else values.starts
    if not known.all():
        starts = np.where(known, starts, MISSING)
    roots = _roots(table, versions)
    distinct = [roots] if isinstance(roots, int) else np.flatnonzero(np.bincount(roots[known])).tolist()
    parts = []
    read = np.zeros(len(values), np.bool_)
    for root in distinct:
        if message.codec.decoders[table.first_version + table.roots.index(root)] is None:
            continue  # small input could make columns large: `decode` keeps a budget
        whole = len(distinct) == 1
        rows = np.arange(len(values)) if whole else np.flatnonzero(known & (roots == root))
        ours = ValueBytes(values.data, starts, values.ends)
        if not whole:
            ours = ValueBytes(values.data, starts[rows], values.ends[rows])
        plan = _plan(message, root, shape)
        filled = engine(plan, ours)
        parts.append(_DecodedPart(rows, build(plan, filled, shape, style), filled.refused))
        read[rows] = True
        read[rows[filled.refused]] = False
    return parts, np.flatnonzero(~read)


def _roots(table: Table, versions: ValueVersions) -> Any:
    """The layout of each value."""
    if isinstance(versions.each, int):
        return table.roots[versions.each - table.first_version]
    places = versions.each - table.first_version
    if versions.valid is not None and not versions.valid.all():
        places = np.where(versions.valid, places, 0)
    return np.array(table.roots)[places]


@lru_cache(maxsize=1024)
def _plan(message: type[Message], root: int, shape: Shape) -> LayoutPlan:
    return make_plan(message.codec.table, root, shape)


def _joined(parts: list[_DecodedPart], count: int, type_: pa.StructType) -> pa.StructArray:
    """All values in their order."""
    import pyarrow as pa

    if not parts:
        return pa.nulls(count, type_)
    if len(parts) == 1 and len(parts[0].rows) == count:
        return _struct_array(parts[0], type_)
    whole = pa.concat_arrays([_struct_array(part, type_) for part in parts])
    places = np.full(count, -1)
    begin = 0
    for part in parts:
        taken = np.arange(begin, begin + len(part.rows))
        taken[part.refused] = -1
        there = taken >= 0
        places[part.rows[there]] = taken[there]
        begin += len(part.rows)
    return whole.take(pa.array(places, mask=places < 0))


def _struct_array(part: _DecodedPart, type_: pa.StructType) -> pa.StructArray:
    import pyarrow as pa

    bits = None
    if len(part.refused):
        there = np.ones(len(part.rows), np.bool_)
        there[part.refused] = False
        bits = pa.py_buffer(np.packbits(there, bitorder="little"))
    return pa.Array.from_buffers(type_, len(part.rows), [bits], children=part.built.columns)


def _version_column(versions: ValueVersions, there: NDArray[np.bool_]) -> pa.Array:
    import pyarrow as pa

    known = there if versions.valid is None else there & versions.valid
    each = versions.each
    numbers = np.full(len(there), each, np.int16) if isinstance(each, int) else each.astype(np.int16)
    return pa.array(numbers, pa.int16(), mask=None if known.all() else ~known)


def _none() -> Ints:
    return np.zeros(0, np.int64)


def _need_pyarrow() -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise MissingExtraError("kafkawire.columns", "arrow") from None
