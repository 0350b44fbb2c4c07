"""Rows as a Parquet file: one column a field, of the type that the field has; what has no fixed type is JSON text.

pyarrow is an extra. Rows are written in groups, so that a file of any size costs little memory.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire.cli.text import json_bytes
from kafkawire.errors import MissingExtraError

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a group.
GROUP_ROWS = 16_384
#: Bytes of text in a group, about.
GROUP_BYTES = 16 << 20


def write_parquet(
    rows: Iterable[msgspec.Struct], kinds: Sequence[type[msgspec.Struct]], path: str, unset: Iterable[str] = ()
) -> None:
    """Writes rows of the classes in `kinds` into a file; `unset` names fields that no row has this time.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise MissingExtraError("Parquet", "arrow") from None
    schema = _schema(kinds, frozenset(unset))
    with pq.ParquetWriter(path, schema) as writer:
        for group in _groups(rows, schema.names):
            columns = [pa.array(_values(group[i], field.type), field.type) for i, field in enumerate(schema)]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def _groups(rows: Iterable[msgspec.Struct], names: list[str]) -> Iterator[list[list[Any]]]:
    """The values of some rows after the others, column by column."""
    group: list[list[Any]] = [[] for _ in names]
    held = 0
    for row in rows:
        for name, column in zip(names, group, strict=True):
            value = getattr(row, name, None)
            value = None if value is msgspec.UNSET else value
            column.append(value)
            if isinstance(value, str):
                held += len(value)
        if len(group[0]) >= GROUP_ROWS or held >= GROUP_BYTES:
            yield group
            group = [[] for _ in names]
            held = 0
    yield group


def _schema(kinds: Sequence[type[msgspec.Struct]], unset: frozenset[str]) -> pa.Schema:
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for kind in kinds:
        hints = typing.get_type_hints(kind)
        for name in kind.__struct_fields__:
            if name not in unset:
                columns.setdefault(name, _arrow_type(hints[name]))
    return pa.schema(list(columns.items()))


def _arrow_type(hint: Any) -> Any:
    import pyarrow as pa

    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        options = [option for option in typing.get_args(hint) if option not in (type(None), msgspec.UnsetType)]
        return _arrow_type(options[0]) if len(options) == 1 else pa.string()
    plain = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
    if hint in plain:
        return plain[hint]
    if typing.get_origin(hint) is tuple:
        return pa.list_(_arrow_type(typing.get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        hints = typing.get_type_hints(hint)
        return pa.struct([(name, _arrow_type(hints[name])) for name in hint.__struct_fields__])
    return pa.string()


def _values(values: list[Any], kind: Any) -> list[Any]:
    """Values as Arrow takes them: Structs as dicts, what has no type as JSON, no lone surrogates (U+FFFD instead)."""
    import pyarrow as pa

    if pa.types.is_string(kind):
        return [None if value is None else _text(value) for value in values]
    if pa.types.is_nested(kind):
        return [None if value is None else _clean(msgspec.to_builtins(value)) for value in values]
    return values


def _text(value: Any) -> str:
    if not isinstance(value, str):
        return json_bytes(value).decode()
    try:
        value.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if "\ud800" <= char <= "\udfff" else char for char in value)
    return value


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (list, tuple)):
        return [_clean(element) for element in value]
    return {name: _clean(element) for name, element in value.items()} if isinstance(value, dict) else value
