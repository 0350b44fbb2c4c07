"""Text that strangers wrote, made harmless: nothing of it may act on a terminal, whatever it is printed with.

What is shown as it is, is what Python calls printable: letters of any script, marks, digits, symbols; and blanks.
Everything else (C0 and C1 control characters, ANSI escapes with them, bidirectional controls, zero-width characters,
line and paragraph separators, lone surrogates) is written as an escape.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Any
from unicodedata import category

import msgspec

#: Runs that may hold something not printable. In JSON text a newline can only be layout: inside of strings it is `\n`.
_SUSPECT = re.compile(r"[^ -~]+")
_SUSPECT_JSON = re.compile(r"[^\n -~]+")


def counted(number: int, noun: str) -> str:
    """`1 message`, `2 messages`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def printable(text: str) -> str:
    """`text` on one line: `\\x1b` for an escape, `\\n` for a newline, `\\udcff` for a byte that is no UTF-8."""
    return text if text.isprintable() else _SUSPECT.sub(lambda run: _escape(run[0], _python_escape), text)


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
    """`value` (Structs, dicts, lists, strings, numbers) as JSON, harmless on a terminal: UTF-8 unless `ascii_only`."""
    if indent is None and not ascii_only:
        try:
            encoded = msgspec.json.encode(value)
        except UnicodeEncodeError:
            pass  # lone surrogates, which msgspec does not write
        else:
            return encoded if encoded.isascii() and b"\x7f" not in encoded else _json_escaped(encoded.decode()).encode()
    separators = (",", ": ") if indent else (",", ":")
    plain = msgspec.to_builtins(value, enc_hook=_decoded)
    text = json.dumps(plain, ensure_ascii=ascii_only, indent=indent, separators=separators)
    return _json_escaped(text).encode()


def _decoded(value: Any) -> Any:
    """JSON text inside of a value (`msgspec.Raw`), which `to_builtins` does not know, as a value."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"{type(value).__name__} is not written as JSON")


def _json_escaped(text: str) -> str:
    return _SUSPECT_JSON.sub(lambda run: _escape(run[0], _json_escape), text)


def _escape(run: str, escape: Callable[[str], str]) -> str:
    if run.isprintable():
        return run
    return "".join(char if char.isprintable() or category(char) == "Zs" else escape(char) for char in run)


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def _python_escape(char: str) -> str:
    return repr(char)[1:-1]
