"""How reading commands end."""

from __future__ import annotations

import pytest
import typer

from kafkawire import cli
from kafkawire.cli.outcome import Outcome


def test_outcome(capsys: pytest.CaptureFixture[str]) -> None:
    clear = Outcome()
    clear.end()
    clear.read()
    clear.end()

    nothing = Outcome()
    nothing.problem("a: b")
    with pytest.raises(cli.KafkaWireError, match=r"^a: b$"):
        nothing.end()

    some = Outcome()
    for text in ("a\x1b", "b", "c"):
        some.problem(text)
    some.read()
    with pytest.raises(typer.Exit) as ending:
        some.end()
    assert ending.value.exit_code == 4
    assert capsys.readouterr().err == "incomplete: a\\x1b (and 2 more)\n"
