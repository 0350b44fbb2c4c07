"""Half-open ranges of offsets and of times, as options give them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import typer

from kafkawire.cli.arguments import LEAST_CLOCK_MS

#: From, and up to without; None where that end is open.
Range = tuple[int | None, int | None]

_RANGE = re.compile(r"(\d{0,19})\.\.(\d{0,19})", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,18}", re.ASCII)
#: Epoch seconds from 2001 on have ten digits. Read as milliseconds they are times from 1970 to 1973.
_LEAST_SECONDS = 10**9


def offset_range(text: str) -> Range:
    """The range of offsets `100..200` (without 200), `100..`, `..200`, or `100` alone."""
    if _NUMBER.fullmatch(text) and not text.startswith("-"):
        return int(text), int(text) + 1
    found = _RANGE.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no range of offsets, such as 100..200", param_hint="--offset")
    return _ascending(*(int(number) if number else None for number in found.groups()), hint="--offset")


def time_range(text: str) -> Range:
    """The range `FROM..TO`, without TO, in epoch milliseconds. An end that is missing is open. `text`: each end ISO
    8601 (UTC where it names no zone) or epoch milliseconds. A number that is likely to count seconds is a usage error;
    times of 1970 to 1973 can be given as ISO 8601."""
    first, dots, end = text.partition("..")
    if not dots:
        hint = f"{text!r} is no range of times, such as 2026-11-21T10:00..2026-11-21T11:00"
        raise typer.BadParameter(hint, param_hint="--time")
    return _ascending(_time(first), _time(end), hint="--time")


def _time(text: str) -> int | None:
    if not text:
        return None
    if _NUMBER.fullmatch(text):
        return _milliseconds(int(text))
    try:
        if text.isdecimal():
            raise ValueError("more digits than milliseconds have, not a date without separators")
        time = datetime.fromisoformat(text)
        return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000 // 1)
    except (ValueError, OverflowError):
        reason = f"{text!r} is neither ISO 8601, such as 2026-11-21T10:00:00, nor epoch milliseconds"
        raise typer.BadParameter(reason, param_hint="--time") from None


def _milliseconds(number: int) -> int:
    if not _LEAST_SECONDS <= number < LEAST_CLOCK_MS:
        return number
    read, meant = (datetime.fromtimestamp(at, UTC).isoformat()[:19] for at in (number / 1000, number))
    raise typer.BadParameter(
        f"{number} is {read} in epoch milliseconds; for {meant}, write {number}000, "
        f"and for a time before 1974 ISO 8601",
        param_hint="--time",
    )


def _ascending(first: int | None, end: int | None, *, hint: str) -> Range:
    if first is not None and end is not None and first >= end:
        raise typer.BadParameter(f"nothing lies in {first}..{end}: {first} is not before {end}", param_hint=hint)
    return first, end
