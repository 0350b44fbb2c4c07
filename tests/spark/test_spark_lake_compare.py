"""`compare` with tables of Delta and Iceberg that Spark wrote, read by their own libraries without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.test_spark_lake import PATIENCE_S, ROOT, needed, started
from tools.broker import jars
from tools.broker.errors import BrokerUnavailableError
from tools.recordings.archive import unpacked

__all__ = ["needed"]

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.deployment]

#: What the job wrote twice: it was killed, and went on from its last commit.
TWICE = range(40, 60)


@pytest.fixture(scope="module")
def readers() -> Path:
    try:
        return jars.lake_readers()
    except BrokerUnavailableError as error:
        pytest.skip(str(error))


def compared(readers: Path, *arguments: object) -> tuple[int, list[dict[str, Any]], str]:
    done = subprocess.run(
        [sys.executable, "-m", "kafkawire", "compare", *map(str, arguments), "--format", "jsonl"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (readers, ROOT)))},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_tables_that_spark_wrote(needed: tuple[Path, Path], readers: Path, tmp_path: Path) -> None:
    recorded = unpacked("group-deliveries")
    files, logs = recorded / "lake", recorded / "mirror" / "stopped"
    done = started(needed, "tables", tmp_path, {"files": str(files), "folder": str(tmp_path)})
    assert done.returncode == 0, done.stderr[-3000:]
    for table, gone, again in (
        ("delta", range(7, 8), len(TWICE)),
        ("again", range(0), len(TWICE) + 5),
        ("ice/db/events", range(40, 45), len(TWICE) - 5),
    ):
        code, (partition, *differences), said = compared(readers, logs, tmp_path / table)
        assert code == 3, said
        assert partition["of_a"] == {"same": 130 - len(gone)} | ({"lost": len(gone)} if gone else {})
        assert partition["of_b"] == {"same": 130 - len(gone), "repeated": again}
        lost = [(one["first_offset"], one["number"]) for one in differences if one["difference"] == "lost"]
        assert lost == ([(gone.start, len(gone))] if gone else [])
    # A data file that is gone is an error that names the table.
    for file in (tmp_path / "ice" / "db" / "events" / "data").glob("*.parquet"):
        file.unlink()
    code, found, said = compared(readers, logs, tmp_path / "ice" / "db" / "events")
    assert (code, found) == (1, [])
    assert "events" in said
    assert "Traceback" not in said
