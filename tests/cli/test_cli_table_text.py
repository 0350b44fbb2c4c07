"""The text of tables: equal to what rich makes of them whole, whose rows are written without it."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafkawire.cli import table
from kafkawire.cli.table import _GAP, _Column, _column, _in_the_middle, _table_text, _total

WORDS = st.text("ab \u00a0-大é\u0301=\\\x1b\n", max_size=12)
NUMBERS = st.one_of(st.none(), st.integers(-99, 99), st.floats(allow_nan=False, width=16))


@st.composite
def columns(draw: st.DrawFn) -> list[_Column]:
    rows = draw(st.integers(1, 4))
    found = []
    for name in draw(st.lists(st.sampled_from(["a", "name", "latency_ms"]), min_size=1, max_size=4)):
        words = draw(st.booleans())
        cells = draw(st.lists(WORDS if words else NUMBERS, min_size=rows, max_size=rows))  # type: ignore[arg-type]
        column = _column(name, cells, prose=words and draw(st.booleans()))
        found.append(column.at_most(draw(st.integers(1, 14))))
    return found


def by_rich(columns: list[_Column], *, terminal: bool, utf8: bool) -> str:
    shown = Table(
        box=box.SIMPLE_HEAD if utf8 else box.ASCII, pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0)
    )
    for column in columns:
        shown.add_column(
            Text("\n".join(_in_the_middle(line, column.taken, utf8=utf8) for line in column.heading)),
            justify="right" if column.number else "left",
            width=column.taken,
            no_wrap=not column.prose,
            overflow="fold",
        )
    for cells in zip(*(column.cells for column in columns), strict=True):
        pairs = zip(columns, cells, strict=True)
        shown.add_row(*(Text(cell if c.prose else _in_the_middle(cell, c.taken, utf8=utf8)) for c, cell in pairs))
    text = io.StringIO()
    Console(
        file=text,
        force_terminal=terminal,
        width=_total(columns) + _GAP,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    ).print(shown)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


@given(columns(), st.booleans(), st.booleans())
def test_rows_are_what_rich_writes(columns: list[_Column], terminal: bool, utf8: bool) -> None:
    expected = by_rich(columns, terminal=terminal, utf8=utf8)
    assert _table_text(columns, terminal=terminal, utf8=utf8) == expected


@pytest.mark.parametrize("width", [6, 9, 30])
def test_prose_takes_several_lines_and_other_cells_one(width: int) -> None:
    found = [_column("n", [1, 22]), _column("problem", ["words that are wrapped", ""], prose=True), _column("z", "xy")]
    shown = [found[0], found[1].at_most(width), found[2]]
    assert _table_text(shown, terminal=False, utf8=True) == by_rich(shown, terminal=False, utf8=True)


@pytest.mark.parametrize("text", ["", "plain", "a\\x1b" * 20, "\x1b" * 9, "é", "x" * (table.CELL + 1), "\\n" * 8])
def test_cells_of_ordinary_text_are_those_of_brief(text: str) -> None:
    assert table._cell(text, time=False, no_cut=False) == table.brief(text, table.CELL)
