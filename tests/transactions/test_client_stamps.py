"""Stamps of clients that cannot be the time of a write."""

from __future__ import annotations

import pytest

from kafkawire.transactions.verdict.client_stamps import OLDEST_MS, TOLERANCE_MS, implausible
from tests.audit_logs import HOUR, NOON


@pytest.mark.parametrize(
    ("stamp", "why"),
    [
        (-1, "its batches carry no time"),
        (-(1 << 63), "its batches carry no time"),
        (0, "its client's clock is behind by "),
        (NOON // 1000, "its client stamps in seconds"),
        (NOON - OLDEST_MS - 1, "its client's clock is behind by "),
        (NOON + 2 * HOUR, "its client's clock is ahead by 2 h"),
        (NOON * 1000, "its client stamps in microseconds"),
        (NOON * 1_000_000, "its client stamps in nanoseconds"),
        ((1 << 63) - 1, "its client's clock is ahead by "),
    ],
)
def test_stamp_that_is_no_time_of_a_write(stamp: int, why: str) -> None:
    assert (implausible(stamp, NOON) or "").startswith(why)


@pytest.mark.parametrize("stamp", [NOON - OLDEST_MS, NOON - HOUR, NOON, NOON + TOLERANCE_MS])
def test_stamp_that_may_be_one(stamp: int) -> None:
    assert implausible(stamp, NOON) is None
