"""Lines on standard error wrap to a terminal's width, and stay whole elsewhere."""

from __future__ import annotations

import io

import pytest

from kafkawire.cli.notes import print_note

TEXT = "orders-0: the log of broker 2 ends before its high watermark"


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


def told(kind: str, text: str, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    stream = Stream(terminal)
    with monkeypatch.context() as patched:
        patched.setattr("sys.stderr", stream)
        patched.setenv("COLUMNS", "40")
        print_note(kind, text)
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("terminal", [True, False])
def test_prose_is_wrapped_on_a_terminal(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = told("incomplete", TEXT, terminal, monkeypatch)
    assert " ".join(line.strip() for line in lines) == f"incomplete: {TEXT}"
    assert len(lines) == (2 if terminal else 1)
    assert all(len(line) <= 40 for line in lines) == terminal


def test_a_command_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    command = "kafkawire txn abort --topic orders --partition 0 --start-offset 12345"
    assert told("note", command, True, monkeypatch) == [f"note: {command}"]
