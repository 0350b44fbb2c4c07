"""Half-open ranges as people type them."""

from __future__ import annotations

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.cli import ranges


@given(st.none() | st.integers(0, 1 << 60), st.none() | st.integers(0, 1 << 60))
def test_ranges(first: int | None, end: int | None) -> None:
    def text(number: int | None) -> str:
        return "" if number is None else str(number)

    for parse in (ranges.offset_range, ranges.time_range):
        written = f"{text(first)}..{text(end)}"
        if first is not None and end is not None and first >= end:
            with pytest.raises(typer.BadParameter):
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
    ],
)
def test_times(text: str, found: ranges.Range) -> None:
    """Without a zone UTC is meant; what is finer than a millisecond is cut."""
    assert ranges.time_range(text) == found


def test_an_offset_alone() -> None:
    assert ranges.offset_range("100") == (100, 101)


@pytest.mark.parametrize("text", ["", "-1", "a", "1...2", "1..2..3", "-5..7", "1" * 19, "٣..٤"])
def test_offsets_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no range of offsets"):
        ranges.offset_range(text)


@pytest.mark.parametrize("text", ["", "12", "yesterday..", "..9999-99-99", "1" * 19 + "..", "0001-01-01T00:00+24:00.."])
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        ranges.time_range(text)
