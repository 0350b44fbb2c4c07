"""`spark-submit --archives` with a packed environment and its native engine, on a standalone cluster."""

from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import kafkawire
from kafkawire import logdir
from kafkawire.records import Batch

if TYPE_CHECKING:
    from tests.spark.clusters import Cluster

pytestmark = [pytest.mark.spark, pytest.mark.slow]

LOGS = Path(__file__).parents[2] / "examples" / "kafka-logs" / "one-node"
PATIENCE_S = 600


def packed(folder: Path) -> Path:
    """An environment with this package, as an installation has it, in the folder and as an archive in it: the driver
    plans with the one. The large packages that it needs are where they are: on this machine, workers have them, too."""
    environment = folder / "environment"
    venv.create(environment, with_pip=False, symlinks=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(kafkawire.__file__).parent, packages / "kafkawire", ignore=ignored)
    (packages / "others.pth").write_text("\n".join(site.getsitepackages()))
    with tarfile.open(folder / "environment.tar.gz", "w:gz", compresslevel=1) as archive:
        for path in environment.iterdir():
            archive.add(path, path.name)
    return folder / "environment.tar.gz"


def test_workers_run_the_environment_that_is_submitted(cluster: Cluster, tmp_path: Path) -> None:
    if kafkawire.backend != "native":
        pytest.skip("the native engine is not built")
    import pyspark

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # both workers
    }
    conf = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    done = subprocess.run(
        [
            str(submit), "--master", cluster.master, *conf, "--archives", f"{packed(tmp_path)}#environment",
            str(Path(__file__).with_name("deployed.py")), str(LOGS),
        ],
        env={
            **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": "./environment/bin/python",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {worker["backend"] for worker in found["workers"]} == {"native"}
    assert all(worker["file"].startswith(f"{worker['worker']}/environment/") for worker in found["workers"])
    batches = [one for partition in logdir.open(str(LOGS)).partitions for one in partition if isinstance(one, Batch)]
    assert found["records"] == sum(1 for batch in batches for _ in batch.records)
