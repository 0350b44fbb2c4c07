"""Times and amounts as an operator reads them."""

from __future__ import annotations

import pytest

from kafkawire.transactions.formatting import count, duration, named, numbers, when


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 s"),
        (999, "0 s"),
        (1000, "1 s"),
        (61_000, "1 min 1 s"),
        (3_600_000, "1 h"),
        (3_601_000, "1 h"),
        (3 * 86_400_000 + 2 * 3_600_000 + 59_000, "3 d 2 h"),
        (-61_000, "-1 min 1 s"),
    ],
)
def test_durations_have_two_units_at_most(milliseconds: int, text: str) -> None:
    assert duration(milliseconds) == text


def test_formats_times_counts_and_ranges() -> None:
    assert when(1_750_075_200_999) == "2025-06-16 12:00:00 UTC"
    assert when(None) == when(-1) == "an unknown time"
    assert when(2**63 - 1) == "9223372036854775807 ms"
    assert (count(1, "offset"), count(2, "offset")) == ("1 offset", "2 offsets")
    assert numbers([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"


def test_names_follow_a_noun_in_its_number() -> None:
    assert named("broker", ["1"]) == "broker 1"
    assert named("broker", ["1", "2"]) == "brokers 1, 2"
    assert named("topic", ["a", "b", "c"], most=2) == "topics a, b and 1 more"
