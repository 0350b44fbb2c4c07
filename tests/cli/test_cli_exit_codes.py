"""How reading commands end."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from kafkawire import cli
from kafkawire.cli.exit_codes import FOUND_INCOMPLETE, INCOMPLETE, ReadOutcome

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "page", ["README.md", "docs/index.md", "docs/audit.md", "docs/transactions.md", "docs/watch.md"]
)
def test_pages_have_every_exit_code_of_a_verdict(page: str) -> None:
    text = " ".join((ROOT / page).read_text("utf-8").split())
    codes = re.search(r"\b0 [^.]*\b3 [^.]*\b4 [^.]*\b5 [^.]*|\b3 [^.]*\b4 [^.]*\b5 [^.]*\b0 ", text)
    assert codes, "0, 3, 4 and 5 in one sentence"


@pytest.mark.parametrize("module", ["audit", "txn_find_hanging", "txn_watch", "txn_force_terminate"])
def test_help_has_every_exit_code_of_a_verdict(module: str) -> None:
    source = (ROOT / "kafkawire" / "cli" / f"{module}.py").read_text("utf-8")
    documented = " ".join(source.partition("xit code 3")[2][:300].split())
    assert re.search(rf"\b{INCOMPLETE}\b.*\b{FOUND_INCOMPLETE}\b", documented)


def test_outcome_determines_the_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    clear = ReadOutcome()
    clear.end()
    clear.read()
    clear.end()

    nothing = ReadOutcome()
    nothing.problem("a: b")
    with pytest.raises(cli.KafkaWireError, match=r"^a: b$"):
        nothing.end()

    some = ReadOutcome()
    for text in ("a\x1b", "b", "c"):
        some.problem(text)
    some.read()
    with pytest.raises(typer.Exit) as ending:
        some.end()
    assert ending.value.exit_code == 4
    assert capsys.readouterr().err == "incomplete: a\\x1b (and 2 more)\n"
