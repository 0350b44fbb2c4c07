"""Timestamps that clients set: which of them can be times at all.

A client stamps its batches as it likes: event time, a clock that is ahead, microseconds, no time. What is not plausible
is reported and never used, neither for ages nor as a clock.
"""

from __future__ import annotations

from kafkawire.transactions.formatting import duration

#: How far a plausible stamp may be after the clock: clocks of clients and brokers differ a little.
TOLERANCE_MS = 60_000
#: A plausible stamp is not older.
OLDEST_MS = 10 * 365 * 86_400_000

#: How many of each unit are a millisecond.
_UNITS = ((1_000, "microseconds"), (1_000_000, "nanoseconds"))


def implausible(timestamp: int, as_of: int | None) -> str | None:
    """Why a timestamp of a client is no time at which a batch was written, the end of a sentence; None where it may be.
    `timestamp`: of the batch, epoch milliseconds. `as_of`: the clock; None where none is known."""
    if timestamp < 0:
        return "its batches carry no time"
    if as_of is None:
        return None
    if timestamp > as_of + TOLERANCE_MS:
        unit = next((name for count, name in _UNITS if abs(timestamp // count - as_of) < OLDEST_MS), None)
        ahead = f"its client's clock is ahead by {duration(timestamp - as_of)}"
        return ahead if unit is None else f"its client stamps in {unit}"
    if timestamp < as_of - OLDEST_MS:
        return (
            "its client stamps in seconds"
            if abs(timestamp * 1000 - as_of) < OLDEST_MS
            else (f"its client's clock is behind by {duration(as_of - timestamp)}")
        )
    return None
