"""tools.bench.starts: every command runs, and what is above the gate is marked. No time is asserted."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.cli import COMMANDS
from kafkawire.testing import MockBroker
from tools.bench.starts import commands, measured, table


def test_what_is_above_the_gate_is_bold(tmp_path: Path) -> None:
    found = {("--version",): 0.1, ("dump", f"{tmp_path}/logs"): 0.2, ("txn", "--bootstrap-server", "127.0.0.1:1"): 0.13}
    assert table(found, tmp_path).splitlines()[2:] == [
        "| `--version` | 100 | 1.00 |",
        "| `dump logs` | 200 | **2.00** |",
        "| `txn` | 130 | 1.30 |",
    ]


@pytest.mark.slow
def test_every_command_is_measured_and_answers(tmp_path: Path) -> None:
    with MockBroker({"orders": 1}) as broker:
        listed = [words[0] for words in commands(tmp_path / "listed", broker.address)]
    assert {*COMMANDS} <= {*listed}
    (tmp_path / "made").mkdir()
    assert all(0 < time < 60 for time in measured(tmp_path / "made", 1).values())
