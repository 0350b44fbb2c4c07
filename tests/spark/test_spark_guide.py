"""The examples of docs/spark.md by spark-submit on two workers, and through Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from tests.spark.clusters import JOB_PATIENCE_S, QUICK, ROOT, Cluster
from tests.spark.guide import examples

pytestmark = [pytest.mark.spark, pytest.mark.deployment]

PROGRAM = str(Path(__file__).with_name("guide.py"))


def printed(*command: str) -> str:
    """The last line of a command; its errors where it fails."""
    done = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=JOB_PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


def test_by_spark_submit_on_two_workers(cluster: Cluster, tmp_path: Path) -> None:
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = {
        **QUICK,
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both workers
    }
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    found = printed(str(submit), "--master", cluster.master, *conf, PROGRAM, str(tmp_path))
    assert found == f"examples: {len(examples(tmp_path))}"


def test_through_connect(remote: str, tmp_path: Path) -> None:
    assert printed(sys.executable, PROGRAM, str(tmp_path), remote) == f"examples: {len(examples(tmp_path))}"
