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


def printable(text: str) -> str:
    """`text` on one line: `\\x1b` for an escape, `\\n` for a newline, `\\udcff` for a byte that is no UTF-8."""
    return text if text.isprintable() else _SUSPECT.sub(lambda run: escaped(run[0], _python_escape), text)


def escaped(run: str, escape: Callable[[str], str]) -> str:
    """`run` with each character that is not printable in the form that `escape` gives it."""
    if run.isprintable():
        return run
    return "".join(char if char.isprintable() or category(char) == "Zs" else escape(char) for char in run)


def _python_escape(char: str) -> str:
    return repr(char)[1:-1]
