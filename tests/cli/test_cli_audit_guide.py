"""docs/audit.md: what it shows is what is printed, and its Python runs."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.cli.runner import Run

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "audit.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("block", blocks("console"))
def test_the_guide_shows_what_is_printed(run: Run, monkeypatch: pytest.MonkeyPatch, block: str) -> None:
    """Lines between dots stand together in the output, in this order."""
    monkeypatch.chdir(ROOT)
    command, _, shown = block.partition("\n")
    result = run(*shlex.split(command.removeprefix("$ kafkawire ")))
    assert result.code == 3
    at = 0
    for part in filter(None, shown.split("...\n")):
        found = result.text.find(part, at)
        assert found >= 0, part
        at = found + len(part)


@pytest.mark.parametrize("block", blocks("python"))
def test_the_guides_python_runs(monkeypatch: pytest.MonkeyPatch, block: str) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    exec(block, names)
    assert "<h1>5 hanging transactions</h1>" in str(names["html"])


def test_the_picture_is_there_and_small() -> None:
    picture = ROOT / "docs" / "report.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size <= 150_000
