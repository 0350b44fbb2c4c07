"""Text of Python source: docstrings, imports, and statements broken to fit into 120 columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

from kafkawire.codegen.versions import VersionRange
from kafkawire.printable import printable

WIDTH = 120

#: Quotes that could end a docstring: those before another one or at the end.
_QUOTES = re.compile(r'"(?="|$)')
_IMPORTED = re.compile(r"( *from \S+ import )([^()]+)")
_TARGETS = re.compile(r"( +)(\w+(?:, \w+)+)( = .*)")


def range_text(versions: VersionRange) -> str:
    return f"range({versions.low}, {versions.high + 1})" if versions.low else f"range({versions.high + 1})"


def version_text(versions: VersionRange, valid: VersionRange) -> str:
    """Versions as schemas write them; with an open end where that is the newest of the valid ones."""
    if not versions or versions.high != valid.high:
        return str(versions)
    return f"{versions.low}+"


def import_text(module: str, what: set[str], indent: int = 0) -> str:
    """An import of names, each on a line of its own where one is too short.

    Args:
        module: its name.
        what: the names.
        indent: blanks in front of the statement.
    """
    ordered = in_import_order(what)
    line = f"from {module} import {', '.join(ordered)}"
    if len(line) + indent <= WIDTH:
        return line
    inner = " " * (indent + 4)
    return f"from {module} import (\n" + "".join(f"{inner}{name},\n" for name in ordered) + " " * indent + ")"


def in_import_order(names: Iterable[str]) -> list[str]:
    """Names sorted as import sorters do: constants, then classes, then functions."""
    return sorted(names, key=lambda name: (not name.isupper(), not name[:1].isupper(), _natural(name)))


def _natural(name: str) -> list[str]:
    """A key that sorts INT8 before INT16."""
    return [part.zfill(20) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def fill(parts: list[str], indent: int) -> str:
    """Lines full of parts, each with its comma."""
    lines, current = "", " " * indent
    for part in parts:
        if len(current) + len(part) + 2 > WIDTH and current.strip():
            lines += current.rstrip() + "\n"
            current = " " * indent
        current += f"{part}, "
    return lines + current.rstrip() + "\n"


def doc(text: str) -> str:
    """Text that is safe inside a docstring, whatever a schema's author wrote; what does not print is escaped."""
    text = " ".join(text.split()).replace("\\", "\\\\")
    return printable(_QUOTES.sub('\\\\"', text))


def wrap(text: str, indent: int) -> str:
    """Prose in lines that fit after an indent; the first one follows three quotes."""
    margin = indent + 3
    lines = textwrap.fill(
        text,
        WIDTH - 3,
        initial_indent=" " * margin,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return lines[margin:]


def reflow(source: str) -> str:
    """The source with its over-long statements broken inside their longest pair of brackets."""
    return "".join(_broken(line) if len(line) > WIDTH else line + "\n" for line in source.splitlines())


def _broken(line: str) -> str:
    match = _TARGETS.fullmatch(line)
    if match:
        indent, targets, rest = match.groups()
        line = f"{indent}({targets}){rest}"
    line = _IMPORTED.sub(r"\1(\2)", line)
    open_at, close_at = _longest_brackets(line)
    if open_at < 0:
        return line + "\n"
    indent_width = len(line) - len(line.lstrip())
    inside = fill(_split(line[open_at + 1 : close_at]), indent_width + 4)
    return line[: open_at + 1] + "\n" + inside + " " * indent_width + line[close_at:] + "\n"


def _longest_brackets(line: str) -> tuple[int, int]:
    """The outermost pair of brackets with the most between them that has a comma at its top level."""
    best, stack = (-1, -1), []
    for at, char in _code(line):
        if char in "([{":
            stack.append(at)
        elif char in ")]}" and stack:
            begin = stack.pop()
            if at - begin > best[1] - best[0] and len(_split(line[begin + 1 : at])) > 1:
                best = begin, at
    return best


def _split(text: str) -> list[str]:
    """The parts between the commas outside brackets and strings."""
    parts, depth, start = [], 0, 0
    for at, char in _code(text):
        if char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [part for part in (*parts, text[start:].strip()) if part]


def _code(text: str) -> list[tuple[int, str]]:
    """The characters that stand outside string literals, with their places."""
    out, quote, skip = [], "", False
    for at, char in enumerate(text):
        if skip:
            skip = False
        elif quote:
            skip = char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            out.append((at, char))
    return out
