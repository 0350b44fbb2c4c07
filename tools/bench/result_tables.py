"""Results as tables, for the terminal and for docs/performance.md."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import geometric_mean

from tools.bench.results import BenchRun, Result, Timing

#: A cell of a contestant that took no part.
NOTHING = "–"


@dataclass(frozen=True)
class TableKind:
    """A kind of table: its title, a description, and the format of its cells."""

    name: str
    title: str
    about: str
    cell: Callable[[Result, Timing], str]
    mean: bool = False


@dataclass(frozen=True)
class ResultTable:
    """Rows of text under a header, all as wide."""

    title: str
    about: str
    header: list[str]
    rows: list[list[str]]


def _micros(result: Result, timing: Timing) -> str:
    return f"{_number(timing.median * 1e6)} µs"


def _millis(result: Result, timing: Timing) -> str:
    return f"{_number(timing.median * 1e3)} ms"


def _rate(result: Result, timing: Timing) -> str:
    return f"{_number(result.items / timing.median / 1e6)} M/s"


def _thousands(result: Result, timing: Timing) -> str:
    return f"{_number(result.items / timing.median / 1e3)} k/s"


def _number(value: float) -> str:
    """A number with three significant digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


_RECORDS = "16 MB of 200-byte records in batches of 80; records a second."
_CHECKSUMS = (
    "Payloads are touched for checksums alone. Of a segment that is read from its file, they are a tenth of the time "
    "for batches of 95 bytes (5 of 62 ns a batch) and a twentieth for batches of 100 KB (1.43 GB/s with them, 1.51 "
    "without): the rest is copying from the page cache and filling a column for each header field, which "
    "Java's walk does not do."
)
_COLUMNS = "Pure Python makes columns of objects; Java has none, and reads objects."
KINDS = (
    TableKind("decode", "Decode", "Bytes to objects, one message.", _micros, mean=True),
    TableKind("encode", "Encode", "Objects to bytes, one message.", _micros, mean=True),
    TableKind("no-copy", "Records left where they are", "Views of the input; Java writes them the same way.", _micros),
    TableKind("strict", "Strict mode", "Accepts only the bytes that encode would write.", _micros, mean=True),
    TableKind("records/objects", "Records as objects", _RECORDS, _rate),
    TableKind("records/columns", "Records as columns", f"{_RECORDS} {_COLUMNS}", _rate),
    TableKind("records/headers", "Batch headers only", f"{_RECORDS} {_CHECKSUMS}", _rate),
    TableKind("columns", "Messages as columns", f"100,000 values of `__transaction_state`. {_COLUMNS}", _rate),
    TableKind("dump", "kafkawire dump", "A segment of 100 MB before compression; records a second.", _rate),
    TableKind(
        "isolation",
        "kafkawire dump of transactions",
        "To jsonl, of 100 MB before compression (25 MB in batches of one record), four batches each; records a second.",
        _rate,
    ),
    TableKind(
        "capture-forms",
        "Captures as lines, Parquet and Arrow columns",
        "With bodies, in a process that has started; frames a second.",
        _thousands,
    ),
    TableKind("capture", "kafkawire capture", "Connections of real clients, some 27 MB; frames a second.", _thousands),
    TableKind("wireshark", "Wireshark plugin", "CPU time of `tshark -T fields`, its start included.", _millis),
    TableKind(
        "transactions",
        "kafkawire txn find-hanging",
        "From start to end by the clock, on one cluster; without the wait before suspects are read again.",
        _millis,
    ),
    TableKind("tier", "A tier in S3", "By the clock, from moto on the same machine; records a second.", _rate),
    TableKind(
        "spark",
        "Spark",
        "By the clock, in a session that runs already, JVM and Python workers together; values or batches a second.",
        _thousands,
    ),
    TableKind("startup", "Start", "CPU time of a fresh process, beyond Python and msgspec.", _millis),
)


def tables(run: BenchRun) -> list[ResultTable]:
    """The tables for which the run has results."""
    found = [_table(kind, run.table(kind.name)) for kind in KINDS if any(one.timings for one in run.table(kind.name))]
    for make in (_memory, _peaks):
        table = make(run)
        if table.rows:
            found.append(table)
    return found


def _table(kind: TableKind, results: list[Result]) -> ResultTable:
    names = list(dict.fromkeys(timing.contestant for result in results for timing in result.timings))
    rows = []
    for result in results:
        row = [result.title]
        for name in names:
            timing = result.timing(name)
            row.append(_cell(kind, result, timing) if timing else NOTHING)
        rows.append(row)
    if kind.mean and len(results) > 1:
        rows.append(["geometric mean of the ratios", *(_mean(results, name) for name in names)])
    return ResultTable(kind.title, kind.about, ["", *names], rows)


def _cell(kind: TableKind, result: Result, timing: Timing) -> str:
    """The value, its interquartile range, and its ratio to kafkawire's first engine."""
    text = f"{kind.cell(result, timing)} ±{timing.spread * 100:.0f}%"
    reference = result.reference
    return text if reference is None else f"{text} ({_number(timing.median / reference.median)}×)"


def _mean(results: list[Result], name: str) -> str:
    found = [
        timing.median / reference.median
        for result in results
        if (timing := result.timing(name)) and (reference := result.reference)
    ]
    if not found:
        return NOTHING
    return f"{_number(geometric_mean(found))}×" + (f" of {len(found)}" if len(found) < len(results) else "")


def _memory(run: BenchRun) -> ResultTable:
    with_memory = [result for result in run.results if result.memory]
    names = list(dict.fromkeys(memory.contestant for result in with_memory for memory in result.memory))
    rows = []
    for result in with_memory:
        found = {memory.contestant: memory for memory in result.memory}
        cells = []
        for name in names:
            memory = found.get(name)
            blocks = f" in {memory.blocks:,}" if memory and memory.blocks else ""
            cells.append(f"{memory.retained:,}{blocks}" if memory else NOTHING)
        rows.append([result.title, *cells])
    return ResultTable(
        "Memory of one decoded message", "Bytes that it keeps, and in how many blocks.", ["", *names], rows
    )


def _peaks(run: BenchRun) -> ResultTable:
    rows = [
        [f"{peak.title}, a file of {peak.size / 1e6:,.0f} MB", peak.contestant, f"{peak.peak / 1e6:,.0f} MB"]
        for peak in run.peaks
    ]
    return ResultTable("Most memory of a command", "The whole process, interpreter included.", ["", "", "peak"], rows)
