"""The guide's table of damage names every reason that the code gives, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.logdir.index_checks import MISMATCH
from kafkawire.records.damage import UNKNOWN_OUTCOME

ROOT = Path(__file__).parents[2]
SOURCES = [*(ROOT / "kafkawire" / "records").rglob("*.py"), *(ROOT / "kafkawire" / "logdir").rglob("*.py")]


def given(source: Path) -> Iterator[str]:
    """The reasons that are written down where damage is made."""
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("Damage", "Fault")):
            reasons = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "reason")]
            for reason in reasons:
                if isinstance(reason, ast.Constant) and isinstance(reason.value, str) and " " not in reason.value:
                    yield reason.value


@pytest.mark.slow
def test_every_reason_is_in_the_guide() -> None:
    table = (ROOT / "docs" / "logdirs.md").read_text("utf-8").partition("| `reason` |")[2].partition("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines()[2:]]
    documented = {reason for cell in cells for reason in re.findall(r"`(\w+)`", cell)}
    written = {reason for source in SOURCES for reason in given(source)}
    assert documented == written | {MISMATCH, UNKNOWN_OUTCOME, "unreadable"}  # the last is the command line's
