"""PySpark 3.5 and 4.0, as they are published: the column functions work, and all else says what it needs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.errors import MissingExtraError
from kafkawire.messages import TransactionLogValue
from kafkawire.spark.session.jre import java_home

pytestmark = [pytest.mark.spark, pytest.mark.deployment]

ROOT = Path(__file__).parents[2]
FUNCTIONS = {"from_kafka_message", "to_kafka_message", "message_table"}
#: The first Python that a version does not run on.
TOO_NEW = {"3.5": (3, 12), "4.0": (3, 14)}


def installed(package: str, folder: Path) -> str:
    """A package from the index, in a folder of its own, without its dependencies."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{package} cannot be installed: {done.stderr[-300:]}")
    return os.pathsep.join((str(folder), str(ROOT)))


def answer(path: str, *command: str) -> subprocess.CompletedProcess[str]:
    home = java_home()
    more = {} if home is None else {"JAVA_HOME": home}
    return subprocess.run(
        [sys.executable, *command],
        env={**os.environ, **more, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(("version", "py4j"), [("3.5", "0.10.9.7"), ("4.0", "0.10.9.9")])
def test_the_functions_of_an_older_pyspark(tmp_path: Path, version: str, py4j: str) -> None:
    if sys.version_info >= TOO_NEW[version]:
        pytest.skip(f"PySpark {version} does not run on this Python")
    try:
        java_home()
    except MissingExtraError as error:
        pytest.skip(str(error))
    installed(f"py4j=={py4j}", tmp_path / "packages")
    path = installed(f"pyspark=={version}.*", tmp_path / "packages")
    done = answer(path, str(Path(__file__).with_name("older_pyspark.py")))
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    exact = found.pop("version")
    assert exact.startswith(version)
    missing = found.pop("missing")
    for name, text in missing.items():
        expected = (
            f"kafkawire.spark.{name} needs PySpark 4.1 or newer, which reads Arrow from data sources in Python; with "
            f"{exact} there are from_kafka_message, to_kafka_message, message_table"
        )
        assert text == ("" if name in FUNCTIONS else expected)
    assert {"register", "audit", *FUNCTIONS} <= missing.keys()
    reason, none = found.pop("reasons")
    assert reason.startswith("TransactionLogValue v1")
    assert none is None
    assert set(found.pop("round trips").values()) == {True}
    most = (1 << 63) - 1
    assert found == {
        "columns": ["from_kafka_message(data, TransactionLogValue, prefix)"],
        "comment": {"comment": TransactionLogValue.spec.field("producer_id").about},
        "aggregate": most,
        "table": [most, None],
        "permissive": [True, False],
        "defaults": True,
        "failed": True,
    }


def test_the_client_alone_says_what_it_needs(tmp_path: Path) -> None:
    """The package as it is published: the same modules, without py4j and Java's archives."""
    path = installed("pyspark-client>=4.1", tmp_path / "packages")
    before = "import sys; sys.modules['py4j'] = None; "
    done = answer(path, "-c", before + "import kafkawire.spark")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "kafkawire.spark.versions.UnsupportedPySparkError: kafkawire.spark needs the package pyspark, and only "
        "pyspark-client is installed: install pyspark in its place, which connects to a Spark Connect server (sc://) "
        "as well"
    )
