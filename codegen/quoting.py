"""Quoting of texts: in the sentences of problems, and as literals of the languages that emitters write."""

from __future__ import annotations

import re


def quote(text: str, most: int = 60) -> str:
    """A text for a reason: in quotes, without control characters, and cut after `most` characters."""
    return repr(text if len(text) <= most else text[:most] + "...")


def python_string(text: str) -> str:
    """A string literal of Python, in double quotes where that needs no escape."""
    quoted = repr(text)
    return f'"{quoted[1:-1]}"' if quoted[0] == "'" and '"' not in quoted else quoted


def python_strings(values: tuple[str, ...]) -> str:
    """A tuple of string literals of Python."""
    return "(" + ", ".join(map(python_string, values)) + ("," if len(values) == 1 else "") + ")"


def yaml_string(text: str) -> str:
    """A text as a YAML scalar on one line."""
    plain = re.fullmatch(r"[A-Za-z][\w ,.;()+-]*", text, re.ASCII)
    if plain and text.lower() not in ("true", "false", "null", "yes", "no", "on", "off"):
        return text
    return '"' + "".join(map(_yaml_character, text)) + '"'


def _yaml_character(char: str) -> str:
    if char in '"\\':
        return "\\" + char
    return char if char.isprintable() else f"\\U{ord(char):08x}"


def lua_string(text: str) -> str:
    """A text as a Lua string of its UTF-8, in which what does not print is written byte by byte; of half a surrogate
    pair, which has no UTF-8, its escape."""
    return '"' + "".join(char if char.isprintable() and char not in '"\\' else _lua_bytes(char) for char in text) + '"'


def _lua_bytes(char: str) -> str:
    return "".join(f"\\{byte:03d}" for byte in char.encode("utf-8", "backslashreplace"))
