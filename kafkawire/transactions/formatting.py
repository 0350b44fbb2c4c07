"""Times and amounts as an operator reads them in evidence."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def when(timestamp: int | None) -> str:
    """Epoch milliseconds as UTC to the second, `2025-06-01 12:00:00 UTC`."""
    if timestamp is None or timestamp < 0:
        return "an unknown time"
    try:
        return datetime.fromtimestamp(timestamp // 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError, OSError):  # a client may have written any int64
        return f"{timestamp} ms"


def duration(milliseconds: int) -> str:
    """A duration in its two largest units: `3 h 2 min`, `25 s`, `0 s`."""
    left = abs(milliseconds)
    parts: list[tuple[int, str]] = []
    for size, unit in _UNITS:
        amount, left = divmod(left, size)
        if amount or parts:
            parts.append((amount, unit))
    text = " ".join(f"{amount} {unit}" for amount, unit in parts[:2] if amount) or "0 s"
    return "-" + text if milliseconds < 0 else text


def count(number: int, noun: str) -> str:
    """`1 record`, `2 records`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def some(names: Sequence[str], most: int) -> str:
    """Names in a row, the first `most` of them: `a, b, c and 7 more`."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def named(noun: str, names: Sequence[str], most: int = 5) -> str:
    """Names after their noun: `broker 1`, `brokers 1, 2`. `noun`: in the singular. `most`: number of names that are
    listed."""
    return f"{noun}{'s' * (len(names) > 1)} {some(names, most)}"


def numbers(values: list[int]) -> str:
    """Ascending numbers with runs folded: `0-3, 7`."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    return ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in runs)


def size(number: int) -> str:
    """An amount of bytes: `17 bytes`, `4.2 kB`, `1.3 GB`."""
    if number < 1000:
        return count(number, "byte")
    value, units = number / 1000, ["TB", "GB", "MB", "kB"]
    while value >= 1000 and len(units) > 1:
        value /= 1000
        units.pop()
    return f"{value:.1f} {units[-1]}"
