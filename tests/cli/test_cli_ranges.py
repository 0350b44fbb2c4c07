"""Half-open ranges of offsets and of times, as options state them."""

from __future__ import annotations

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.cli import ranges


@given(st.none() | st.integers(0, 1 << 60), st.none() | st.integers(0, 1 << 60))
def test_parses_what_is_formatted_and_rejects_empty_ranges(first: int | None, end: int | None) -> None:
    def text(number: int | None) -> str:
        return "" if number is None else str(number)

    for parse in (ranges.offset_range, ranges.time_range):
        written = f"{text(first)}..{text(end)}"
        if first is not None and end is not None and first >= end:
            with pytest.raises(typer.BadParameter):
                parse(written)
        elif parse is ranges.time_range and any(
            number is not None and 10**9 <= number < 10**11 for number in (first, end)
        ):
            with pytest.raises(typer.BadParameter, match="in epoch milliseconds"):
                parse(written)
        elif all(len(text(number)) <= 18 for number in (first, end)):
            assert parse(written) == (first, end)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("2026-11-21T10:00..2026-11-21T11:00Z", (1795255200000, 1795258800000)),
        ("2026-11-21T10:00:00.0015+01:00..", (1795251600001, None)),
        ("..-1", (None, -1)),
        ("..", (None, None)),
        ("0..999999999", (0, 999_999_999)),
        ("100000000000..", (100_000_000_000, None)),
        ("1970-01-21T18:40:41.506..", (1795241506, None)),
    ],
)
def test_reads_iso_8601_and_epoch_milliseconds(text: str, found: ranges.Range) -> None:
    """A time without a zone is UTC. Fractions of a millisecond are cut."""
    assert ranges.time_range(text) == found


def test_one_offset_is_a_range_of_one() -> None:
    assert ranges.offset_range("100") == (100, 101)


@pytest.mark.parametrize("text", ["", "-1", "a", "1...2", "1..2..3", "-5..7", "1" * 19, "٣..٤"])
def test_rejects_text_that_is_no_range_of_offsets(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no range of offsets"):
        ranges.offset_range(text)


@pytest.mark.parametrize("text", ["", "12", "yesterday..", "..9999-99-99", "1" * 19 + "..", "0001-01-01T00:00+24:00.."])
def test_rejects_text_that_is_no_range_of_times(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        ranges.time_range(text)


@pytest.mark.parametrize("text", ["1795241506..", "..1795241506", "1795241506..1795241507", "99999999999.."])
def test_rejects_epoch_seconds(text: str) -> None:
    """As milliseconds they would be times of 1970, so that nothing is selected, or everything."""
    with pytest.raises(typer.BadParameter, match=r"is 197\d-.* in epoch milliseconds; for \d{4}-.*, write \d+000,"):
        ranges.time_range(text)
