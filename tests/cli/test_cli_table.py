"""Rows as tables: which there are, and how they fit a terminal."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from kafkawire import rows as rows_of
from kafkawire.cli import output, txn_describe, txn_find_hanging, txn_list, txn_producers
from kafkawire.cli.output import Format
from kafkawire.cli.table import TableView, time_text
from tests import golden
from tests.cli.runner import Run
from tests.cli.test_cli_output import Other, Thing, printed

WIDTHS = [80, 120, 200]
ROOT = Path(__file__).parents[2]
LONG = "orders-of-a-long-topic-name-by-country-and-currency-and-then-more.v2.retry"


def plain(text: str) -> str:
    return text.replace("\x1b[1m", "").replace("\x1b[0m", "")


def widest(text: str) -> int:
    """Of the lines of tables, without the note below them."""
    return max(map(cell_len, table_of(text).splitlines()))


def table_of(text: str) -> str:
    return plain(text).partition("\nNarrow:")[0]


def note_of(text: str) -> str:
    """On one line, however narrow the table is."""
    return " ".join(" ".join(plain(text).partition("\nNarrow:")[1:]).split())


def test_prints_a_table_for_each_kind_and_file() -> None:
    rows = [
        Thing(name="a", file="one"),
        Thing(name="b", file="one"),
        Other(offset=5, file="one"),
        Other(offset=6, file="two\x1b"),
        Other(offset=7),
    ]
    golden.check("cli/tables.txt", printed(rows, Format.table, heading="Heading."))


def test_view_selects_the_columns() -> None:
    text = printed([Thing(name="a", count=1)], Format.table, views={Thing: TableView(("count", "kind", "tags"))})
    assert text.split("\n")[0].split() == ["count", "kind"]


@pytest.mark.slow
def test_prints_a_long_table_in_pieces() -> None:
    def rows() -> Any:
        for i in range(1200):
            taken.append(i)
            yield Other(offset=i)

    taken: list[int] = []
    text = printed(rows(), Format.table)  # type: ignore[arg-type]
    assert len(taken) == 1200
    assert text.count("offset") == 3


def test_leaves_out_empty_columns() -> None:
    assert printed([Thing(name="a"), Thing(name="b")], Format.table).split("\n")[0] == "name"


# Times ----------------------------------------------------------------------------------------------------------------


class Timed(output.CommandRow, frozen=True, kw_only=True):
    timestamp: int | None


def test_times_are_iso_8601_in_tables_and_milliseconds_elsewhere() -> None:
    rows: list[Any] = [
        Timed(timestamp=1_700_000_000_007),
        Timed(timestamp=-1),
        Timed(timestamp=2**62),
        Timed(timestamp=None),
    ]
    text = printed(rows, Format.table)
    assert text.splitlines()[2:] == ["2023-11-14T22:13:20.007Z", "-1", str(2**62), ""]
    assert '{"timestamp":1700000000007}' in printed(rows, Format.jsonl)
    assert time_text(0) == "1970-01-01T00:00:00.000Z"


# How wide a table is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("width", [40, 79])
def test_columns_variable_sets_the_width(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    text = printed([Thing(name="abcdefghij" * 10, count=5)], Format.table, terminal=terminal)
    assert widest(text) <= width
    assert "abcde" in text
    assert "…" in text
    assert note_of(text) == "Narrow: long values are shortened (--wide shows all)."
    assert max(map(len, plain(text).splitlines())) <= width


@pytest.mark.parametrize("columns", ["", "0", "-5", "wide", "1e3"])
def test_invalid_columns_variable_is_ignored(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert "abcdefghij" * 40 in printed([Thing(name="abcdefghij" * 40)], Format.table)


@pytest.mark.parametrize("terminal", [False, True])
def test_wide_shows_all_columns_in_one_line(monkeypatch: pytest.MonkeyPatch, *, terminal: bool) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    name = "abcdefghij" * 1000
    text = plain(printed([Thing(name=name, count=5, ratio=0.5)], Format.table, terminal=terminal, wide=True))
    assert text.splitlines()[2].split() == [name, "5", "0.5"]
    assert "Narrow" not in text


# What makes room ------------------------------------------------------------------------------------------------------


class Line(output.CommandRow, frozen=True, kw_only=True):
    topic: str = "orders"
    partition: int = 3
    start_offset: int = 40
    transactional_id: str = "orders-service"
    last_timestamp: int = 1_700_000_000_000
    note: str = ""
    remark: str = ""


LINES = TableView(
    columns=Line.__struct_encode_fields__,
    primary=("topic", "partition", "start_offset"),
    minor=("last_timestamp",),
    prose=("remark",),
)


def lines(monkeypatch: pytest.MonkeyPatch, width: int, *rows: Line) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(width))
    text = printed(list(rows), Format.table, views={Line: LINES})
    assert widest(text) <= width
    return text.splitlines()


def test_topic_and_partition_become_one_column(monkeypatch: pytest.MonkeyPatch) -> None:
    assert lines(monkeypatch, 200, Line())[0].split()[:2] == ["topic", "partition"]
    narrow = lines(monkeypatch, 70, Line())
    assert narrow[1].split()[0] == "place"
    assert narrow[3].split()[:2] == ["orders-3", "40"]


def test_headings_take_two_lines_before_a_column_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, *_, last = lines(monkeypatch, 62, Line())
    assert first.split() == ["start_", "transactional_", "last_"]
    assert second.split() == ["place", "offset", "id", "timestamp"]
    assert not last.startswith("Narrow")


def test_minor_columns_go_first_and_primary_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = lines(monkeypatch, 50, Line())
    assert note_of("\n".join(shown)) == "Narrow: no room for last_timestamp (--wide shows all)."
    shown = lines(monkeypatch, 20, Line())
    assert note_of("\n".join(shown)) == "Narrow: no room for last_timestamp, transactional_id (--wide shows all)."
    assert shown[3].split() == ["orders-3", "40"]


def test_long_text_is_shortened_in_the_middle_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name begins and ends with what distinguishes it from others; short names and numbers stay as they are."""
    shown = lines(monkeypatch, 100, Line(topic=LONG), Line(topic="short"))
    long, short = shown[3:5]
    assert long.startswith(LONG[:14])
    assert long.split()[0].endswith("retry-3")
    assert long.split()[1:] == short.split()[1:] == ["40", "orders-service", "2023-11-14T22:13:20.000Z"]
    assert 95 <= max(map(len, shown[2:5])) <= 100


def test_counts_are_names_with_numbers() -> None:
    text = printed([Thing(name="a", errors={"CONCURRENT_TRANSACTIONS": 3, "NOT_COORDINATOR": 1})], Format.table)
    assert "CONCURRENT_TRANSACTIONS: 3, NOT_COORDINATOR: 1" in text


def test_wide_characters_take_two_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for width in range(8, 60):
        lines(monkeypatch, width, Line(topic="注文" * 30, transactional_id="大" * 9 + "x"))


def test_prose_is_wrapped_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "the quick brown fox jumps over the lazy dog and then sleeps for a while"
    shown = lines(monkeypatch, 70, Line(remark=text))
    assert "Narrow" not in shown[-1] or "shortened" not in shown[-1]
    letters = re.findall(r"[a-z]+", " ".join(line[20:] for line in shown[3:]))
    assert [word for word in letters if word in text.split()][-len(text.split()) :] == text.split()


def test_fits_very_narrow_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    assert printed([Line()], Format.table, views={Line: LINES})
    assert printed([Line()], Format.table, views={Line: LINES}, terminal=True, encoding="ascii")


# Every table, at every width ------------------------------------------------------------------------------------------


def finding(topic: str, partition: int, start: int, **more: Any) -> rows_of.Finding:
    given = {
        "verdict": "hanging", "reason": "partition_not_in_transaction", "blocked": True, "producer_id": 4001,
        "producer_epoch": 7, "last_timestamp": 1_700_000_000_000, "age_ms": 10_800_000,
        "transactional_id": "orders-service-of-a-long-name", "coordinator_state": "CompleteCommit", **more,
    }  # fmt: skip
    return rows_of.Finding(topic=topic, partition=partition, start_offset=start, action="none", **given)


FINDINGS = (
    finding(LONG, 12, 1_234_567_890),
    finding("orders", 10, 7, reason="no_transactional_id", transactional_id=None, coordinator_state=None),
    finding("orders", 2, 550, verdict="not_hanging", reason="stuck_prepare", coordinator_epoch=3),
    finding("orders", 2, 40, verdict="unknown", reason="coverage_incomplete", blocked=False, last_timestamp=None),
)
TRANSACTIONS = [
    txn_list.ListedTransaction(
        transactional_id=name, coordinator=1, producer_id=4001, transaction_state="PrepareEpochFence"
    )
    for name in ("orders-service", f"{LONG}-0-of-a-connector-that-names-itself-after-its-task-and-its-machine")
]
DESCRIPTIONS = [
    txn_describe.Description(
        coordinator_id=1,
        transactional_id="orders-service-of-a-long-name",
        producer_id=4001,
        producer_epoch=7,
        transaction_state="Ongoing",
        transaction_timeout_ms=60_000,
        current_transaction_start_time_ms=1_700_000_000_000,
        transaction_duration_ms=10_800_000,
        topic_partitions=",".join(f"orders-{number}" for number in range(30)),
    )
]
PRODUCERS = [
    txn_producers.ProducerRow(
        topic=topic,
        partition=0,
        broker_id=1,
        producer_id=4001,
        producer_epoch=7,
        latest_coordinator_epoch=-1,
        last_sequence=12,
        last_timestamp=1_700_000_000_000,
        current_transaction_start_offset=start,
        duration_min=start,
    )
    for topic, start in ((LONG, 40), ("orders", None))
]


@pytest.mark.parametrize("width", WIDTHS)
def test_txn_tables_match_golden_files(
    width: int, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Reviewed by eye: one line a row, and at each width what is needed to act."""
    monkeypatch.setenv("COLUMNS", str(width))
    read = rows_of.Coverage(partitions=12, brokers=(1, 2), clock="this machine's clock")
    audit = rows_of.Audit(as_of=1_700_010_800_000, read=read, findings=FINDINGS)
    txn_find_hanging.print_table(audit, 0, wide=False)
    found = capsysbinary.readouterr().out.decode().split("\n12 partitions")[0]
    parts = [found]
    for rows, view in (
        (TRANSACTIONS, txn_list.VIEW),
        (DESCRIPTIONS, txn_describe.VIEW),
        (PRODUCERS, txn_producers.VIEW),
    ):
        parts.append(printed(list(rows), Format.table, views={type(rows[0]): view}))  # type: ignore[call-overload]
    text = "----\n".join(parts)
    assert widest(text) <= width
    assert re.findall(r"^orders\W+(\d+)\s", found, re.MULTILINE) == ["2", "2", "10"]
    golden.check("cli/table-txn.txt", text, f"{width} columns")


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("audit", ["audit", "examples/kafka-logs/three-nodes"]),
        ("capture", ["capture", "examples/capture/transactions.pcap", "--errors"]),
        ("timeline", ["capture", "examples/capture/transactions.pcap", "--timeline", "payments-archiver"]),
        ("dump", ["dump", "examples/kafka-logs/three-nodes/broker-1/orders-0", "--print-data-log", "--offset", "..8"]),
        ("stats", ["dump", "examples/kafka-logs/three-nodes/broker-1", "--stats"]),
    ],
)
def test_file_tables_match_golden_files(
    name: str, arguments: list[str], width: int, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reviewed by eye."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", str(width))
    text = run(*arguments, "--format", "table").text
    table = text.split("\nFound: ")[0] if name == "audit" else text
    assert widest(table) <= width
    golden.check(f"cli/table-{name}.txt", table, f"{width} columns")


# Long values ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("value", [Thing(name="n" * (1 << 20)), Thing(name="x", tags=("n" * (1 << 20),))])
def test_cuts_long_values_and_shows_their_length(monkeypatch: pytest.MonkeyPatch, value: Thing) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    length = "1,048,576" if not value.tags else "1,048,580"  # with the brackets of JSON
    for more in ({}, {"wide": True}):
        text = printed([value], Format.table, terminal=True, **more)
        assert len(text) < 40_000
        assert text.count(f"({length} characters)") == 1
    for text in (
        printed([value], Format.table, terminal=True, no_cut=True),
        printed([value], Format.table, no_cut=True),
        *(printed([value], format, terminal=True) for format in (Format.csv, Format.json, Format.jsonl)),
    ):
        assert "n" * (1 << 20) in text


def test_counts_repeated_escapes() -> None:
    assert r"\x00{470 times}" in printed([Thing(name="\x00" * 470)], Format.table, wide=True)
    assert r"\x00" * 470 in printed([Thing(name="\x00" * 470)], Format.table, no_cut=True)
