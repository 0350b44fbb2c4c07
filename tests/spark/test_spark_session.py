"""Sessions that cannot be had are one sentence. (Those on clusters: test_spark_on_clusters.)"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = str(Path(__file__).parents[2] / "examples" / "kafka-logs" / "one-node")


def test_reports_an_invalid_master_in_one_sentence() -> None:
    command = [sys.executable, "-m", "kafkawire", "audit", EXAMPLES, "--engine", "spark", "--master", "local[x]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr == "error: Spark did not start on local[x]: Could not parse Master URL: 'local[x]'\n"


@pytest.mark.parametrize(
    "url", ["sc://127.0.0.1:1", "sc://127.0.0.1:none", "sc://nowhere.invalid", "spark://127.0.0.1:1"]
)
def test_reports_an_unreachable_server_at_once(url: str) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    from kafkawire.spark.errors import SparkError
    from kafkawire.spark.session.sessions import session_on

    before = dict(os.environ)
    with pytest.raises(SparkError, match=f"^{url} does not answer: "), session_on(url):
        pytest.fail("a session started on a server that does not answer")
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("master", "lacks"),
    [
        ("yarn", "yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR in the environment"),
        ("k8s://https://127.0.0.1:1", "k8s://https://127.0.0.1:1 does not answer: "),
        ("mesos://127.0.0.1", "'mesos://127.0.0.1' is no master: give local"),
    ],
)
def test_reports_what_a_master_lacks(master: str, lacks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkawire.spark.errors import SparkError
    from kafkawire.spark.session.sessions import session_on

    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SparkError) as caught, session_on(master):
        pytest.fail("a session started without what its master needs")
    assert str(caught.value).startswith(lacks)


def test_kubernetes_needs_an_image() -> None:
    from kafkawire.spark.errors import SparkError
    from kafkawire.spark.session.sessions import session_on

    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"k8s://127.0.0.1:{server.getsockname()[1]}"
        with (
            pytest.raises(SparkError, match=r"needs --conf spark\.kubernetes\.container\.image=IMAGE"),
            session_on(master),
        ):
            pytest.fail("a session started on Kubernetes without an image")


@pytest.mark.parametrize(
    ("master", "settings", "expected"),
    [
        ("local[2]", {}, sys.executable),
        ("yarn", {}, "/opt/python"),
        ("spark://host:7077", {"spark.pyspark.python": "./environment/bin/python"}, "./environment/bin/python"),
    ],
)
def test_workers_run_the_python_that_they_have(
    master: str, settings: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkawire.spark.session.sessions import _environment

    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    with _environment(master, settings):
        assert os.environ["PYSPARK_PYTHON"] == expected
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


def test_settings_reach_a_session_that_runs(spark: SparkSession) -> None:
    from kafkawire.spark.errors import SparkError
    from kafkawire.spark.session.sessions import session_on

    with session_on(None, conf={"spark.sql.shuffle.partitions": "3"}) as session:
        assert session.conf.get("spark.sql.shuffle.partitions") == "3"
        session.conf.set("spark.sql.shuffle.partitions", "2")
    with (
        pytest.raises(SparkError, match=r"spark\.executor\.memory cannot be set in a session that runs already: "),
        session_on(None, conf={"spark.executor.memory": "2g"}),
    ):
        pytest.fail("a running session took a setting of its start")


def test_reports_the_cause_where_java_ends_at_once() -> None:
    """Java prints a trace, whose last line is no reason: Spark needs a network interface, and there is none."""
    apart = ["unshare", "--map-root-user", "--net"]
    if shutil.which(apart[0]) is None or subprocess.run([*apart, "true"], capture_output=True).returncode:
        pytest.skip("this machine makes no network namespaces (unshare)")
    command = [*apart, sys.executable, "-m", "kafkawire", "audit", EXAMPLES, "--engine", "spark"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert done.stderr == "error: Spark did not start: java.net.SocketException: No network interfaces configured\n"
