"""Figures that pages repeat from docs/performance.md, which a command writes, are not better than its figures."""

from __future__ import annotations

import re

import pytest

from tests.docs.guide import ROOT

MEASURED = (ROOT / "docs" / "performance.md").read_text("utf-8")
GUARANTEES = " ".join((ROOT / "docs" / "guarantees.md").read_text("utf-8").split())
INSTALL = (ROOT / "docs" / "install.md").read_text("utf-8")


def goal(text: str) -> float:
    """What was measured for a goal."""
    (found,) = re.findall(rf"^\| {re.escape(text)}[^|]* \| ([0-9.]+)× \|", MEASURED, re.MULTILINE)
    return float(found)


def slower(table: str, row: str) -> float:
    """How many times as long pure Python takes, in a row of a table: the second cell."""
    section = MEASURED.split(f"## {table}\n")[1].split("\n## ")[0]
    (found,) = re.findall(rf"^\| {re.escape(row)} \|[^|]*\|[^|]*\(([0-9.]+)×\)", section, re.MULTILINE)
    return float(found)


@pytest.mark.parametrize(
    ("phrase", "goals"),
    [
        (r"decoding is more than ([0-9.]+) times as fast as kio", ["decode, native: at least 2.5× kio"]),
        (r"and ([0-9.]+) times as fast as kafka-python; encoding", ["decode, native: at least 10× kafka-python"]),
        (r"encoding is more than ([0-9.]+) times as fast as kio", ["encode, native: at least 20× kio"]),
        (
            r"as kio and ([0-9.]+) times as fast as kafka-python; - values",
            ["encode, native: at least 12× kafka-python"],
        ),
        (
            r"prints more than ([0-9.]+) times as many",
            [f"dump to jsonl with payloads, {codec}" for codec in ("none", "lz4")],
        ),
        (r"is more than ([0-9.]+) times as fast as `kafka-transactions", ["find-hanging over 1,000 partitions"]),
        (r"encoding is more than ([0-9.]+) times as fast\. Columns", ["encode, pure Python: at least 5× kio"]),
    ],
)
def test_guarantees_do_not_exaggerate(phrase: str, goals: list[str]) -> None:
    (stated,) = re.findall(phrase, GUARANTEES)
    assert float(stated) <= min(map(goal, goals)) <= 2 * float(stated), (
        "docs/guarantees.md: write the measured figure, rounded down"
    )


@pytest.mark.parametrize(
    ("line", "measured"),
    [
        ("messages (`columns.decode`", [slower("Messages as columns", "TransactionLogValue v1")]),
        ("records (`records.columns.read`", [slower("Records as columns", "none")]),
        ("the same, compressed", [slower("Records as columns", codec) for codec in ("gzip", "lz4")]),
        ("batch headers", [slower("Batch headers only", codec) for codec in ("lz4", "zstd")]),
    ],
)
def test_install_page_states_the_cost_of_pure_python(line: str, measured: list[float]) -> None:
    (row,) = [row for row in INSTALL.splitlines() if row.startswith(f"| {line}")]
    stated = [float(number) for number in re.findall(r"([0-9.]+) ×", row)]
    assert all(figure / 1.3 <= number <= figure * 1.3 for number, figure in zip(stated, measured, strict=True)), (
        measured
    )


def test_each_goal_that_is_not_met_has_its_reason() -> None:
    missed = re.findall(r"^\| (.+?) \| [^|]+ \| \*\*not met\*\* \|$", MEASURED, re.MULTILINE)
    assert missed == re.findall(r"^- \*(.+?)\*: .+", MEASURED, re.MULTILINE)
