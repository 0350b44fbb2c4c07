"""`run`: a command line, in this process. What only a process can show is in `test_cli_process.py`."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire.cli import main, txn_ending, txn_options
from tests.cli.runner import Result, Run
from tests.client.partition_script import Coordinator, PartitionBroker, in_thread


@pytest.fixture
def run(capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `kafkawire` with arguments and standard input; asserts what holds of every run."""

    def runner(*args: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(txn_options, "_warned", set())  # a command's process warns anew
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(arg) for arg in args])
        captured = capsysbinary.readouterr()
        result = Result(code, captured.out, captured.err.decode("utf-8"))
        assert "Traceback" not in result.err
        assert not re.search(r"(?:^|: )(\S[^:]*): \1\b", result.err, re.MULTILINE), result.err  # given twice
        if code == 0:
            assert all(line.startswith(("note: ", "warning: ")) for line in result.err.splitlines())
        return result

    return runner


@pytest.fixture
def answering(capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command line in this process, whatever it writes on standard error; a question is answered."""

    def runner(*args: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(txn_options, "_warned", set())  # a command's process warns anew
        monkeypatch.setattr(txn_ending, "_can_ask", lambda: True)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(arg) for arg in args])
        captured = capsysbinary.readouterr()
        return Result(code, captured.out, captured.err.decode("utf-8"))

    return runner


# Scripted brokers for commands that end transactions ------------------------------------------------------------------


@pytest.fixture
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of default audit logs: nothing is written to the home of the user who runs the tests."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.fixture
def partition() -> Iterator[PartitionBroker]:
    with in_thread(PartitionBroker()) as broker:
        assert isinstance(broker, PartitionBroker)
        yield broker


@pytest.fixture
def three() -> Iterator[PartitionBroker]:
    with in_thread(PartitionBroker(3)) as broker:
        assert isinstance(broker, PartitionBroker)
        yield broker


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    with in_thread(Coordinator(partitions=2)) as broker:
        assert isinstance(broker, Coordinator)
        broker.logs[1].start = -1
        yield broker


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A terminal on which a given answer is typed."""

    def type_answer(answer: str) -> None:
        monkeypatch.setattr(sys, "stdin", io.StringIO(answer))
        monkeypatch.setattr(txn_ending, "_can_ask", lambda: True)

    return type_answer
