"""Rows as tables: which there are, and how they fit a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.cli.output import Format
from tests import golden
from tests.cli.test_cli_output import Other, Thing, printed


def test_tables_of_several_kinds_and_files() -> None:
    rows = [
        Thing(name="a", file="one"),
        Thing(name="b", file="one"),
        Other(offset=5, file="one"),
        Other(offset=6, file="two\x1b"),
        Other(offset=7),
    ]
    golden.check("cli/tables.txt", printed(rows, Format.table, heading="Heading."))


def test_table_columns_can_be_chosen() -> None:
    text = printed([Thing(name="a", count=1)], Format.table, columns={Thing: ("count", "kind", "tags")})
    assert text.split("\n")[0].split() == ["count", "kind"]


def test_a_long_table_comes_in_pieces() -> None:
    def rows() -> Any:
        for i in range(1200):
            taken.append(i)
            yield Other(offset=i)

    taken: list[int] = []
    text = printed(rows(), Format.table)  # type: ignore[arg-type]
    assert len(taken) == 1200
    assert text.count("offset") == 3


def test_a_narrow_terminal_folds_and_keeps_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    text = printed([Thing(name="abcdefghij" * 10, count=5)], Format.table, terminal=True)
    lines = text.split("\n")
    assert max(len(line.replace("\x1b[1m", "").replace("\x1b[0m", "")) for line in lines) <= 30
    assert "".join(char for char in text if char in "abcdefghij").count("abcdefghij") >= 9


def test_columns_that_say_nothing_are_left_out() -> None:
    assert printed([Thing(name="a"), Thing(name="b")], Format.table).split("\n")[0] == "name"
