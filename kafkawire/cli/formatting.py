"""Text and JSON that are harmless on a terminal (see `kafkawire.printable`), and nouns with their counts."""

from __future__ import annotations

import json
import re
import textwrap
from functools import cache
from typing import Any
from unicodedata import category

import msgspec

from kafkawire.printable import brief, collapsed, printable, printable_json

__all__ = [
    "and_more",
    "brief",
    "collapsed",
    "counted",
    "json_bytes",
    "plain",
    "printable",
    "printable_characters",
    "values_of",
    "wrapped",
]


def counted(number: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def and_more(count: int) -> str:
    """What follows the first of `count` texts: ` (and 2 more)`; empty where there is no other."""
    return f" (and {count - 1} more)" if count > 1 else ""


#: What is copied from a line, and what stands in front of prose.
_COMMAND = re.compile(r"(?:kafkawire|kafka-transactions\.sh) [a-z-]+ ")
_BULLET = re.compile(r"\s*(?:(?:-|=>) )?")


def wrapped(text: str, width: int) -> list[str]:
    """Prose wrapped to lines of `width` columns; after a bullet, further lines are indented by its width. Commands and
    long words are not broken, so that they can be copied."""
    if len(text) <= width or _COMMAND.search(text):
        return [text]
    bullet = _BULLET.match(text)
    indent = " " * min(len(bullet[0]) if bullet else 0, width // 2)
    return textwrap.wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def plain(value: Any) -> object:
    """The text of a value in a cell of a table or of csv."""
    if value is None:
        return ""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    return json_bytes(value).decode()


def values_of(row: msgspec.Struct) -> dict[str, Any]:
    """The fields of a row that are set, as plain values; JSON text (`msgspec.Raw`) stays."""
    found = {}
    for attribute, name in zip(row.__struct_fields__, row.__struct_encode_fields__, strict=True):
        value = getattr(row, attribute)
        if value is not msgspec.UNSET:
            found[name] = value if type(value) in _PLAIN else msgspec.to_builtins(value)
    return found


_PLAIN = (type(None), str, int, float, bool, msgspec.Raw)


@cache
def printable_characters() -> bytes:
    """A byte for each character of the first two planes of Unicode: 1 where it is shown as it is, 0 where escaped."""
    characters = list(map(chr, range(0x20000)))
    table = bytearray(map(str.isprintable, characters))
    for place, char in enumerate(characters):
        if not table[place] and category(char) == "Zs":
            table[place] = 1
    return bytes(table)


def json_bytes(value: Any, *, indent: int | None = None, ascii_only: bool = False) -> bytes:
    """`value` (Structs, dicts, lists, strings, numbers) as JSON, harmless on a terminal: UTF-8 unless `ascii_only`.

    Args:
        value: what `msgspec` can write.
        indent: spaces a level; None for one line.
        ascii_only: escape all characters beyond ASCII.
    """
    if indent is None and not ascii_only:
        try:
            encoded = msgspec.json.encode(value)
        except UnicodeEncodeError:
            pass  # lone surrogates, which msgspec does not write
        else:
            return (
                encoded if encoded.isascii() and b"\x7f" not in encoded else printable_json(encoded.decode()).encode()
            )
    separators = (",", ": ") if indent else (",", ":")
    plain = msgspec.to_builtins(value, enc_hook=_decoded)
    text = json.dumps(plain, ensure_ascii=ascii_only, indent=indent, separators=separators)
    return printable_json(text).encode()


def _decoded(value: Any) -> Any:
    """JSON text inside of a value (`msgspec.Raw`), which `to_builtins` does not know, as a value."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"{type(value).__name__} is not written as JSON")
