"""Functions that make untrusted text printable and bounded for the page."""

from __future__ import annotations

from kafkawire.printable import collapsed, printable

#: Limits in characters: longer names and sentences are shortened, longer commands are not shown.
MOST_CHARACTERS = 400
MOST_COMMAND = 2000


def shown(value: object) -> str:
    """The printable text of a value, with runs of one escape counted. None is an empty text."""
    return "" if value is None else collapsed(printable(str(value)))


def shortened(text: str) -> str:
    """The text; if it is long, its beginning, its end and its length."""
    if len(text) <= MOST_CHARACTERS:
        return text
    end = MOST_CHARACTERS // 4
    return f"{text[: MOST_CHARACTERS - end]} … {text[-end:]} ({len(text)} characters)"


def runnable(command: str) -> bool:
    """Whether a command can be shown unchanged, so that copying it gives the same command."""
    return command.isprintable() and len(command) <= MOST_COMMAND
