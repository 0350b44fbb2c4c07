"""The processor time of every shape of output of `capture` and `dump`, beside jsonl of the same rows.

    python -m tools.bench.matrix            # prints the section
    python -m tools.bench.matrix --write    # and writes it into docs/performance.md

A cell is a command, run as a user runs it: start included, output into a file. Its figure is the processor time of the
fastest of some runs, divided by that of the cell that it is compared with. A gate that does not hold is in bold.
"""

from __future__ import annotations

import sys
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.bench.cases import Inputs
from tools.bench.measured_commands import least_processor_time, users_environment
from tools.bench.page_sections import integer, section_main

_CAPTURE_BYTES, _LOG_BYTES = 41 << 20, 100 << 20
_FORMATS = ("jsonl", "json", "csv", "table", "parquet")
#: Factors that a format may take of jsonl, a selection of none, and counts of headers.
_OF_JSONL, _OF_ALL, _OF_HEADERS = 2.0, 1.1, 1.0
#: Runs differ by that much on a machine that does nothing else.
_NOISE = 0.05


class Shape(NamedTuple):
    """What is printed: options of a command, and the formats that it has; `against`: the shape whose jsonl it is
    compared with, in any format (`gate`: the factor); None: its own jsonl."""

    title: str
    words: tuple[str, ...]
    formats: tuple[str, ...] = _FORMATS
    against: str | None = None
    gate: float = _OF_JSONL


def shapes(inputs: Inputs) -> Iterator[Shape]:
    """The rows of the table, each after the one that it is compared with."""
    path, _ = inputs.capture(_CAPTURE_BYTES // inputs.scale, long=True)
    capture = ("capture", str(path))
    yield Shape("capture", capture)
    criteria = {
        "--api": ("Produce",), "--client-id": ("orders-service",), "--topic": ("orders",), "--producer-id": ("5",),
        "--transactional-id": ("orders-service",), "--errors": (), "--slow": ("5",), "--connection": ("1",),
        "--port": ("9092",), "--time": ("2026-11-21T10:21..",),
    }  # fmt: skip
    for option, values in criteria.items():
        yield Shape(f"capture {option}", (*capture, option, *values), ("jsonl",), "capture", _OF_ALL)
    yield Shape("capture --stats", (*capture, "--stats"), ("jsonl", "csv", "table"), "capture", _OF_HEADERS)
    yield Shape("capture --timeline", (*capture, "--timeline", "orders-service"), ("jsonl", "csv", "table"), "capture")
    yield Shape("capture, otlp-json", (*capture, "--format", "otlp-json"), ("",), "capture")
    yield Shape("capture --body", (*capture, "--body"))
    for option in ("--api", "--topic"):
        words = (*capture, "--body", option, *criteria[option])
        yield Shape(f"capture --body {option}", words, ("jsonl",), "capture --body", _OF_ALL)
    yield Shape("capture --body --no-payloads", (*capture, "--body", "--no-payloads"), against="capture --body")
    yield Shape("capture --body --records", (*capture, "--body", "--records"), against="capture --body")
    for codec in ("none", "lz4"):
        segment, _ = inputs.segment(codec, _LOG_BYTES, "matrix")
        dump = ("dump", str(segment.parent))
        name = "dump" if codec == "none" else f"dump of {codec}"
        yield Shape(name, dump)
        deep = f"{name} --print-data-log"
        yield Shape(deep, (*dump, "--print-data-log"))
        if codec == "none":
            yield Shape(f"{name} --stats", (*dump, "--stats"), ("jsonl", "csv", "table"), name, _OF_HEADERS)
            chosen = {"--offset": "0..1000000000", "--time": "2000-01-01..", "--producer-id": "5", "--key": "none"}
            for option, value in chosen.items():
                words = (*dump, "--print-data-log", option, value)
                yield Shape(f"{deep} {option}", words, ("jsonl",), deep, _OF_ALL)
            yield Shape(f"{deep} --transaction", (*dump, "--print-data-log", "--transaction"), ("jsonl",), deep)


def seconds(words: tuple[str, ...], form: str, rounds: int, bytecode: Path) -> float:
    """Processor time of a command, the least of some runs. `bytecode`: a folder for compiled modules."""
    # Modules are compiled already, as those of an installed package: by the first run of each command.
    environment = users_environment(PYTHONPYCACHEPREFIX=str(bytecode))
    with tempfile.TemporaryDirectory() as folder:
        given = ("--format", form) if form else ()
        output = ("-o", f"{folder}/rows.parquet") if form == "parquet" else ()
        command = [sys.executable, "-m", "kafkawire", *words, *given, *output]
        return least_processor_time(command, environment, rounds, (0, 4))


def measured(inputs: Inputs, rounds: int) -> Iterator[tuple[Shape, float, dict[str, float]]]:
    """Of each shape the time that it is compared with, and its own, by format."""
    of_jsonl: dict[str, float] = {}
    for shape in shapes(inputs):
        found = {form: seconds(shape.words, form, rounds, inputs.folder / "bytecode") for form in shape.formats}
        of_jsonl[shape.title] = found.get("jsonl", 0.0)
        print(shape.title, {form: round(time, 2) for form, time in found.items()}, file=sys.stderr)
        yield shape, of_jsonl[shape.against or shape.title], found


def table(rows: list[tuple[Shape, float, dict[str, float]]]) -> str:
    """Markdown: of each shape the seconds of jsonl, then factors."""
    lines = [
        "| rows | s | compared with | gate | jsonl | json | csv | table | parquet | spans |",
        "|---|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for shape, against, found in rows:
        cells = [_cell(shape, form, found, against) for form in (*_FORMATS, "")]
        first = next(iter(found.values()))
        with_what = "jsonl" if shape.against is None else f"`{shape.against}`"
        lines.append(f"| `{shape.title}` | {first:.2f} | {with_what} | {shape.gate:g} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(shape: Shape, form: str, found: dict[str, float], against: float) -> str:
    if form not in found:
        return ""
    factor = found[form] / against
    # Another format of a selection or of counts is held to what jsonl takes of the whole.
    gate = max(shape.gate, _OF_JSONL) if form not in ("jsonl", "") else shape.gate
    return f"{factor:.2f}" if factor <= gate + _NOISE else f"**{factor:.2f}**"


def section(arguments: Namespace) -> str:
    return f"{_HEAD}\n\n{table(list(measured(Inputs(), arguments.rounds)))}\n\n{_NOTES}"


_HEAD = """## Shapes of output

Processor time (user and system, start included) of each shape of output of `capture` and `dump`, as a factor of the
time that the same rows take as jsonl; of a selection, as a factor of no selection, and of counts (`--stats`), as a
factor of rows of headers; modules are compiled already. The capture has 41 MB on a few long connections, the segment
100 MB and 520,000 records, or as many in lz4. A factor above its gate is in bold. `python -m tools.bench.matrix`
measures it."""

_NOTES = """Tables have the first 10,000 rows. Lines of jsonl are what the engine hands over: csv, json and tables are
made of them, many at a time; Parquet is made of columns. One walk over the frames writes either: with columns as a
further sink of that walk jsonl took 5 to 40 % more.

What is above its gate, by profile (cProfile and `perf stat -e task-clock`, the capture above):

- `capture --body --records` as a table: 2.1 times its own jsonl. In a file a table is as wide as its longest values,
  10,000 characters: 105 MB of text for 10,000 rows. Joining its cells takes 27 us a row, encoding the text 18 us,
  stripping blanks at its ends 12 us: 0.57 s, where all of jsonl takes 0.48 s. With `COLUMNS=120`, as on a terminal, it
  is 1.4 times.
- `capture`, and `capture --body --records`, as Parquet: 0.10 s are the import of pyarrow, a third and a fifth of what
  jsonl takes."""


if __name__ == "__main__":
    sys.exit(section_main("matrix", __doc__, section, {"--rounds": integer(3, "runs of each cell")}))
