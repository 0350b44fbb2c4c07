"""tools.bench.command_gates: what is measured is what it says; a gate that does not hold is marked."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from tools.bench import command_gates
from tools.bench.cases import Inputs
from tools.bench.command_gates import connection, cores_gates, times
from tools.bench.measurement import BenchError
from tools.bench.page_sections import Gate, gates_table


def test_gates_that_do_not_hold_are_marked() -> None:
    gates = [Gate("a", "1 MB", "under 2 MB", True), Gate("b", "3 MB", "under 2 MB", False)]
    lines = gates_table(gates, "**not met**, see below").splitlines()
    assert lines[2:] == ["| a | 1 MB | under 2 MB | met |", "| b | 3 MB | under 2 MB | **not met**, see below |"]


@pytest.mark.slow
def test_a_connection_has_the_same_exchanges_with_tls_and_without(tmp_path: Path) -> None:
    talk = connection(tmp_path, 50)
    found = []
    for words in ([str(talk.encrypted), "--keylog", str(talk.keys)], [str(talk.plain)]):
        command = [sys.executable, "-m", "kafkawire", "capture", *words, "--format", "jsonl"]
        lines = subprocess.run(command, capture_output=True, check=True).stdout.splitlines()
        found.append([(row["api"], row["correlation_id"], row["problem"]) for row in map(json.loads, lines)])
    assert found[0] == found[1]
    assert len(found[0]) == 51


@pytest.mark.slow
def test_the_gain_of_cores_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_gates, "_SEGMENT", 1 << 20)
    gates = list(cores_gates(Inputs(tmp_path), 1))
    assert len(gates) == 2
    assert all(0.3 < float(gate.measured.removesuffix("×")) < 2.01 for gate in gates)


@pytest.mark.slow
def test_a_command_that_fails_has_no_times(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="no-such"):
        times(["dump", str(tmp_path / "no-such")], 1)
