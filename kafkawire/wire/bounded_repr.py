"""The `repr` of messages: Python source where it is short, and cut to a bounded length where it is not.

A message of 10 MB has a `repr` of some 10,000 characters, so that a debugger, a log line or a failed assertion can
show any message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

import msgspec

#: Characters after which elements and fields are counted instead of shown; characters or bytes shown of one value.
LIMIT, VALUE_LIMIT = 10_000, 1_000
#: The width of lines of `indented_repr`.
_WIDTH, _INDENT = 100, "    "


def bounded_repr(value: msgspec.Struct) -> str:
    """The class and the fields that are not at their defaults."""
    text = _Text()
    text.struct(value)
    return "".join(text.parts)


def indented_repr(value: msgspec.Struct) -> str:
    """`bounded_repr` over several lines: what is too long for one has a field or an element a line."""
    text = _Indented()
    text.value(value)
    return "".join(text.parts)


class _Text:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.left = LIMIT

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.left -= len(text)

    def struct(self, value: Any) -> None:
        self.add(f"{type(value).__name__}(")
        comma = ""
        for name, held in _stated(value):
            if self.left <= 0:
                self.add(f"{comma}...")
                break
            self.add(f"{comma}{name}=")
            self.value(held)
            comma = ", "
        self.add(")")

    def array(self, values: tuple[Any, ...]) -> None:
        self.add("(")
        for number, value in zip(count(), values, strict=False):
            if self.left <= 0:
                self.add(f"... {len(values) - number} more")
                break
            self.value(value)
            self.add(", " if number + 1 < len(values) else "," if not number else "")
        self.add(")")

    def value(self, value: Any) -> None:
        if isinstance(value, msgspec.Struct):
            self.struct(value)
        elif isinstance(value, tuple):
            self.array(value)
        elif isinstance(value, (str, bytes, bytearray, memoryview)):
            self.add(_cut(value))
        else:
            self.add(repr(value))


class _Indented(_Text):
    """Writes a value on one line if it fits; otherwise each field or element has a line of its own."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def value(self, value: Any) -> None:
        line = _Text()
        line.left = min(self.left, _WIDTH - len(_INDENT) * self._depth)
        room = line.left
        line.value(value)
        text = "".join(line.parts)
        if len(text) <= room or not isinstance(value, (msgspec.Struct, tuple)):
            self.add(text if len(text) <= room else _plain(value))
        elif isinstance(value, tuple):
            self._lines("(", (("", each) for each in value), len(value))
        else:
            stated = list(_stated(value))
            self._lines(f"{type(value).__name__}(", ((f"{name}=", held) for name, held in stated), len(stated))

    def _lines(self, head: str, parts: Iterable[tuple[str, Any]], count: int) -> None:
        self.add(head)
        self._depth += 1
        for number, (name, value) in enumerate(parts):
            self.add("\n" + _INDENT * self._depth)
            if self.left <= 0:
                self.add(f"... {count - number} more")
                break
            self.add(name)
            self.value(value)
            self.add(",")
        self._depth -= 1
        self.add("\n" + _INDENT * self._depth + ")")


def _plain(value: Any) -> str:
    text = _Text()
    text.value(value)
    return "".join(text.parts)


def _stated(value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a struct that are not at their defaults."""
    cls = type(value)
    defaults = dict(zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False))
    for name in cls.__struct_fields__:
        held = getattr(value, name)
        if name not in defaults or not _is_default(held, defaults[name]):
            yield name, held


def _cut(value: str | bytes | bytearray | memoryview) -> str:
    shown = value[:VALUE_LIMIT]
    text = f"memoryview({bytes(shown)!r})" if isinstance(shown, memoryview) else repr(shown)
    more = len(value) - len(shown)
    return f"{text}... {more} more" if more else text


def _is_default(held: Any, default: Any) -> bool:
    return held is default or (type(held) is type(default) and not isinstance(held, float) and bool(held == default))
