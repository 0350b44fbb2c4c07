"""Consent to `txn abort` and `txn force-terminate`: `--yes`, or an answer on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire.cli import main, txn_ending
from tests.cli.ending import abort, sent, terminate
from tests.cli.runner import Run
from tests.client.partition_script import Coordinator, PartitionBroker

pytestmark = pytest.mark.usefixtures("state_home")


def test_without_terminal_and_yes_nothing_is_read(
    run: Run, partition: PartitionBroker, coordinator: Coordinator, state_home: Path
) -> None:
    """It would wait for ever. Nothing is even read."""
    for result in (abort(run, partition), terminate(run, coordinator)):
        assert (result.code, result.text) == (2, "")
        assert "no terminal to confirm on: give --yes" in result.err
    assert not partition.requests
    assert not coordinator.requests
    assert not state_home.exists()


@pytest.mark.parametrize("answer", ["", "\n", "n\n", "no\n", "yes please\n"])
def test_any_answer_but_yes_sends_nothing(answer: str, terminal: Any, capsys: Any) -> None:
    """The question is printed on standard error, made harmless; no is the default."""
    terminal(answer)
    with pytest.raises(txn_ending.NotDone, match="not confirmed: nothing was sent"):
        txn_ending.ask_leave("Abort \x1b[31m?", yes=False)
    assert capsys.readouterr() == ("", "Abort \\x1b[31m? [y/N]: ")


@pytest.mark.parametrize("answer", ["y\n", "YES\n", "y"])
def test_yes_in_any_case_is_consent(answer: str, terminal: Any) -> None:
    terminal(answer)
    txn_ending.ask_leave("Abort?", yes=False)


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1)])
def test_the_question_names_the_transaction(
    answer: str, code: int, partition: PartitionBroker, coordinator: Coordinator, terminal: Any, capsys: Any
) -> None:
    asked: list[tuple[PartitionBroker, Callable[..., Any], str]] = [
        (partition, abort, "Abort orders-0, offset 40 of producer id 7? [y/N]: "),
        (coordinator, terminate, "End the transaction of orders-service, and fence its producer? [y/N]: "),
    ]
    for broker, command, question in asked:
        terminal(answer)
        assert command(lambda *arguments: main([str(one) for one in arguments]), broker) == code
        assert sent(broker) == 1 - code
        assert capsys.readouterr().err.startswith(question)
