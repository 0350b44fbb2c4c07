"""Rows as tables for reading: plain text, in which nothing of a row is markup or acts on a terminal.

A row is one line, however narrow the terminal is. Where the columns of a `TableView` do not fit, room is made in this
order: topic and partition become one column, headings take two lines, long text is shortened in the middle, columns
that are not primary are left out; the last line of the output names them. `--wide` shows everything, except that values
of more than `CELL` characters are cut and followed by their length, unless `--no-cut` is given.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby, islice
from typing import Any

import msgspec

from kafkawire.cli.formatting import brief, counted, plain, printable, wrapped
from kafkawire.cli.table_rows import TableRow, TableRows


class TableView(msgspec.Struct, frozen=True):
    """The columns that a table shows for a kind of rows.

    Attributes:
        columns: fields, from left to right.
        primary: those that stay where not all fit; by default the first.
        minor: those that are left out first, in this order; the others follow from right to left.
        prose: text that is wrapped between words, and not shortened.
    """

    columns: tuple[str, ...]
    primary: tuple[str, ...] = ()
    minor: tuple[str, ...] = ()
    prose: tuple[str, ...] = ()


#: A class of rows -> what a table shows of it; by default all fields.
Views = Mapping[Any, TableView]

#: Rows of one table: a longer output is printed as several, so that few rows are held in memory.
TABLE_ROWS = 500

#: Rows of a table; further rows are only counted. A reader needs no more, and aligning rows takes many times as long as
#: printing them as lines.
MOST_ROWS = 10_000

#: Values that a table leaves blank; a column that has no others is left out.
_NOTHING: tuple[Any, ...] = (None, "", [], (), {})

#: Fields that are times: epoch milliseconds are shown as ISO 8601. They are never shortened, nor are numbers.
_TIMES = frozenset(
    {"time", "timestamp", "first_timestamp", "last_timestamp", "marker_timestamp", "last_update_timestamp"}
    | {"LastTimestamp", "CurrentTransactionStartTimeMs"}
)

#: Fields that count names: `CONCURRENT_TRANSACTIONS: 3`.
_COUNTS = frozenset({"errors", "codecs", "magics"})

#: Width of a table that is not folded: of --wide, and of files and pipes where COLUMNS is not set.
_UNLIMITED = sys.maxsize
#: Characters of a value; every row of a table is as wide as the longest value.
CELL = 10_000
#: The end of a value that was cut (`brief`), which stays.
_LENGTH = re.compile(r" \([0-9,]+ characters\)$")
#: Blanks between two columns.
_GAP = 2
#: Text up to this width is shortened only where not even the primary columns fit otherwise; longer text not below that.
_SHORT, _LEAST = 30, 24
#: Headings wider than that may take two lines, where room is wanted.
_HEADING = 10
#: Where a heading may go on in a second line: at a capital, and after `_`.
_BREAKS = re.compile(r"(?<=[a-z])(?=[A-Z(])|(?<=_)")


def time_text(timestamp: int) -> str:
    """Epoch milliseconds as ISO 8601 in UTC, `2026-11-21T19:53:25.123Z`; what no calendar has stays a number."""
    try:
        text = datetime.fromtimestamp(timestamp // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):  # a client may have written any int64
        return str(timestamp)
    return str(timestamp) if timestamp < 0 else f"{text}.{timestamp % 1000:03d}Z"


def table_width(*, terminal: bool, wide: bool) -> int:
    """The width of a table in characters: COLUMNS if set, or else the terminal's; unlimited elsewhere."""
    if wide:
        return _UNLIMITED
    if terminal:
        return shutil.get_terminal_size().columns
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isascii() and columns.isdigit() and int(columns[:9]) > 0 else _UNLIMITED


def tables(
    rows: Iterable[msgspec.Struct],
    views: Views,
    *,
    width: int,
    terminal: bool,
    utf8: bool,
    kinds: Sequence[type[msgspec.Struct]] = (),
    no_cut: bool = False,
) -> Iterator[str]:
    """One table for each run of rows of one kind and file, in pieces of `TABLE_ROWS`; of the first `MOST_ROWS` rows.

    Args:
        rows: the rows, in any mix of kinds; `Lines` may be among them.
        views: the columns of each kind.
        width: characters of a line.
        terminal: whether control characters act where the table is shown.
        utf8: whether the stream encodes all characters.
        kinds: which rows `Lines` may hold.
        no_cut: print long values in full.
    """
    title = None
    first = True
    left_out: dict[str, None] = {}
    shortened = False
    found = TableRows(rows, kinds, MOST_ROWS)
    for (kind, file), group in groupby(found, lambda row: (row[0], _title(row, views))):
        view = views.get(kind) or TableView(
            tuple(name for name in kind.__struct_encode_fields__ if name not in ("file", "kind"))
        )
        while piece := [values for _, values in islice(group, TABLE_ROWS)]:
            head = ("" if first else "\n") + (f"{printable(file)}\n" if file and file != title else "")
            columns, gone = _fitted(_columns(piece, view, no_cut=no_cut), view, width)
            left_out.update(dict.fromkeys(gone))
            shortened = shortened or any(column.shortened for column in columns)
            yield head + _table_text(columns, terminal=terminal, utf8=utf8)
            title, first = file, False
    more = found.rest()
    if more:
        yield _below(f"The first {MOST_ROWS:,} rows; {counted(more, 'more row')}: --format jsonl prints all.", width)
    note = _note(list(left_out), shortened=shortened)
    if note:
        yield _below(note, width)


def _below(sentence: str, width: int) -> str:
    """A sentence below a table."""
    return "\n" + "".join(f"{line}\n" for line in wrapped(sentence, width))


def _note(left_out: Sequence[str], *, shortened: bool) -> str:
    """A line on the rows and columns that a table does not show; empty where it shows all."""
    parts = [f"no room for {', '.join(left_out)}"] if left_out else []
    parts += ["long values are shortened"] if shortened else []
    return f"Narrow: {'; '.join(parts)} (--wide shows all)." if parts else ""


def _title(row: TableRow, views: Views) -> str | None:
    """The file of a row, unless a column contains it."""
    kind, values = row
    view = views.get(kind)
    return None if view is not None and "file" in view.columns else values.get("file")


# Columns -------------------------------------------------------------------------------------------------------------


class _Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column that is to be shown. `width`: of its cells, `natural` of the longest; both without the heading."""

    name: str
    heading: tuple[str, ...]
    cells: tuple[str, ...]
    natural: int
    width: int
    number: bool = False
    time: bool = False
    prose: bool = False

    @property
    def taken(self) -> int:
        return max(self.width, *map(len, self.heading))

    @property
    def shortened(self) -> bool:
        return not self.prose and self.taken < self.natural

    def at_most(self, width: int) -> _Column:
        return msgspec.structs.replace(self, width=min(self.natural, width))


def _columns(rows: list[dict[str, Any]], view: TableView, *, no_cut: bool) -> list[_Column]:
    """The columns of a view that are not empty."""
    found = []
    for name in view.columns:
        values = [row.get(name) for row in rows]
        if any(value not in _NOTHING for value in values):
            found.append(_column(name, values, prose=name in view.prose, no_cut=no_cut))
    return found


def _column(name: str, values: Sequence[Any], *, prose: bool = False, no_cut: bool = False) -> _Column:
    time = name in _TIMES
    if name in _COUNTS:
        values = [_as_counts(value) for value in values]
    cells = tuple(_cell(value, time=time, no_cut=no_cut) for value in values)
    natural = max(map(_cells, cells))
    number = not time and all(isinstance(value, (int, float, type(None))) for value in values)
    return _Column(
        name=name, heading=(name,), cells=cells, natural=natural, width=natural, number=number, time=time, prose=prose
    )


def _as_counts(value: Any) -> Any:
    return ", ".join(f"{name}: {count}" for name, count in value.items()) if isinstance(value, dict) else value


def _cell(value: Any, *, time: bool, no_cut: bool) -> str:
    if value is None:
        return ""
    if type(value) is int:
        return time_text(value) if time else str(value)
    if isinstance(value, str) and len(value) <= CELL and value.isascii() and value.isprintable() and "\\" not in value:
        return value  # most texts: nothing to escape, to count or to cut
    if value in _NOTHING:
        return ""
    text = value if isinstance(value, str) else str(plain(value))
    return printable(text) if no_cut else brief(text, CELL)


# Fitting -------------------------------------------------------------------------------------------------------------


def _fitted(columns: list[_Column], view: TableView, width: int) -> tuple[list[_Column], list[str]]:
    """The columns so that they fit, and the names of those that are left out; see the module."""
    if _total(columns) <= width:
        return columns, []
    columns = [_in_two_lines(column) for column in _with_place(columns)]
    primary = {_place_name(name) for name in view.primary or view.columns[:1]} | set(view.primary)
    left_out: list[str] = []
    while True:
        names = [column.name for column in columns]
        others = [name for name in names if name not in primary]
        fitting = _shortened(columns, width, above=_SHORT, least=_LEAST)
        if not fitting and not others:
            fitting = _shortened(columns, width, above=0, least=1)
        if fitting or len(columns) == 1:
            return fitting or [columns[0].at_most(width)], left_out
        gone = next((name for name in view.minor if name in others), (others or names)[-1])
        left_out.append(gone)
        columns = [column for column in columns if column.name != gone]


def _total(columns: Sequence[_Column]) -> int:
    return sum(column.taken for column in columns) + _GAP * (len(columns) - 1)


def _shortened(columns: list[_Column], width: int, *, above: int, least: int) -> list[_Column]:
    """Narrows the columns with text wider than `above` until all fit; an empty list where that takes less than
    `least`."""
    long = {column.name for column in columns if not column.number and not column.time and column.natural > above}

    def of(limit: int) -> list[_Column]:
        return [column.at_most(limit) if column.name in long else column for column in columns]

    low, high = 0, max((column.natural for column in columns if column.name in long), default=0)
    if _total(of(high)) <= width:
        return of(high)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _total(of(middle)) <= width else (low, middle)
    return of(low) if low >= least else []


def _with_place(columns: list[_Column]) -> list[_Column]:
    """Topic and partition as one column, `orders-3`, where the table has both."""
    by_name = {column.name: column for column in columns}
    for topic, partition in (("topic", "partition"), ("Topic", "Partition")):
        if topic in by_name and partition in by_name:
            cells = zip(by_name[topic].cells, by_name[partition].cells, strict=True)
            place = _column(_place_name(topic), [f"{name}-{number}" if number else name for name, number in cells])
            return [place if one.name == topic else one for one in columns if one.name != partition]
    return columns


def _place_name(name: str) -> str:
    """The name of the column that holds a topic with its partition."""
    return {"topic": "place", "Topic": "Place"}.get(name, name)


def _in_two_lines(column: _Column) -> _Column:
    """The column with its heading in two lines, where the heading is wider than its cells."""
    name = column.name
    places = [found.start() for found in _BREAKS.finditer(name)]
    if len(name) <= min(column.natural, _HEADING) or not places:
        return column
    middle = min(places, key=lambda place: max(place, len(name) - place))
    return msgspec.structs.replace(column, heading=(name[:middle], name[middle:]))


# Text ----------------------------------------------------------------------------------------------------------------


def _table_text(columns: Sequence[_Column], *, terminal: bool, utf8: bool) -> str:
    """The heading as rich writes it, in bold on a terminal. The rows, of which there are many, are written here."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    text = io.StringIO()
    console = Console(
        file=text,
        force_terminal=terminal,
        width=_total(columns) + _GAP,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    table = Table(
        box=box.SIMPLE_HEAD if utf8 else box.ASCII, pad_edge=False, show_edge=False, padding=(0, _GAP - 1, 0, 0)
    )
    for column in columns:
        table.add_column(
            Text("\n".join(_in_the_middle(line, column.taken, utf8=utf8) for line in column.heading)),
            justify="right" if column.number else "left",
            width=column.taken,
        )
    console.print(table)
    lines = text.getvalue().splitlines()
    wrapped = _wrapped(columns, console)
    shown = [_padded(column, utf8=utf8) for column in columns]
    between = " " * (_GAP - 1) + (" " if utf8 else "|")
    for place, cells in enumerate(zip(*shown, strict=True)):
        if place in wrapped:
            lines += _tall_row(cells, columns, wrapped[place], between)
        else:
            lines.append(between.join(cells))
    return "".join(line.rstrip() + "\n" for line in lines)


def _padded(column: _Column, *, utf8: bool) -> list[str]:
    """The cells, each padded to the width of the column; text that is too wide loses its middle."""
    width = column.taken
    cells = column.cells
    if column.natural > width and not column.prose:
        cells = tuple(_in_the_middle(cell, width, utf8=utf8) for cell in cells)
    if column.number:
        return [cell.rjust(width) for cell in cells]  # numbers are ASCII
    return [cell.ljust(width) if cell.isascii() else _filled(cell, width, column) for cell in cells]


def _filled(cell: str, width: int, column: _Column) -> str:
    """A cell padded to the width of its column. In prose, rich counts characters of no width too, so blanks at the end
    that would be too many for it are left out."""
    if column.prose and len(cell) > width:
        blanks = len(cell) - len(cell.rstrip())
        cell = cell[: len(cell) - min(blanks, len(cell) - width)]
    return cell + " " * (width - _cells(cell))


def _wrapped(columns: Sequence[_Column], console: Any) -> dict[int, dict[int, list[str]]]:
    """The prose of each row wrapped to several lines, by column."""
    from rich.text import Text

    found: dict[int, dict[int, list[str]]] = {}
    for number, column in enumerate(columns):
        if not column.prose or column.natural <= column.taken:
            continue
        for place, cell in enumerate(column.cells):
            if _cells(cell) > column.taken:
                lines = Text(cell).wrap(console, column.taken, justify="left", overflow="fold")
                found.setdefault(place, {})[number] = [line.plain for line in lines]
    return found


def _tall_row(
    cells: Sequence[str], columns: Sequence[_Column], wrapped: Mapping[int, Sequence[str]], between: str
) -> Iterator[str]:
    """The lines of a row of which some cells take several."""
    for line in range(max(map(len, wrapped.values()))):
        parts = []
        for number, cell in enumerate(cells):
            text = cell if line == 0 else ""
            if number in wrapped:
                text = wrapped[number][line] if line < len(wrapped[number]) else ""
            parts.append(text + " " * (columns[number].taken - _cells(text)))
        yield between.join(parts)


def _cells(text: str) -> int:
    """The width of printable text on a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def _in_the_middle(text: str, width: int, *, utf8: bool) -> str:
    """Text shortened in the middle to a width, because names differ at their ends."""
    if _cells(text) <= width:
        return text
    from rich.cells import cell_len, set_cell_size

    dots = "…" if utf8 else "..."
    if width <= len(dots) + 1:
        return set_cell_size(text, width)
    left = width - len(dots)
    length = _LENGTH.search(text[-40:])
    if length is not None and len(length[0]) < left:
        end = length[0]
    else:
        end = text
        while cell_len(end) > left // 2:
            end = end[max(1, (cell_len(end) - left // 2) // 2) :]
    return set_cell_size(text, left - cell_len(end)) + dots + end
