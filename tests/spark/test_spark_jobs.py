"""Jobs have a name and progress, end with Ctrl-C, and fail with one sentence on what to change."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaMember
from py4j.protocol import Py4JError, Py4JNetworkError

from kafkawire.spark.errors import SparkError
from kafkawire.spark.session.jobs import cause, job

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]
PATIENCE_S = 120

#: An audit in which each task waits, once a file shows that it has begun.
WAITING = """
import sys
from kafkawire.cli import main
from kafkawire.spark.auditing import replica_parts
from kafkawire.spark.session.sessions import QUICK_START

begun = sys.argv[1]

def waiting(*arguments, **options):
    import pathlib, time
    pathlib.Path(begun).touch()
    time.sleep(600)

replica_parts._replayed = waiting
quick = [word for name, value in QUICK_START.items() for word in ("--conf", f"{name}={value}")]
sys.exit(main(["audit", "examples/kafka-logs/one-node", "--engine", "spark", "--master", "local[1]", *quick]))
"""


@pytest.mark.parametrize(
    ("reported", "advice"),
    [
        ("Job aborted: java.lang.OutOfMemoryError: Java heap space", "raise spark.executor.memory (on local[N]"),
        ("ExecutorLostFailure (executor 1 exited): Command exited with code 52\nexit code 52", "executor.memory (on"),
        ("ExecutorLostFailure (executor 2 exited): Container killed by YARN", "raise spark.executor.memoryOverhead"),
        (
            "ExecutorLostFailure: The executor with id 3 exited with exit code 137",
            "raise spark.executor.memoryOverhead",
        ),
        ("ExecutorLostFailure: Remote RPC client disassociated", "executors were lost again and again: raise"),
        ("Python worker exited unexpectedly (crashed)", "raise spark.executor.memoryOverhead"),
        ("is bigger than spark.driver.maxResultSize (1024.0 MiB)", "raise spark.driver.maxResultSize"),
        (
            'java.io.IOException: Cannot run program "/env/bin/python": error=2',
            "the workers have no /env/bin/python: set",
        ),
        ("[PYTHON_VERSION_MISMATCH] Python in worker has", "set PYSPARK_PYTHON to the same version"),
        ("Traceback\nModuleNotFoundError: No module named 'pyarrow'", "has no pyarrow: install kafkawire[spark] there"),
        (
            "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  F\nOSError: gone\n",
            "OSError: gone",
        ),
        ("something else\nand its trace", "something else"),
    ],
)
def test_a_failure_names_the_option_to_change(reported: str, advice: str) -> None:
    found = cause(RuntimeError(reported))
    assert advice in found
    assert "\n" not in found


@pytest.mark.parametrize("error", [Py4JNetworkError("Answer from Java side is empty"), ConnectionRefusedError(111)])
def test_a_driver_that_ended_names_the_memory_to_raise(error: Exception) -> None:
    assert "raise spark.driver.memory" in cause(error)


def _answers_once(server: socket.socket, answer: bytes | None) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(1 << 16)
        if answer is None:  # a reset, which the other side gets while it waits
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            connection.sendall(answer)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, "raise spark.driver.memory"),
        (
            b"!xsjava.lang.IllegalStateException: stopped\\n\\tat a.B\n",
            "An error occurred while calling o203.getResult. T",
        ),
    ],
)
@pytest.mark.parametrize("pinned", [True, False])  # PYSPARK_PIN_THREAD
def test_a_connection_that_breaks_within_a_call_is_a_driver_that_ended(
    answer: bytes | None, expected: str, pinned: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        thread = threading.Thread(target=_answers_once, args=(server, answer), daemon=True)
        thread.start()
        port = server.getsockname()[1]
        gateway = (
            ClientServer(JavaParameters(port=port), PythonParameters(eager_load=False))
            if pinned
            else JavaGateway(gateway_parameters=GatewayParameters(port=port))
        )
        with pytest.raises(Py4JError) as caught:
            JavaMember("getResult", None, "o203", gateway._gateway_client)()
        thread.join()
        gateway.close()
    assert type(caught.value) is Py4JError
    assert expected in cause(caught.value)


@pytest.mark.spark
def test_jobs_are_named_and_show_their_tasks(spark: SparkSession) -> None:
    def slow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import time

        time.sleep(1)
        yield from batches

    shown: list[tuple[str, int, int]] = []
    before = set(spark.sparkContext.statusTracker().getJobIdsForGroup("kafkawire"))
    with job(spark, "read replicas", lambda *progress: shown.append(progress)):
        assert spark.sparkContext.getLocalProperty("spark.job.description") == "read replicas"
        spark.range(0, 3, 1, 3).mapInArrow(slow, "id long").collect()
    assert set(spark.sparkContext.statusTracker().getJobIdsForGroup("kafkawire")) > before
    assert spark.sparkContext.getLocalProperty("spark.job.description") is None
    assert shown
    assert {(description, total) for description, _, total in shown} == {("read replicas", 3)}


@pytest.mark.spark
def test_a_failed_job_is_one_sentence(spark: SparkSession) -> None:
    def broken(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        raise ModuleNotFoundError("No module named 'nowhere'")

    with pytest.raises(SparkError) as caught, job(spark, "fails"):
        spark.range(0, 1, 1, 1).mapInArrow(broken, "id long").collect()
    assert str(caught.value).startswith("the Spark job failed: the workers' Python has no nowhere: install")


@pytest.fixture
def waiting(tmp_path: Path, terminal_signals: None) -> Iterator[subprocess.Popen[str]]:
    """An audit on Spark in a process group of its own, whose task waits."""
    begun = tmp_path / "begun"
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(begun)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + PATIENCE_S
    while not begun.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    yield process
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.spark
@pytest.mark.slow
def test_ctrl_c_ends_a_job_without_a_trace(waiting: subprocess.Popen[str]) -> None:
    os.killpg(waiting.pid, signal.SIGINT)  # as a terminal does: all processes of the group get it
    out, err = waiting.communicate(timeout=PATIENCE_S)
    assert (waiting.returncode, out, err) == (130, "", "")


@pytest.mark.spark
@pytest.mark.slow
def test_a_driver_that_is_killed_is_one_sentence(waiting: subprocess.Popen[str]) -> None:
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,comm="], capture_output=True, text=True, check=True)
    children = [line.split() for line in listed.stdout.splitlines()]
    (java,) = (int(pid) for pid, parent, name in children if int(parent) == waiting.pid and name == "java")
    os.kill(java, signal.SIGKILL)
    out, err = waiting.communicate(timeout=PATIENCE_S)
    assert (waiting.returncode, out) == (1, "")
    assert err.startswith("error: the Spark job failed: Spark's driver ended, and it may have run out of memory: raise")
    assert err.count("\n") == 1
