"""What all rows share."""

from __future__ import annotations

from base64 import b64encode
from typing import Any, TypedDict

import msgspec

Json = dict[str, Any]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of all rows."""


class LogRow(Row, frozen=True, kw_only=True):
    """Base class of the rows of a log directory: each says what it is, and where it comes from.

    Attributes:
        kind: which row it is.
        file: the file, as it was reached. `topic`, `partition`: whose it is; None for a file of the broker as a whole.
    """

    kind: str
    file: str | None = None
    topic: str | None = None
    partition: int | None = None


class Lines(msgspec.Struct, frozen=True, eq=False):
    """Many rows of a log as lines of JSON, as the native engine writes them.

    Attributes:
        position: byte offset in the file of the first batch among them.
        data: the lines, in UTF-8.
    """

    position: int
    data: memoryview


class Columns(msgspec.Struct, frozen=True, eq=False):
    """Many rows of a log as Arrow arrays: an array a field, an element a row.

    Attributes:
        position: byte offset in the file of the first batch among them.
        length: how many rows.
        arrays: by field. Those of text that repeats are dictionaries; fields that are not there are null in all rows.
    """

    position: int
    length: int
    arrays: dict[str, Any]


class RowOrigin(TypedDict, total=False):
    """Where a row of a log directory comes from (`LogRow`)."""

    file: str | None
    topic: str | None
    partition: int | None


def to_dict(row: Row) -> Json:
    """The row as plain dicts, lists and tuples, strings and numbers, without the fields that were not asked for."""
    built: Json = msgspec.to_builtins(row)
    return built


def field_names(kind: type[Row]) -> tuple[str, ...]:
    """The names of a kind's fields, in order: the columns of a table or a CSV file."""
    return kind.__struct_fields__


def text_or_base64(data: bytes | None) -> tuple[str | None, str | None]:
    """Bytes as rows show them, `(text, base64)`: text where they are UTF-8, otherwise base64; None twice for null."""
    if data is None:
        return None, None
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        return None, b64encode(data).decode("ascii")
