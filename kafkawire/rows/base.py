"""Base classes of all rows, and functions for all rows."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, TypedDict

import msgspec

Json = dict[str, Any]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of all rows."""


class LogRow(Row, frozen=True, kw_only=True):
    """Base class of the rows of a log directory.

    Attributes:
        kind: the kind of row.
        file: the path by which the file was reached.
        topic, partition: the partition that the file belongs to; None for a file of the broker.
    """

    kind: str
    file: str | None = None
    topic: str | None = None
    partition: int | None = None


class Lines(msgspec.Struct, frozen=True, eq=False):
    """Many rows of a log as lines of JSON, written by the native engine.

    Attributes:
        position: byte offset in the file of the first batch among them.
        data: the lines, in UTF-8.
    """

    position: int
    data: memoryview


class Columns(msgspec.Struct, frozen=True, eq=False):
    """Many rows of a log as Arrow arrays: one array a field, one element a row.

    Attributes:
        position: byte offset in the file of the first batch among them.
        length: number of rows.
        arrays: the arrays by field name. Repeating text is dictionary-encoded. A field without an array is null.
    """

    position: int
    length: int
    arrays: dict[str, Any]


class RowOrigin(TypedDict, total=False):
    """The file and partition of a row of a log directory: see `LogRow`."""

    file: str | None
    topic: str | None
    partition: int | None


def to_dict(row: Row) -> Json:
    """The row as plain dicts, lists, tuples, strings and numbers, without fields that are `UNSET`."""
    built: Json = msgspec.to_builtins(row)
    return built


def field_names(kind: type[Row]) -> tuple[str, ...]:
    """The names of a row's fields in order: the columns of a table or a CSV file."""
    return kind.__struct_fields__


def text_or_base64(data: bytes | None) -> tuple[str | None, str | None]:
    """Bytes as `(text, None)` where they are UTF-8, otherwise as `(None, base64)`. Null is `(None, None)`."""
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(data).decode("ascii")
