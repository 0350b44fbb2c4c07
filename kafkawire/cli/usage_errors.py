"""Errors of arguments and options: the library's sentences, reworded."""

from __future__ import annotations

import re
from typing import Any

#: The text before a quoted value, and the value, which may contain any quotes: matched once, from the beginning.
_VALUE = r"""^([^'"]*)['"].*['"]"""
#: Sentences of the libraries that read options, of old releases and of new ones -> ours.
_WORDS = [
    (re.compile(pattern), words)
    for pattern, words in [
        (r"^Invalid value: ", ""),
        (r"^Invalid value for '?([^':]*)'?: ", r"\1: "),
        (r"^(--[\w-]+): \1\b", r"\1"),
        (r"Value error, ", ""),
        (
            rf"Input should be a valid integer.*|{_VALUE} is not a valid int(?:eger)?(?: range)?\.?$",
            r"\1not a whole number",
        ),
        (rf"Input should be a valid number.*|{_VALUE} is not a valid float(?: range)?\.?$", r"\1not a number"),
        (r"Input should be greater than or equal to ", "must be at least "),
        (r"Input should be less than or equal to ", "must be at most "),
        (r"\.$", ""),
    ]
]


def usage_text(error: Any) -> str:
    """One line: the option, what is wrong with it, and where to read on."""
    text: str = error.format_message()
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return f"{text} ({error.ctx.command_path} --help)" if error.ctx is not None else text
