"""Spark clusters for tests, from pip's pyspark, on loopback: a standalone one, and a Spark Connect server.

    with standalone(workers=2) as cluster, connect() as remote:
        call("tests.spark.jobs:audited", cluster.master, path)

Drivers are processes of their own, since a Python process that has a session has no other kind beside it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from kafkawire.spark.session.sessions import QUICK_START
from tests.spark import class_archive

ROOT = Path(__file__).parents[2]

#: What may take long on a busy machine: a Java process that starts, a job.
PATIENCE_S = 120
JOB_PATIENCE_S = 3600 if os.environ.get("SPARK_FULL") else 600

#: Little memory, and a quick start instead of fast code.
_JAVA = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {class_archive.options()}"
_SMALL = {
    "SPARK_DAEMON_MEMORY": "512m",
    **dict.fromkeys(class_archive.VARIABLES, _JAVA),
    "SPARK_LOCAL_IP": "127.0.0.1",
}
#: `QUICK_START`, with the archive of classes for executors, too.
QUICK = {name: f"{options} {class_archive.options()}" for name, options in QUICK_START.items()}

_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
_DEPLOY = "org.apache.spark.deploy"


class Cluster(NamedTuple):
    """A standalone cluster. `master`: its URL. `workers`: the process ids of its workers."""

    master: str
    workers: tuple[int, ...]

    def executors(self, *, busy: bool = False) -> list[int]:
        """The process ids of the executors that run now. `busy`: of those that have begun to run Python."""
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True
        )
        found = [line.split(None, 2) for line in listed.stdout.splitlines()]
        executors = [int(pid) for pid, parent, *args in found if int(parent) in self.workers and args]
        daemons = {int(parent) for _, parent, *args in found if args and "pyspark.daemon" in args[0]}
        return [pid for pid in executors if pid in daemons or not busy]


@contextmanager
def standalone(workers: int = 2, *, cores: int = 1) -> Iterator[Cluster]:
    """A master and workers of `cores` each; the executors that a job starts have them all.

    Raises:
        RuntimeError: they did not start. MissingExtraError: no Java that Spark accepts.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="spark-cluster-", ignore_cleanup_errors=True)))
        web = ("--webui-port", "0")
        master = _Daemon(
            stack, folder / "master", f"{_DEPLOY}.master.Master", "--host", "127.0.0.1", "--port", "0", *web
        )
        url = master.printed(r"Starting Spark master at (spark://\S+)")
        size = ("--cores", str(cores), "--memory", "1g")
        daemons = [
            _Daemon(stack, folder / f"worker-{n}", f"{_DEPLOY}.worker.Worker", "--host", "127.0.0.1", *size, *web,
                    "--work-dir", str(folder / f"work-{n}"), url)
            for n in range(workers)
        ]  # fmt: skip
        for daemon in daemons:
            daemon.printed(r"Successfully registered with master (\S+)")
        yield Cluster(url, tuple(daemon.process.pid for daemon in daemons))


@contextmanager
def connect(master: str = "local[2]", settings: Mapping[str, str] = {}) -> Iterator[str]:
    """A Spark Connect server that runs its jobs on `master`; gives its URL, `sc://...`. `settings`: of its session.

    Raises:
        RuntimeError: it did not start. MissingExtraError: no Java that Spark accepts.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="spark-connect-", ignore_cleanup_errors=True)))
        settings = {
            **settings,
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": "0",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        }
        given = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
        submit = ("org.apache.spark.deploy.SparkSubmit", "--master", master, *given)
        daemon = _Daemon(stack, folder / "server", *submit, "--class", _CONNECT, "spark-internal")
        port = daemon.printed(r"Spark Connect server started at: \S*?:(\d+)")
        yield f"sc://127.0.0.1:{port}"


def call(function: str, *args: Any, watch: Callable[[], None] | None = None) -> Any:
    """Call a function, named `module:function`, in a new Python process; its arguments and its result are JSON.

    Args:
        watch: is called again and again while it runs.

    Raises:
        RuntimeError: it failed, with what it wrote to standard error.
    """
    module, name = function.split(":")
    code = f"import json, sys; from {module} import {name}; print(json.dumps({name}(*json.loads(sys.argv[1]))))"
    with TemporaryDirectory(prefix="spark-driver-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-c", code, json.dumps(args)],
                stdout=stdout,
                stderr=stderr,
                cwd=ROOT,
                env=_environment(),
            )
            try:
                deadline = time.monotonic() + JOB_PATIENCE_S
                while process.poll() is None:
                    if time.monotonic() > deadline:
                        raise RuntimeError(f"{function} is still running: {_tail(err)}")
                    if watch is not None:
                        watch()
                    time.sleep(0.05)
            finally:
                process.kill()
                process.wait()
        if process.returncode:
            raise RuntimeError(f"{function} failed: {_tail(err)}")
        return json.loads(out.read_text().splitlines()[-1])


class _Daemon:
    """A Java process that ends with the stack, with all that it started."""

    def __init__(self, stack: ExitStack, log: Path, *args: str) -> None:
        import pyspark

        self.log = log
        spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(spark_class), *args],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=log.parent,
                env=_environment() | _SMALL,
                start_new_session=True,
            )
        stack.callback(self._stop)

    def printed(self, pattern: str) -> str:
        """Wait until its log has a line of that pattern; gives its group."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            found = re.search(pattern, self.log.read_text(errors="replace"))
            if found:
                return found[1]
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"Spark did not start: {_tail(self.log)}")
            time.sleep(0.05)

    def _stop(self) -> None:
        for sign in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, sign)
            except ProcessLookupError:
                break
            try:
                self.process.wait(10)
                break
            except subprocess.TimeoutExpired:
                continue


def _environment() -> dict[str, str]:
    from kafkawire.spark.session.jre import java_home

    home = java_home()
    return {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **({} if home is None else {"JAVA_HOME": home}),
    }


def _tail(path: Path) -> str:
    return path.read_text(errors="replace")[-3000:]
