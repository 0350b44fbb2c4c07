"""`register` in sessions whose workers have no kafkawire."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark.session.jre import java_home

pytestmark = [pytest.mark.spark, pytest.mark.deployment]

ROOT = Path(__file__).parents[2]
#: Of the workers: an environment without the package.
WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name == "kafkawire":
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Without())
"""
PROGRAM = """
from pyspark.sql import SparkSession
from kafkawire.spark import register

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
"""


def test_workers_without_the_package_are_told(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    home = java_home()
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": str(python)}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=variables if home is None else variables | {"JAVA_HOME": home},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "kafkawire.spark.errors.SparkError: the Python workers of this session have no kafkawire: "
        "kafkawire.spark.ship(session) sends it, or install it where they run"
    )
