"""Untrusted text on one line, without characters that a terminal, browser or file format interprets.

Printable characters (`str.isprintable`: letters of any script, marks, digits, symbols) and blanks stay. All others
become escapes: C0 and C1 control characters (so ANSI sequences, too), bidirectional controls, zero-width characters,
line and paragraph separators, lone surrogates.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from unicodedata import category

#: A run of characters outside of printable ASCII.
_SUSPECT = re.compile(r"[^ -~]+")
#: A run of characters outside of printable ASCII in JSON text, where a newline can only be layout: inside of strings it
#: is `\n`.
_SUSPECT_JSON = re.compile(r"[^\n -~]+")
#: Eight or more of one escape in a row, as `printable`, `repr` and JSON write them.
_RUN = re.compile(r"(\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt]))\1{7,}")
#: An incomplete escape at the end of a text that was cut.
_HALF = re.compile(r"\\(?:x[0-9a-f]?|u[0-9a-f]{0,3}|U[0-9a-f]{0,7})?$")
#: Default limit of a line, in characters.
_LINE = 2000


def printable(text: str) -> str:
    """The text on one line: ESC as `\\x1b`, a newline as `\\n`, a byte that is no UTF-8 as `\\udcff`."""
    return text if text.isprintable() else _SUSPECT.sub(lambda run: escaped(run[0], _python_escape), text)


def printable_json(text: str) -> str:
    """JSON text with `\\u` escapes for what is not printable in its strings; line ends of its layout stay."""
    return _SUSPECT_JSON.sub(lambda run: escaped(run[0], _json_escape), text)


def collapsed(text: str) -> str:
    """Printable text in which a run of one escape is replaced by its count: `\\x00{470 times}`."""
    if "\\" not in text:
        return text
    return _RUN.sub(lambda run: f"{run[1]}{{{len(run[0]) // len(run[1])} times}}", text)


def brief(text: str, most: int = _LINE) -> str:
    """`printable` with a bounded length: runs of one escape are counted, and the middle of a long text is left out.

    Args:
        text: any text.
        most: characters shown at most. A longer text is shown as its beginning, its end and its length.
    """
    whole = len(text) <= 2 * most
    shown = collapsed(printable(text if whole else text[:most]))
    if whole and len(shown) <= most:
        return shown
    end = most // 4
    last = shown if whole else collapsed(printable(text[-most:]))
    return f"{_HALF.sub('', shown[: most - end])} ... {last[-end:]} ({len(text):,} characters)"


def escaped(run: str, escape: Callable[[str], str]) -> str:
    """The text with each character that is neither printable nor a blank replaced by `escape` of it."""
    if run.isprintable():
        return run
    return "".join(char if char.isprintable() or category(char) == "Zs" else escape(char) for char in run)


def _json_escape(char: str) -> str:
    import json

    return json.dumps(char)[1:-1] if char != "\x7f" else "\\u007f"


def _python_escape(char: str) -> str:
    return repr(char)[1:-1]
