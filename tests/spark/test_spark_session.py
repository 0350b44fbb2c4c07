"""Sessions that cannot be had are one sentence. (Those on clusters: test_spark_on_clusters.)"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

EXAMPLES = str(Path(__file__).parents[2] / "examples" / "kafka-logs" / "one-node")


def test_reports_an_invalid_master_in_one_sentence() -> None:
    command = [sys.executable, "-m", "kafkawire", "audit", EXAMPLES, "--engine", "spark", "--master", "local[x]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr == "error: Spark did not start on local[x]: Could not parse Master URL: 'local[x]'\n"


@pytest.mark.parametrize(
    "url", ["sc://127.0.0.1:1", "sc://127.0.0.1:none", "sc://no-such-host.invalid", "spark://127.0.0.1:1"]
)
def test_reports_an_unreachable_server_at_once(url: str) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    from kafkawire.spark.errors import SparkError
    from kafkawire.spark.session import session_on

    before = dict(os.environ)
    with pytest.raises(SparkError, match=f"^{url} does not answer: "), session_on(url):
        raise AssertionError
    assert dict(os.environ) == before
