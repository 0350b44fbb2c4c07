"""Numbers in text files and settings, read as Java reads them, except for digits of other scripts, which no program
writes. `int` accepts more forms, and refuses numbers of thousands of digits."""

from __future__ import annotations

import re

INT32, INT64 = (1 << 31) - 1, (1 << 63) - 1

_NUMBER = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)


def number(text: str, highest: int) -> int:
    """A number in ASCII digits, as Java's parseInt and parseLong read it.

    Args:
        highest: the greatest one of the type; the least is below -`highest` by one.

    Raises:
        ValueError: the text is no such number.
    """
    digits = _NUMBER.fullmatch(text)
    found = int(digits[1] + digits[2]) if digits else highest + 1
    if not -highest - 1 <= found <= highest:
        raise ValueError(text[:50])
    return found


def whole_number(text: str, highest: int) -> int | None:
    """The number from 0 to `highest` that a text is; None for any other text, however long."""
    try:
        found = number(text, highest)
    except ValueError:
        return None
    return found if found >= 0 else None
