"""The `repr` of messages: Python source where it is short, and bounded where it is not.

A message of 10 MB has a `repr` of some 10,000 characters, so that a debugger, a log line or a failed assertion can
show any message.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import msgspec

#: Characters after which elements and fields are counted instead of shown; characters or bytes shown of one value.
LIMIT, VALUE_LIMIT = 10_000, 1_000


def bounded_repr(value: msgspec.Struct) -> str:
    """The class and the fields that are not at their defaults."""
    text = _Text()
    text.struct(value)
    return "".join(text.parts)


class _Text:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.left = LIMIT

    def add(self, text: str) -> None:
        self.parts.append(text)
        self.left -= len(text)

    def struct(self, value: Any) -> None:
        cls = type(value)
        fields = zip(reversed(cls.__struct_fields__), reversed(cls.__struct_defaults__), strict=False)
        defaults = dict(fields)
        self.add(f"{cls.__name__}(")
        comma = ""
        for name in cls.__struct_fields__:
            held = getattr(value, name)
            if name in defaults and _is_default(held, defaults[name]):
                continue
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


def _cut(value: str | bytes | bytearray | memoryview) -> str:
    shown = value[:VALUE_LIMIT]
    text = f"memoryview({bytes(shown)!r})" if isinstance(shown, memoryview) else repr(shown)
    more = len(value) - len(shown)
    return f"{text}... {more} more" if more else text


def _is_default(held: Any, default: Any) -> bool:
    return held is default or (type(held) is type(default) and not isinstance(held, float) and bool(held == default))
