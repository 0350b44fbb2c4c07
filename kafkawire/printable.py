"""Text that strangers wrote, on one line and harmless: nothing of it may act, whatever it is shown with.

What is shown as it is, is what Python calls printable: letters of any script, marks, digits, symbols; and blanks.
Everything else (C0 and C1 control characters, ANSI escapes with them, bidirectional controls, zero-width characters,
line and paragraph separators, lone surrogates) is written as an escape.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from unicodedata import category

#: Runs that may hold something not printable.
_SUSPECT = re.compile(r"[^ -~]+")
#: A run of one escape, as `printable`, `repr` and JSON write it.
_RUN = re.compile(r"(\\(?:x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[nrt]))\1{7,}")
#: The beginning of an escape at the end of a text that was cut there.
_HALF = re.compile(r"\\(?:x[0-9a-f]?|u[0-9a-f]{0,3}|U[0-9a-f]{0,7})?$")
#: Characters of a line that people read.
_LINE = 2000


def printable(text: str) -> str:
    """`text` on one line: `\\x1b` for an escape, `\\n` for a newline, `\\udcff` for a byte that is no UTF-8."""
    return text if text.isprintable() else _SUSPECT.sub(lambda run: escaped(run[0], _python_escape), text)


def collapsed(text: str) -> str:
    """Printable text in which a run of one escape is counted: `\\x00{470 times}`."""
    return _RUN.sub(lambda run: f"{run[1]}{{{len(run[0]) // len(run[1])} times}}", text)


def brief(text: str, most: int = _LINE) -> str:
    """`printable` for people: runs of one escape are counted, and of a long text the middle is left out.

    Args:
        most: characters of the text that are shown at most; of a longer one the beginning, the end and the length.
    """
    whole = len(text) <= 2 * most
    shown = collapsed(printable(text if whole else text[:most]))
    if whole and len(shown) <= most:
        return shown
    end = most // 4
    last = shown if whole else collapsed(printable(text[-most:]))
    return f"{_HALF.sub('', shown[: most - end])} ... {last[-end:]} ({len(text):,} characters)"


def escaped(run: str, escape: Callable[[str], str]) -> str:
    """`run` with each character that is not printable in the form that `escape` gives it."""
    if run.isprintable():
        return run
    return "".join(char if char.isprintable() or category(char) == "Zs" else escape(char) for char in run)


def _python_escape(char: str) -> str:
    return repr(char)[1:-1]
