"""CONTRIBUTING.md has a table of the tools: each folder and module of `tools/` is in it."""

from __future__ import annotations

import re

from tests.docs.guide import ROOT

SECTION = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("\n## The tools\n")[2].partition("\n### ")[0]


def test_each_tool_is_in_the_table_or_named_as_shared() -> None:
    shared, _, table = SECTION.partition("\n|")
    first_column = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    named = {*re.findall(r"`([\w.]+)`", first_column), *re.findall(r"`(\w+)`", shared)}
    tools = {
        path.stem if path.suffix == ".py" else path.name
        for path in (ROOT / "tools").iterdir()
        if path.name not in ("__init__.py", "__pycache__") and not path.name.startswith(".")
    }
    assert named == tools


def test_each_row_says_when_and_how_long() -> None:
    rows = [line.strip("|").split("|") for line in SECTION.splitlines() if line.startswith("| `")]
    assert len(rows) > 10
    for row in rows:
        assert len(row) == 4
        assert all(cell.strip() for cell in row), row[0]
