"""Bars: shown where they disturb nothing."""

from __future__ import annotations

import io
import sys

import pytest

from kafkawire.cli import progress


class Terminal(io.StringIO):
    terminal = True

    def isatty(self) -> bool:
        return self.terminal


def test_bar_is_shown_on_a_terminal_without_other_output(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    assert not progress.watched(None)
    assert progress.watched("rows.csv")
    out.terminal = False
    assert progress.watched(None)
    monkeypatch.setenv("TERM", "xterm")
    with progress.progress(100, shown=True) as advance:
        advance(60)
        advance(40)
    assert err.getvalue()
    assert not out.getvalue()
    err.terminal = False
    assert not progress.watched(None)


def test_shows_the_tasks_of_a_job(monkeypatch: pytest.MonkeyPatch) -> None:
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("TERM", "xterm")
    with progress.tasks(shown=True) as report:
        assert report is not None
        report("read replicas", 12, 400)
    assert "read replicas" in err.getvalue()
    assert "12/400" in err.getvalue()
    with progress.tasks(shown=False) as report:
        assert report is None


class File:
    def __init__(self, size: int | None) -> None:
        self._size = size

    @property
    def size(self) -> int:
        if self._size is None:
            raise PermissionError
        return self._size


def test_inaccessible_files_count_as_0() -> None:
    assert progress.total_size([File(5), File(None), File(7)]) == 12
    assert progress.total_size([]) == 0
