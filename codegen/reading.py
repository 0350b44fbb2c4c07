"""`SchemaNode`: one JSON object of a schema, read key by key; problems of a key are noted and reading continues."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Any

from kafkawire.codegen.load import describe
from kafkawire.codegen.quoting import quote
from kafkawire.codegen.versions import VersionRange
from kafkawire.errors import Problem

_FLAGS = {True: True, False: False, "true": True, "false": False}


class SchemaNode:
    """An object of a schema with the place where it stands.

    Scalars are read as Kafka's JSON reader (Jackson) reads them: a number or bool for a string, digits for a number,
    "true" for true, one element for an array of one; a literal null is as good as no key. Where a value is none of
    these, the problem is noted and the answer is that of an absent key.
    """

    __slots__ = ("data", "file", "path", "problems", "warnings")

    def __init__(
        self,
        data: dict[str, Any],
        file: str,
        path: str,
        problems: list[Problem],
        warnings: list[Problem],
    ) -> None:
        self.data = data
        self.file = file
        self.path = path
        self.problems = problems
        self.warnings = warnings

    def problem(self, reason: str, key: str = "") -> None:
        """Notes what is wrong with the object, or with the value of `key`."""
        self.problems.append(Problem(self.file, self.place(key), reason))

    def warn(self, reason: str, key: str = "") -> None:
        """Notes what is allowed and has no effect."""
        self.warnings.append(Problem(self.file, self.place(key), reason))

    def place(self, key: str = "") -> str:
        return f"{self.path}.{key}" if self.path and key else self.path or key

    def check_keys(self, known: Collection[str]) -> None:
        for key in self.data:
            if key not in known:
                self.problem(f"there is no key {quote(key)}{nearest(key, known)}")

    def text(self, key: str) -> str | None:
        value = self.data.get(key)
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return str(value)
        if value is None:
            return None
        if not isinstance(value, str):
            self.problem(f"must be a string, not {describe(value)}", key)
            return None
        try:
            value.encode()
        except UnicodeEncodeError:
            self.problem("holds half of a surrogate pair", key)
            return None
        return value

    def required(self, key: str) -> str | None:
        """The string at a key; an absent key is a problem."""
        if self.data.get(key) is None:
            self.problem(f"the key {key!r} is missing")
        return self.text(key)

    def versions(self, key: str) -> VersionRange | None:
        text = self.text(key)
        if text is None:
            return None
        try:
            return VersionRange.parse(text)
        except ValueError as error:
            self.problem(str(error), key)
            return None

    def flag(self, key: str) -> bool:
        value = self.data.get(key)
        if value is None:
            return False
        if isinstance(value, bool | str) and value in _FLAGS:
            return _FLAGS[value]
        self.problem(f"must be true or false, not {describe(value)}", key)
        return False

    def integer(self, key: str, high: int) -> int | None:
        """A number from 0 to `high`."""
        value = self.data.get(key)
        if value is None:
            return None
        if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit() and len(value) <= 20:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.problem(f"must be a whole number, not {describe(value)}", key)
        elif not 0 <= value <= high:
            self.problem(f"must be from 0 to {high}, not {value}", key)
        else:
            return value
        return None

    def nodes(self, key: str) -> list[SchemaNode]:
        """The objects in an array."""
        value = self.data.get(key)
        if value is None:
            return []
        if isinstance(value, dict):
            value = [value]
        if not isinstance(value, list):
            self.problem(f"must be an array of objects, not {describe(value)}", key)
            return []
        nodes = []
        for index, item in enumerate(value):
            if isinstance(item, dict):
                nodes.append(SchemaNode(item, self.file, f"{self.place(key)}[{index}]", self.problems, self.warnings))
            else:
                self.problem(f"must be an object, not {describe(item)}", f"{key}[{index}]")
        return nodes

    def texts(self, key: str) -> tuple[str, ...]:
        """The strings in an array."""
        value = self.data.get(key)
        if value is None:
            return ()
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            self.problem("must be an array of strings", key)
            return ()
        return tuple(value)


def nearest(text: str, known: Collection[str]) -> str:
    """A question to append, "; did you mean 'fields'?", where one of `known` is like `text`; else nothing."""
    if len(known) > 500:  # difflib is slow; no schema has as many names to take one from
        return ""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(text.lower()[:60], by_lower, n=1, cutoff=0.7)
    return f"; did you mean {by_lower[close[0]]!r}?" if close else ""
