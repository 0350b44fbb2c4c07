"""The table and the page that `make conformance` writes."""

from __future__ import annotations

from collections import Counter

import pytest

from kafkawire import backend
from tools.conformance.conformance_page import page, table
from tools.conformance.release_comparison import Amounts, ReleaseOutcome

pytestmark = pytest.mark.slow

GOOD = ReleaseOutcome(
    "4.4.0",
    278,
    744,
    [],
    Counter({"Java to ours": 6696, "ours to Java": 6696, "mutants": 208_320}),
    Counter({("mutants", "both accept"): 70_000, ("mutants", "both refuse"): 138_320}),
    [],
)
BAD = ReleaseOutcome(
    "4.0.0",
    240,
    657,
    [("ShareUpdateValue", 0, "SnapshotEpoch uint16")],
    Counter({"Java to ours": 5913}),
    Counter(),
    ["Java to ours: FetchRequest v4 random 1: another `value`"],
)


def test_the_table_has_a_line_a_release_and_one_for_all() -> None:
    lines = table([GOOD, BAD]).split("\n")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert len({len(row) for row in cells}) == 1
    assert cells[0][:4] == ["release", "jars", "messages", "versions"]
    assert cells[2][:5] == ["4.4.0", "7", "278", "744", "6,696"]
    assert cells[2][-2:] == ["208,320", "0"]
    assert cells[3][-2:] == ["", "1"]
    assert cells[4][0] == "all"
    assert cells[4][4] == "12,609"
    assert cells[4][-1] == "1"


def test_the_page_shows_what_differs() -> None:
    text = page([GOOD, BAD], Amounts())
    assert "**1 difference** that is not meant." in text
    assert "- 4.0.0: `Java to ours: FetchRequest v4 random 1: another 'value'`" in text
    assert "| mutants | both refuse | 138,320 |" in text
    assert "| 4.0.0 | ShareUpdateValue | 0 | SnapshotEpoch uint16 |" in text


def test_the_page_states_that_there_are_no_differences() -> None:
    text = page([GOOD], Amounts(objects=3))
    assert "**0 differences** that are not meant." in text
    assert "the default object and 3 random ones" in text


def test_the_page_keeps_the_outcome_of_the_other_engine() -> None:
    other = "<!-- engine-other -->\n- With the other engine\n<!-- /engine-other -->"
    text = page(
        [GOOD], Amounts(), f"# Before\n\n<!-- engine-{backend} -->\n- stale\n<!-- /engine-{backend} -->\n{other}\n"
    )
    assert other in text
    assert "stale" not in text
    assert f"- With the {backend} engine, at " in text
    assert ": 221,712 comparisons, 0 differences that are not meant." in text
