"""`run`: a command line, in this process. What only a process can show is in `test_cli_process.py`."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import pytest

from kafkawire.cli import main
from tests.cli.runner import Result, Run


@pytest.fixture
def run(capsysbinary: Any, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `kafkawire` with arguments and standard input; asserts what holds of every run."""

    def runner(*args: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = main([str(arg) for arg in args])
        captured = capsysbinary.readouterr()
        result = Result(code, captured.out, captured.err.decode("utf-8"))
        assert "Traceback" not in result.err
        assert not re.search(r"(?:^|: )(\S[^:]*): \1\b", result.err, re.MULTILINE), result.err  # said twice
        if code == 0:
            assert all(line.startswith(("note: ", "warning: ")) for line in result.err.splitlines())
        return result

    return runner
