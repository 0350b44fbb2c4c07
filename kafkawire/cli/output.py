"""Printing of rows, as table, json, jsonl, csv or Parquet. No other module prints rows.

Rows are printed one by one; only a table, whose columns have to be aligned, holds some back. Data is never markup:
control characters are escaped in every format (see `text`), also in csv, where each row is one line; json has the exact
values. A table is plain text, and csv contains nothing that a spreadsheet would run (`_csv_cell`).
"""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import msgspec
import typer

from kafkawire.cli.formatting import json_bytes, plain, printable, values_of
from kafkawire.cli.output_file import Sink, open_output
from kafkawire.cli.table import CELL, Views, table_width, tables
from kafkawire.rows.base import Lines


class Format(StrEnum):
    """How rows are printed: for reading (table), or for tools."""

    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"


class PrintedFormat(StrEnum):
    """How rows are printed where no `-o` names a file: `Format` without parquet."""

    table = "table"
    json = "json"
    jsonl = "jsonl"
    csv = "csv"


FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format", help="By default a table on a terminal and jsonl in a pipe or file; parquet needs -o FILE."
    ),
]
PrintedFormatOption = Annotated[
    PrintedFormat | None, typer.Option("--format", help="By default a table on a terminal and jsonl in a pipe or file.")
]
OutputOption = Annotated[
    str | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE; its suffix may name the format.")
]
WideOption = Annotated[bool, typer.Option("--wide", help="Tables with all columns, however wide.")]
NoCutOption = Annotated[
    bool, typer.Option("--no-cut", help=f"As --wide, and values of more than {CELL:,} characters whole.")
]

#: The first characters of formulas in spreadsheets, and their full-width forms, which some programs convert (OWASP,
#: "CSV Injection"). Spreadsheets may skip blanks before them. The patterns below skip blanks possessively, without
#: backtracking, so that they take linear time.
_FORMULA = r"[=+\-@＝＋－＠]"

#: The places before formulas in a text. In locales with a decimal comma, spreadsheets split cells at `;`, even within
#: quotes, because quotes are special only at the beginning of a cell; the pattern skips them there.
_CELL = re.compile(rf'^(?=\s*+{_FORMULA})|;(?=["\s]*+{_FORMULA})')

#: A `;` before a formula in JSON, which can be escaped without loss. A `;` that ends a string is followed by a comma or
#: a bracket.
_CELL_IN_JSON = re.compile(rf";(?=\s*+{_FORMULA})")


class CommandRow(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of the rows that only the command line has; `kafkawire.rows` has the others."""

    @classmethod
    def of(cls, source: object, **given: Any) -> Self:
        """A row with the fields of `source` that it has, too, but for those that are given."""
        same = {name: getattr(source, name) for name in cls.__struct_fields__ if hasattr(source, name)}
        return cls(**same | given)


T = TypeVar("T")


def print_rows(
    rows: Iterable[msgspec.Struct],
    kinds: Sequence[type[msgspec.Struct]],
    *,
    format: Format | None = None,
    output: str | None = None,
    views: Views | None = None,
    unset: Iterable[str] = (),
    heading: str = "",
    live: bool = False,
    wide: bool = False,
    no_cut: bool = False,
) -> None:
    """Prints rows on standard output or into a file.

    Args:
        rows: of the classes in `kinds`.
        kinds: which rows there may be: the columns of csv are all their fields, in order.
        output: a file; None and `-` are standard output.
        views: the columns that a table shows of each kind, empty ones left out; by default all except `file`, which is
            its title.
        unset: fields that no row has this time (`UNSET`), and for which csv has no column.
        heading: lines above the first table, already harmless.
        live: rows come as something happens: each is written at once, into the file itself, and jsonl is the default
            also on a terminal. Parquet is complete at the end only.
        wide: a table shows all columns. `no_cut`: and all values at their full length.
    """
    if takes_columns(format, output):
        from kafkawire.cli.parquet import write_parquet

        if output is None or output == "-":
            raise typer.BadParameter("parquet is written into a file: give one with -o FILE", param_hint="--format")
        write_parquet(rows, kinds, output, unset)
        return
    with _stream(output, live=live) as (stream, terminal):
        chosen = format or (Format.table if terminal and not live else _ending(output))
        if live:
            rows = _flushed(rows, stream)
        if chosen is Format.table:
            if heading:
                stream.write(_encoded(heading + "\n\n", terminal))
            width = table_width(terminal=terminal, wide=wide or no_cut)
            utf8 = _utf8(terminal)
            for text in tables(
                rows, views or {}, width=width, terminal=terminal, utf8=utf8, kinds=kinds, no_cut=no_cut
            ):
                stream.write(_encoded(text, terminal))
        elif chosen is Format.csv:
            names = dict.fromkeys(name for kind in kinds for name in kind.__struct_encode_fields__)
            _csv(rows, stream, terminal, [name for name in names if name not in set(unset)])
        elif chosen is Format.json:
            _json(rows, stream, terminal)
        else:
            _jsonl(rows, stream, terminal)


class Shown(NamedTuple):
    """How a command prints its rows: its options, under the names that `print_rows` has for them."""

    format: Format | None
    output: str | None
    wide: bool
    no_cut: bool

    def print(
        self, rows: Iterable[msgspec.Struct], kinds: Sequence[type[msgspec.Struct]], views: Views, **more: Any
    ) -> None:
        """Prints rows. `more`: further arguments of `print_rows`."""
        print_rows(rows, kinds, views=views, **self._asdict(), **more)


def _flushed(rows: Iterable[T], stream: Sink) -> Iterator[T]:
    """The rows, each written out before the next is made."""
    for row in rows:
        yield row
        stream.flush()


def takes_lines(format: Format | None, output: str | None) -> bool:
    """Whether `rows.Lines` may be among the rows of `print_rows`: they are UTF-8, and no Parquet."""
    terminal = output in (None, "-") and sys.stdout.isatty()
    return not takes_columns(format, output) and _utf8(terminal)


def takes_columns(format: Format | None, output: str | None) -> bool:
    """Whether `print_rows` writes Parquet, so that `rows.Columns` may be among the rows."""
    return (format or _ending(output)) is Format.parquet


def print_json(value: Any, *, compact: bool = False) -> None:
    """Prints one JSON value (Structs, dicts, lists, strings, numbers): on many lines, or on one where `compact`."""
    with _stream(None) as (stream, terminal):
        indent = None if compact else 2
        stream.write(json_bytes(value, indent=indent, ascii_only=not _utf8(terminal)) + b"\n")


# Where to ------------------------------------------------------------------------------------------------------------


@contextmanager
def _stream(output: str | None, *, live: bool = False) -> Iterator[tuple[Sink, bool]]:
    """The stream to write to, and whether it is a terminal."""
    terminal = output in (None, "-") and sys.stdout.isatty()
    with open_output(output, live=live) as stream:
        yield stream, terminal


def _ending(output: str | None) -> Format:
    """The format that a file's suffix names; jsonl where it names none."""
    ending = Path(output or "").suffix.removeprefix(".").lower()
    return Format(ending) if ending in ("json", "csv", "parquet") else Format.jsonl


def _utf8(terminal: bool) -> bool:
    """Files and pipes get UTF-8; a terminal what it reads. UTF-8 on another holds bytes that are control characters."""
    return not terminal or sys.stdout.encoding.lower().replace("-", "") == "utf8"


# JSON ----------------------------------------------------------------------------------------------------------------


def _jsonl(rows: Iterable[Any], stream: Sink, terminal: bool) -> None:
    ascii_only = not _utf8(terminal)
    for row in rows:
        stream.write(row.data if isinstance(row, Lines) else json_bytes(row, ascii_only=ascii_only) + b"\n")


def _json(rows: Iterable[Any], stream: Sink, terminal: bool) -> None:
    ascii_only = not _utf8(terminal)
    before = b"[\n"
    for row in rows:
        if isinstance(row, Lines):  # a line's end is the only newline in it
            stream.write(before + bytes(row.data)[:-1].replace(b"\n", b",\n"))
        else:
            stream.write(before + json_bytes(row, ascii_only=ascii_only))
        before = b",\n"
    stream.write(b"[]\n" if before == b"[\n" else b"\n]\n")


# CSV -----------------------------------------------------------------------------------------------------------------


def _csv(rows: Iterable[msgspec.Struct], stream: Sink, terminal: bool, columns: list[str]) -> None:
    line = io.StringIO(newline="")
    writer = csv.writer(line, lineterminator="\n")

    def write(cells: Sequence[object]) -> None:
        writer.writerow(cells)
        stream.write(_encoded(line.getvalue(), terminal))
        line.seek(0)
        line.truncate()

    write(columns)
    places = {name: place for place, name in enumerate(columns)}
    native: Any = None
    for row in rows:
        if isinstance(row, Lines):
            native = native or _csv_lines(columns)
            stream.write(native.lines(row.data))
            continue
        cells: list[object] = [""] * len(columns)
        for name, value in values_of(row).items():
            if value is not None and name in places:
                cells[places[name]] = _csv_cell(value)
        write(cells)


def _csv_lines(columns: list[str]) -> Any:
    """The native engine's function that makes csv of its own lines."""
    from kafkawire.wire.backend import native

    assert native is not None
    return native.CsvLines(columns)


def _csv_cell(value: Any) -> object:
    """The value with nothing in it that a spreadsheet would run, whether `,` separates cells there or `;`."""
    if isinstance(value, str):
        return _CELL.sub(r"\g<0>'", printable(value))
    cell = plain(value)
    return _CELL_IN_JSON.sub(r"\\u003b", cell) if isinstance(cell, str) else cell


def _encoded(text: str, terminal: bool) -> bytes:
    return text.encode() if _utf8(terminal) else text.encode(sys.stdout.encoding, "backslashreplace")
