"""What `capture --follow` writes: rows as they come, and a Parquet file that is complete once following ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_cli_interrupt import waits_for_an_answer

CAPTURE = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
COMMAND = [sys.executable, "-m", "kafkawire"]
WAIT_S = 60.0


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.slow
def test_following_shows_rows_as_they_come(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    command = [*COMMAND, "capture", "--follow", str(CAPTURE), "-o", str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + WAIT_S
            while not (rows.exists() and rows.read_bytes().count(b"\n") > 3):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert rows.read_bytes().endswith(b"}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["rows.jsonl"]


@pytest.mark.usefixtures("terminal_signals")
@pytest.mark.slow
def test_parquet_of_a_capture_that_is_followed_is_complete_when_following_ends(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = tmp_path / "rows.parquet"
    growing = tmp_path / "growing.pcap"
    growing.write_bytes(waits_for_an_answer())
    command = [*COMMAND, "capture", "--follow", str(growing), "-o", str(rows)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + WAIT_S
            while not list(tmp_path.glob(".rows.parquet.*.tmp")):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert not rows.exists()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    assert process.returncode == 130
    assert parquet.read_table(rows).num_rows == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["growing.pcap", "rows.parquet"]
