"""Rows as Arrow tables: one column per field, with a type that follows its annotation. A field of several types is JSON
text.

Kinds of rows in one table share columns of the same name. pyarrow is an optional dependency (the extra `arrow`).
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa

#: Limits of a batch: rows, and bytes of text (approximate). They bound memory.
BATCH_ROWS = 16_384
BATCH_BYTES = 16 << 20


def schema(kinds: Sequence[type[msgspec.Struct]], unset: Iterable[str] = ()) -> pa.Schema:
    """The Arrow schema of a table of rows.

    Args:
        kinds: classes of the rows. The first one with a field of some name determines the column's type.
        unset: names of fields that are left out, because no row has them.
    """
    columns: dict[str, pa.DataType] = {}
    left_out = frozenset(unset)
    for kind in kinds:
        hints = typing.get_type_hints(kind)
        for name in kind.__struct_fields__:
            if name not in left_out:
                columns.setdefault(name, _type_of(hints[name]))
    return pa.schema(list(columns.items()))


def json_text(value: Any) -> bytes:
    """JSON of any value. A byte that is no UTF-8 is written as an escape, `\\udcff`."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def batches(
    rows: Iterable[msgspec.Struct], columns: pa.Schema, to_json: Callable[[Any], bytes] = json_text
) -> Iterator[pa.RecordBatch]:
    """The rows as batches of bounded size (`BATCH_ROWS`, `BATCH_BYTES`).

    Args:
        rows: any Structs. A field that a row does not have is null.
        columns: the schema of the batches.
        to_json: the encoder of values whose column is text.
    """
    names = columns.names
    group: list[list[Any]] = [[] for _ in names]
    count = held = 0
    for row in rows:
        for name, column in zip(names, group, strict=True):
            value = getattr(row, name, None)
            column.append(None if value is msgspec.UNSET else value)
            if isinstance(value, (str, bytes)):
                held += len(value)
            elif isinstance(value, msgspec.Raw):
                held += memoryview(value).nbytes
        count += 1
        if count >= BATCH_ROWS or held >= BATCH_BYTES:
            yield _batch(group, columns, count, to_json)
            group = [[] for _ in names]
            count = held = 0
    if count:
        yield _batch(group, columns, count, to_json)


def _batch(group: list[list[Any]], columns: pa.Schema, count: int, to_json: Callable[[Any], bytes]) -> pa.RecordBatch:
    arrays = [pa.array(_values(group[i], field.type, to_json), field.type) for i, field in enumerate(columns)]
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, schema=columns)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))


def _type_of(hint: Any) -> pa.DataType:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        options = [option for option in typing.get_args(hint) if option not in (type(None), msgspec.UnsetType)]
        return _type_of(options[0]) if len(options) == 1 else pa.string()
    plain = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if hint in plain:
        return plain[hint]
    if typing.get_origin(hint) is tuple:
        return pa.list_(_type_of(typing.get_args(hint)[0]))
    if typing.get_origin(hint) is dict and typing.get_args(hint) == (str, int):
        return pa.map_(pa.string(), pa.int64())
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        return pa.struct([(name, _type_of(hints[name])) for name in hint.__struct_fields__])
    return pa.string()


def _values(values: list[Any], kind: pa.DataType, to_json: Callable[[Any], bytes]) -> list[Any]:
    """Values for `pa.array`: Structs as dicts, untyped values as JSON, lone surrogates as U+FFFD."""
    if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        return [
            value if value is None else arrow_text(value if isinstance(value, str) else to_json(value).decode())
            for value in values
        ]
    if pa.types.is_map(kind):
        return [
            None if value is None else [(arrow_text(name), number) for name, number in value.items()]
            for value in values
        ]
    if pa.types.is_nested(kind):
        return [None if value is None else _clean(msgspec.to_builtins(value)) for value in values]
    return values


def arrow_text(text: str) -> str:
    """Text that Arrow accepts: lone surrogates (bytes that are no UTF-8) become U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in text)
    return text


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return arrow_text(value)
    if isinstance(value, (list, tuple)):
        return [_clean(element) for element in value]
    return {name: _clean(element) for name, element in value.items()} if isinstance(value, dict) else value
