"""Rows as tables for reading: plain text, in which nothing of a row is markup or acts on a terminal."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire.cli.text import plain, printable

if TYPE_CHECKING:
    from rich.table import Table

#: A class of rows -> the fields that a table shows.
Columns = Mapping[Any, Sequence[str]]

#: Rows of one table: as many as a reader could want side by side, few enough to be held in memory.
TABLE_ROWS = 500

#: Values that a table leaves blank; a column that has no others is left out.
_NOTHING: tuple[Any, ...] = (None, "", [], (), {})

#: Width of a table that nobody looks at on a terminal: nothing is folded.
_WIDE = 100_000


def tables(rows: Iterable[msgspec.Struct], columns: Columns, *, terminal: bool, utf8: bool) -> Iterator[str]:
    """One table for each run of rows of one kind and file, in pieces of `TABLE_ROWS`."""
    title = None
    first = True
    for (kind, file), group in groupby(rows, lambda row: (type(row), _title(row, columns))):
        shown = columns.get(kind) or [name for name in kind.__struct_encode_fields__ if name not in ("file", "kind")]
        while piece := [msgspec.to_builtins(row) for row in islice(group, TABLE_ROWS)]:
            head = ("" if first else "\n") + (f"{printable(file)}\n" if file and file != title else "")
            yield head + _table_text(piece, shown, terminal=terminal, utf8=utf8)
            title, first = file, False


def _title(row: msgspec.Struct, columns: Columns) -> str | None:
    """The file that a row is of, unless a column tells it."""
    return None if "file" in columns.get(type(row), ()) else getattr(row, "file", None)


def _table_text(rows: list[dict[str, Any]], columns: Sequence[str], *, terminal: bool, utf8: bool) -> str:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD if utf8 else box.ASCII, pad_edge=False, show_edge=False)
    columns = [name for name in columns if any(row.get(name) not in _NOTHING for row in rows)]
    for name in columns:
        numbers = all(isinstance(row.get(name), (int, float, type(None))) for row in rows)
        table.add_column(Text(name), justify="right" if numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_table_cell(row.get(name))) for name in columns))
    return _rendered(table, terminal)


def _rendered(table: Table, terminal: bool) -> str:
    from rich.console import Console

    text = io.StringIO()
    console = Console(
        file=text,
        force_terminal=terminal,
        width=shutil.get_terminal_size().columns if terminal else _WIDE,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(table)
    return "".join(line.rstrip() + "\n" for line in text.getvalue().splitlines())


def _table_cell(value: Any) -> str:
    if value in _NOTHING:
        return ""
    return printable(value) if isinstance(value, str) else str(plain(value))
