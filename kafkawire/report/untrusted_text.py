"""Text that strangers wrote, as it may stand in the page: printable, and of bounded length."""

from __future__ import annotations

from kafkawire.printable import collapsed, printable

#: Characters of a name or sentence that are shown; of a command, all or none.
MOST_CHARACTERS = 400
MOST_COMMAND = 2000


def shown(value: object) -> str:
    """A value's text, harmless, with runs of one escape counted; nothing for None."""
    return "" if value is None else collapsed(printable(str(value)))


def shortened(text: str) -> str:
    """A long text's beginning and end, and how long it is."""
    if len(text) <= MOST_CHARACTERS:
        return text
    end = MOST_CHARACTERS // 4
    return f"{text[: MOST_CHARACTERS - end]} … {text[-end:]} ({len(text)} characters)"


def runnable(command: str) -> bool:
    """Whether a command can be shown as it is, so that what is copied is what is meant."""
    return command.isprintable() and len(command) <= MOST_COMMAND
