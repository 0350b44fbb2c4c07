"""Rows that come as lines of JSON: every format prints them as it prints the rows themselves."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.cli import table
from kafkawire.cli.formatting import json_bytes
from kafkawire.cli.output import Format
from kafkawire.rows import Lines
from kafkawire.wire.backend import native
from tests.cli.test_cli_output import THINGS, Other, Thing, printed

pytestmark = pytest.mark.skipif(native is None, reason="lines are written by the native engine")

TEXTS = [format for format in Format if format is not Format.parquet]
#: What csv and spreadsheets make something of, between what they do not.
HOSTILE = st.text(st.sampled_from("a;\"',=+-@＝\\ \t\n\x1b\x08\x0c\u00a0\u3000\u202eé😀\U0001d173\udcff"), max_size=9)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), HOSTILE),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(HOSTILE, inner, max_size=3)),
    max_leaves=6,
)
MADE = st.builds(
    Thing,
    file=st.none() | HOSTILE,
    name=HOSTILE,
    count=st.none() | st.integers(-(2**63), 2**63 - 1),
    ratio=st.none() | st.integers(10, 10**15 - 1).map(lambda ns: round(ns / 1e6, 6)),  # as latencies are
    flag=st.none() | st.booleans(),
    tags=st.lists(HOSTILE, max_size=2).map(tuple),
    errors=st.dictionaries(HOSTILE, st.integers(0, 9), max_size=2),
    body=st.just(msgspec.UNSET) | st.none() | st.dictionaries(HOSTILE, JSON, max_size=3),
)
ROWS = st.lists(MADE | st.builds(Other, offset=st.integers()), max_size=5)


def lines(rows: list[Any]) -> Lines:
    return Lines(0, memoryview(b"".join(json_bytes(row) + b"\n" for row in rows)))


@given(ROWS, st.sampled_from(TEXTS), st.integers(0, 5))
def test_lines_are_printed_as_their_rows(rows: list[Any], format: Format, place: int) -> None:
    mixed = [*rows[:place], *([lines(rows[place:])] if rows[place:] else [])]
    assert printed(mixed, format) == printed(rows, format)


@pytest.mark.parametrize("format", TEXTS)
def test_hostile_lines(format: Format) -> None:
    assert printed([lines(THINGS)], format) == printed(THINGS, format)


def test_a_field_without_a_column_is_left_out() -> None:
    assert printed([lines([Thing(name="a", count=2)])], Format.csv, unset=("name", "file")) == printed(
        [Thing(name="a", count=2)], Format.csv, unset=("name", "file")
    )


def test_what_is_no_line_is_an_error() -> None:
    with pytest.raises(ValueError, match="no lines of rows"):
        printed([Lines(0, memoryview(b'{"name":"a"'))], Format.csv)


@pytest.mark.parametrize("as_lines", [True, False])
def test_a_table_has_its_first_rows_and_says_how_many_there_are(monkeypatch: Any, as_lines: bool) -> None:
    monkeypatch.setattr(table, "MOST_ROWS", 3)
    rows: list[Any] = [Other(offset=number) for number in range(5)]
    given = [lines(rows[:2]), lines(rows[2:])] if as_lines else rows
    text = printed(given, Format.table)
    assert [line.strip() for line in text.splitlines() if line.strip().isdigit()] == ["0", "1", "2"]
    assert text.endswith("\nThe first 3 rows; 2 more rows: --format jsonl prints all.\n")
    assert "more row" not in printed(rows[:3], Format.table)
    assert printed(rows[:4], Format.table).endswith("1 more row: --format jsonl prints all.\n")
