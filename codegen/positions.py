"""Paths of keys in JSON -> lines and columns in its text."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterable
from typing import Any

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
_NEWLINE = re.compile("\n")

#: A path as a tree: the key or index -> what comes below it.
_Wanted = dict[str | int, Any]


def find_positions(text: str, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """The line and column, both from 1, at which the values of `paths` begin.

    One pass over the text for all paths; only what they name is remembered.

    Args:
        text: valid JSON. What follows its first value is not read.
        paths: names of keys and indexes, as `Problem.path` has them: `fields[2].type`; "" is the whole.

    Returns:
        path -> position. Paths that the text does not have are missing.
    """
    root: _Wanted = {}
    ends: dict[str, _Wanted] = {}
    for path in paths:
        node = root
        for index, key in _PART.findall(path):
            node = node.setdefault(int(index) if index else key, {})
        ends[path] = node
    offsets = _offsets(text, root)
    newlines = [match.start() for match in _NEWLINE.finditer(text)]
    positions = {}
    for path, node in ends.items():
        if (offset := offsets.get(id(node))) is not None:
            line = bisect.bisect_left(newlines, offset)
            positions[path] = line + 1, offset - (newlines[line - 1] if line else -1)
    return positions


def _offsets(text: str, root: _Wanted) -> dict[int, int]:
    """The id of each wanted node -> the offset of its value."""
    offsets: dict[int, int] = {}
    # An entry for each open object or array: what is wanted of it, and the key or index of its next value. None: a key
    # comes next.
    below: list[tuple[_Wanted | None, str | int | None]] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token == ":":
            continue
        if token == ",":
            node, at = below[-1]
            below[-1] = node, at + 1 if isinstance(at, int) else None
        elif token in ("}", "]"):
            below.pop()
        elif below and below[-1][1] is None:
            below[-1] = below[-1][0], json.loads(token)
            continue
        else:
            node = root if not below else below[-1][0] and below[-1][0].get(below[-1][1] or 0)
            if node is not None:
                offsets.setdefault(id(node), match.start())
            if token in ("{", "["):
                below.append((node, 0 if token == "[" else None))
                continue
        if not below:
            break
    return offsets
