"""The rows of a table as dicts, from rows and from lines of JSON; rows beyond a limit are only counted."""

from __future__ import annotations

import json
import typing
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import msgspec

from kafkawire.cli.formatting import values_of
from kafkawire.rows.base import Json, Lines

#: The class of a row, and the values of its fields by name; whole messages are JSON text (`msgspec.Raw`).
TableRow = tuple[type[msgspec.Struct], dict[str, Any]]

#: The JSON text of values that a table leaves blank.
_NOTHING = (b"null", b"{}")


class TableRows:
    """An iterator over the first rows. `rows`: any Structs, and `Lines`. `kinds`: the classes of rows that lines may
    hold; where they are several, rows have a `kind`. `most`: how many rows it yields."""

    def __init__(self, rows: Iterable[msgspec.Struct], kinds: Sequence[type[msgspec.Struct]], most: int) -> None:
        self._rows = iter(rows)
        self._only = kinds[0] if len(kinds) == 1 else None
        self._kinds = {} if self._only else {_kind(each): each for each in kinds}
        self._left = most
        self._more = 0

    def __iter__(self) -> Iterator[TableRow]:
        while self._left:
            row = next(self._rows, None)
            if row is None:
                return
            if isinstance(row, Lines):
                yield from self._lines(row)
            else:
                self._left -= 1
                yield type(row), values_of(row)

    def _lines(self, found: Lines) -> Iterator[TableRow]:
        data = bytes(found.data)
        at = 0
        while at < len(data) and self._left:
            end = data.index(b"\n", at)
            line = memoryview(data)[at:end]
            at = end + 1
            self._left -= 1
            try:
                of = self._only or self._kinds[msgspec.json.decode(line, type=_Kind).kind]
                decoder, bodies = _decoder(of)
                values = decoder.decode(line)
            except msgspec.DecodeError:  # lone surrogates, of a file's name that is no UTF-8
                values = json.loads(bytes(line))
                of, bodies = self._only or self._kinds[values["kind"]], ()
            for name in bodies:
                if name in values and bytes(values[name]) in _NOTHING:
                    values[name] = None
            yield of, values
        self._more += data.count(b"\n", at)

    def rest(self) -> int:
        """Reads the other rows, and gives their number."""
        for row in self._rows:
            self._more += bytes(row.data).count(b"\n") if isinstance(row, Lines) else 1
        return self._more


class _Kind(msgspec.Struct):
    kind: str


def _kind(row: type[msgspec.Struct]) -> str:
    """The value of the field `kind` in the rows of a class; empty where they have none, and never come as lines."""
    found: str = next((field.default for field in msgspec.structs.fields(row) if field.name == "kind"), "")
    return found


@cache
def _decoder(row: type[msgspec.Struct]) -> tuple[msgspec.json.Decoder[dict[str, Any]], tuple[str, ...]]:
    """The decoder of lines of a class, and the fields that stay text because they are whole messages."""
    hints = typing.get_type_hints(row)
    bodies = tuple(name for name, hint in hints.items() if Json in typing.get_args(hint))
    fields = {name: msgspec.Raw if name in bodies else Any for name in row.__struct_encode_fields__}
    values = typing.TypedDict("values", fields, total=False)  # type: ignore[misc]
    return msgspec.json.Decoder(values), bodies
