"""Rows as table, json, jsonl and csv."""

from __future__ import annotations

import csv
import io
import json
import re
import string
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.cli import output
from kafkawire.cli.formatting import printable
from kafkawire.cli.output import Format, print_rows
from tests import doubling, golden
from tests.cli.harmless import harmless

TEXT_FORMATS = [format for format in Format if format is not Format.parquet]

HOSTILE = [
    "\x1b]0;owned\x07\x1b[2J",
    "[bold red]markup[/] :smile:",
    "=cmd|' /C calc'!A0",
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    'a;=HYPERLINK("http://evil.example")',
    'b; "-1";c;d -1',
    "＝1",
    'two\nlines, "quoted"',
    "\u202egnp\u2066.exe",
    "\udcff\udcfe",
    "\x9b31m\u2028",
    "ordinary, é 大",
    "",
]


class Thing(output.CommandRow, frozen=True, kw_only=True):
    kind: str = "thing"
    file: str | None = None
    name: str
    count: int | None = None
    ratio: float | None = None
    flag: bool | None = None
    tags: tuple[str, ...] = ()
    errors: dict[str, int] = msgspec.field(default_factory=dict)
    body: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET


class Other(output.CommandRow, frozen=True, kw_only=True):
    kind: str = "other"
    file: str | None = None
    offset: int


THINGS = [Thing(name=text, count=-i, file="a.log") for i, text in enumerate(HOSTILE)] + [
    Thing(
        name="all",
        count=1,
        ratio=0.5,
        flag=True,
        tags=("=a", "\x1b", "b; +1", "c;d"),
        errors={"NONE": 1},
        body={"a": None},
    ),
    Thing(name="none", flag=False),
]


class _Standard:
    """Standard output as `print_rows` sees it: a buffer, an encoding, a terminal or not."""

    def __init__(self, terminal: bool = False, encoding: str = "utf-8") -> None:
        self.buffer = io.BytesIO()
        self.encoding = encoding
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def printed(
    rows: list[Any], format: Format | None, *, terminal: bool = False, encoding: str = "utf-8", **more: Any
) -> str:
    standard = _Standard(terminal, encoding)
    before, sys.stdout = sys.stdout, standard  # type: ignore[assignment]
    try:
        print_rows(rows, [Thing, Other], format=format, **more)
    finally:
        sys.stdout = before
    return standard.buffer.getvalue().decode(encoding)


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_every_format_escapes_hostile_rows(format: Format) -> None:
    golden.check("cli/hostile_rows.txt", printed(THINGS, format), format.value)


@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_every_format_writes_no_rows(format: Format) -> None:
    header = "kind,file,name,count,ratio,flag,tags,errors,body,offset\n"
    assert printed([], format) == {"table": "", "json": "[]\n", "jsonl": "", "csv": header}[format.value]


def test_csv_has_a_column_for_every_field_except_unset_ones() -> None:
    text = printed([Thing(name="a"), Other(offset=1)], Format.csv, unset=["body"])
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["kind", "file", "name", "count", "ratio", "flag", "tags", "errors", "offset"]
    assert [row["kind"] for row in rows] == ["thing", "other"]
    assert (rows[0]["offset"], rows[1]["offset"], rows[1]["name"]) == ("", "1", "")


texts = st.text(st.characters(), max_size=20) | st.sampled_from(HOSTILE)
things = st.builds(Thing, name=texts, count=st.none() | st.integers(-(1 << 63), (1 << 63) - 1), tags=st.tuples(texts))


@given(st.lists(things, max_size=5))
def test_json_lines_are_lossless(rows: list[Thing]) -> None:
    lines = printed(rows, Format.jsonl).split("\n")
    assert lines.pop() == ""
    assert [json.loads(line) for line in lines] == [json.loads(json.dumps(msgspec.to_builtins(row))) for row in rows]
    assert json.loads(printed(rows, Format.json)) == [json.loads(line) for line in lines]


@given(st.lists(things, max_size=5))
def test_csv_escapes_formulas_and_keeps_numbers(rows: list[Thing]) -> None:
    text = printed(rows, Format.csv)
    assert harmless(text)
    assert text.count("\n") == len(rows) + 1
    for row, cells in zip(rows, csv.DictReader(io.StringIO(text)), strict=True):
        assert not cells["name"].startswith(tuple("=+-@\t\r＝＋－＠"))
        assert cells["count"] == ("" if row.count is None else str(row.count))
        assert len(json.loads(cells["tags"])) == 1


cunning = st.text(st.sampled_from(""";,"'=+-@＝ \t\u3000\na\\1"""), max_size=12)


@given(st.lists(st.builds(Thing, name=cunning, tags=st.lists(cunning, max_size=3).map(tuple)), max_size=4))
def test_csv_escapes_formulas_after_semicolons(rows: list[Thing]) -> None:
    """Whatever a spreadsheet makes of quotes that do not begin a cell: taken for quotes, for text, or passed over."""
    text = printed(rows, Format.csv)
    cells = [cell for line in csv.reader(io.StringIO(text), delimiter=";") for cell in line]
    cells += [cell for line in text.split("\n") for cell in line.split(";")]
    assert not [cell for cell in cells if cell.lstrip('"\u3000 ').startswith(tuple("=+-@＝"))]
    for row, read in zip(rows, csv.DictReader(io.StringIO(text)), strict=True):
        assert json.loads(read["tags"]) == list(row.tags)
        assert read["name"].replace("'", "") == printable(row.name).replace("'", "")


FORMULA = r"\s*[=+\-@＝＋－＠]"
CELL = re.compile(rf'^(?={FORMULA})|;(?=["\s]*{FORMULA})')
CELL_IN_JSON = re.compile(rf";(?={FORMULA})")


@given(cunning)
def test_csv_escapes_the_same_cells_as_a_backtracking_pattern(text: str) -> None:
    read = list(csv.DictReader(io.StringIO(printed([Thing(name=text, tags=(text,))], Format.csv))))
    assert read[0]["name"] == CELL.sub(r"\g<0>'", printable(text))
    assert read[0]["tags"] == CELL_IN_JSON.sub(r"\\u003b", msgspec.json.encode([text]).decode())


@pytest.mark.slow
@pytest.mark.parametrize("format", TEXT_FORMATS)
def test_csv_work_grows_linearly_with_the_text(format: Format) -> None:
    def work(text: str) -> None:
        printed([Thing(name=text, tags=(text,))], format, terminal=True)

    if format is Format.table:
        doubling.assert_linear_in_text(work, 500, heads=[""])  # rich is slow, and looks at widths alone
    else:
        doubling.assert_linear_in_text(work, 1000)


def test_csv_keeps_harmless_text_unchanged() -> None:
    honest = ["a;b", "x=1; y=2;z", "a-b;c+d@e", "1;2;3", "'", "(-1)", "a, -1", "text/html;q=0.9,*/*;q=0.8"]
    lines = list(csv.DictReader(io.StringIO(printed([Thing(name=text) for text in honest], Format.csv))))
    assert [line["name"] for line in lines] == honest


@given(st.lists(things, max_size=5), st.sampled_from(TEXT_FORMATS), st.sampled_from(["utf-8", "latin-1", "ascii"]))
def test_terminal_output_has_no_control_characters(rows: list[Thing], format: Format, encoding: str) -> None:
    text = printed(rows, format, terminal=True, encoding=encoding)
    for styling in ("\x1b[1m", "\x1b[0m"):  # rich's own, around the header
        text = text.replace(styling, "") if format is Format.table else text
    assert harmless(text)


def test_default_is_a_table_on_a_terminal_and_jsonl_in_a_pipe() -> None:
    rows = [Other(offset=1)]
    assert printed(rows, None, terminal=True).count("\n") == 3
    assert json.loads(printed(rows, None)) == {"kind": "other", "file": None, "offset": 1}


@pytest.mark.parametrize(
    ("name", "begins"), [("x.csv", "kind,file"), ("x.json", "[\n"), ("x.jsonl", "{"), ("x", "{"), ("x.table", "{")]
)
def test_suffix_of_the_output_selects_the_format(tmp_path: Path, name: str, begins: str) -> None:
    print_rows([Other(offset=1)], [Other], output=str(tmp_path / name))
    assert (tmp_path / name).read_text().startswith(begins)


def test_format_option_overrides_the_suffix(tmp_path: Path) -> None:
    print_rows([Other(offset=1)], [Other], output=str(tmp_path / "x.csv"), format=Format.table)
    assert set((tmp_path / "x.csv").read_text()) <= set(string.ascii_letters + string.digits + " \n─")
