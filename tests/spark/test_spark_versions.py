"""A PySpark that is too old, or the client alone, is named in one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed")

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("version", ["3.4.4", "2.4.8"])
def test_an_older_pyspark(tmp_path: Path, version: str) -> None:
    assert imported(tmp_path, version) == (
        "kafkawire.spark.versions.UnsupportedPySparkError: kafkawire.spark needs PySpark 4.1 or newer, or 3.5 for "
        f"from_kafka_message, to_kafka_message, message_table, and {version} is installed"
    )


def test_the_client_alone(tmp_path: Path) -> None:
    found = imported(tmp_path, "4.1.0", before="sys.modules['py4j'] = None; ")
    assert "and only pyspark-client is installed: install pyspark in its place" in found


def imported(folder: Path, version: str, before: str = "") -> str:
    """The last line of what an import writes to standard error."""
    (folder / "pyspark").mkdir()
    (folder / "pyspark" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    path = os.pathsep.join((str(folder), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {before}import kafkawire.spark"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    return done.stderr.splitlines()[-1]
