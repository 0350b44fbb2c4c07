"""Quiet Spark sessions: no web page, no log on the terminal, and a local session listens on loopback only."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from py4j.protocol import Py4JError, Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import kafkawire
from kafkawire.errors import MissingExtraError
from kafkawire.spark.errors import SparkError, first_line
from kafkawire.spark.session.jre import java_home
from kafkawire.spark.session.shipping import ship_where_missing

_TAIL_BYTES = 2000
#: Where a Spark Connect server and a master listen by default, and the seconds to wait for them.
_CONNECT_PORT = 15002
_MASTER_PORT = 7077
_HTTPS_PORT = 443
_REACH_S = 10

_HADOOP = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_IMAGE = "spark.kubernetes.container.image"
_PYTHON = "spark.pyspark.python"
#: Of Connect, which shows the server's Java trace after each error.
_SERVER_TRACE = "spark.sql.connect.serverStacktrace.enabled"

SETTINGS = {
    "spark.app.name": "kafkawire",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # As many as the processors of this machine can use; adaptive execution merges what is too small.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}

#: Where the executors are in the driver's process.
_LOOPBACK = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

_JAVA_OPTIONS = ("spark.driver.extraJavaOptions", "spark.executor.extraJavaOptions")
#: Java's own choice on two processors and more, G1, takes up to a fifth more time for cells of a megabyte.
_THROUGHPUT = "-XX:+UseParallelGC"
SETTINGS |= dict.fromkeys(_JAVA_OPTIONS, _THROUGHPUT)
#: For short jobs: half of their processor time would go into compiling what soon is over.
QUICK_START = dict.fromkeys(_JAVA_OPTIONS, f"{_THROUGHPUT} -XX:TieredStopAtLevel=1")


@contextmanager
def local_session(
    master: str = "local[*]", settings: Mapping[str, str] = {}, conf: Mapping[str, str] = {}
) -> Iterator[SparkSession]:
    """The running Spark session, or one of its own that ends with the block.

    Args:
        settings: of a session that is started here. `conf`: of that or of the running session.

    Raises:
        MissingExtraError: no Java that Spark accepts.
        SparkError: Spark did not start, or the running session does not take the `conf`.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        _configure(running, conf)
        yield running
        return
    session = _start(master, {**settings, **conf})
    try:
        yield session
    finally:
        _stop(session)


@contextmanager
def session_on(
    master: str | None, settings: Mapping[str, str] = {}, conf: Mapping[str, str] = {}
) -> Iterator[SparkSession]:
    """A session on a master that ends with the block, with this package on its workers.

    Args:
        master: `local[N]`, `spark://HOST:PORT`, `yarn`, `k8s://HOST:PORT`, `sc://HOST:PORT` (Spark Connect); None: the
            running session, or one on all cores of this machine.
        settings, conf: as `local_session` takes them.

    Raises:
        MissingExtraError: no Java that Spark accepts, or a library that Spark Connect needs is missing.
        SparkError: Spark did not start, could not be reached, or lacks a setting that the master needs.
    """
    if master is None or master.startswith("local"):
        with local_session(master or "local[*]", settings, conf) as session:
            yield session
        return
    # Where that is set, Spark's own functions make columns for Spark Connect.
    mode = {"SPARK_CONNECT_MODE_ENABLED": "1"} if master.startswith("sc:") else {}
    with _variables(mode):
        session = _connect(master, conf) if mode else _start(master, {**settings, **conf})
        try:
            ship_where_missing(session)
            yield session
        finally:
            _stop(session)


def _stop(session: SparkSession) -> None:
    with suppress(Py4JError, OSError):  # the driver may have ended already
        session.stop()


def _configure(session: SparkSession, conf: Mapping[str, str]) -> None:
    for name, value in conf.items():
        try:
            session.conf.set(name, value)
        except PySparkException as error:
            raise SparkError(f"{name} cannot be set in a session that runs already: {first_line(error)}") from None


def _connect(url: str, conf: Mapping[str, str]) -> SparkSession:
    try:
        from pyspark.sql.connect.session import SparkSession as Remote
    except ImportError:
        raise MissingExtraError("Spark Connect", "spark-connect") from None
    _reach(url, _CONNECT_PORT)
    try:
        session = Remote.builder.remote(url).getOrCreate()
        assert session.version
    except (PySparkException, OSError, RuntimeError, ValueError) as error:
        raise SparkError(f"{url} does not answer: {first_line(error)}") from None
    started = cast("SparkSession", session)
    _configure(started, {_SERVER_TRACE: "false", **conf})
    return started


def _reach(url: str, port: int, name: str | None = None) -> None:
    """Spark's own clients retry a server that is down for minutes, with growing pauses. `port`: where none is named.
    `name`: what the error calls the server; None: its URL."""
    server = urlsplit(url)
    try:
        address = (server.hostname or "", server.port or port)
        socket.create_connection(address, timeout=_REACH_S).close()
    except (OSError, ValueError) as error:
        raise SparkError(f"{name or url} does not answer: {error}") from None


def _check_master(master: str, settings: Mapping[str, str]) -> None:
    """Complain where a master needs what is not there, before Spark spends minutes on it."""
    kind = master.partition("://")[0] if "://" in master else master
    if kind == "spark":
        if "," not in master:  # with several, one may be down
            _reach(master, _MASTER_PORT)
    elif kind == "k8s":
        server = master.removeprefix("k8s://")
        _reach(server if "://" in server else f"https://{server}", _HTTPS_PORT, master)
        if _IMAGE not in settings:
            raise SparkError(f"{master} needs --conf {_IMAGE}=IMAGE: an image with Spark, Python and kafkawire[spark]")
    elif kind == "yarn":
        if not any(os.environ.get(name) for name in _HADOOP):
            raise SparkError(f"yarn needs {' or '.join(_HADOOP)} in the environment: the folder with yarn-site.xml")
    elif not kind.startswith("local"):
        raise SparkError(
            f"{master!r} is no master: give local[N], spark://HOST:PORT, yarn, k8s://HOST:PORT or sc://HOST"
        )


def _start(master: str, settings: Mapping[str, str]) -> SparkSession:
    _check_master(master, settings)
    conf = SparkConf(loadDefaults=False)
    conf.setMaster(master)
    conf.setAll([*SETTINGS.items(), *settings.items()])
    if master.startswith("local"):
        conf.setAll(list(_LOOPBACK.items()))
    with tempfile.TemporaryFile() as log, _environment(master, settings):
        try:
            # The Java process writes warnings before any setting can silence it: they go to a file, which is shown
            # when it does not start. It lives as long as this one, and serves later sessions.
            gateway = None
            if SparkContext._gateway is None:
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
            return SparkSession(SparkContext(conf=conf, gateway=gateway))
        except Py4JJavaError as error:
            why = str(error.java_exception.getMessage()).strip().splitlines()[0]
            raise SparkError(f"Spark did not start on {master}: {why}") from None
        except (PySparkException, OSError, RuntimeError) as error:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            why = _last_sentence(log.read().decode("utf-8", "replace")) or str(error)
            raise SparkError(f"Spark did not start: {why}") from None


def _last_sentence(log: str) -> str:
    """The last line of a Java process, without the frames of its trace, which begin with a tab."""
    sentences = [line for line in log.splitlines() if line.strip() and not line.startswith("\t")]
    return sentences[-1].strip().removeprefix("Caused by: ") if sentences else ""


def _environment(master: str, settings: Mapping[str, str]) -> AbstractContextManager[None]:
    """What the Java process and the Python workers inherit: this interpreter, this package, a Java that fits. On other
    machines this interpreter may not be there: what the user names goes before it."""
    package_folder = str(Path(kafkawire.__file__).parent.parent)
    named = None if master.startswith("local") else os.environ.get("PYSPARK_PYTHON")
    wanted = {
        "PYSPARK_PYTHON": settings.get(_PYTHON) or named or sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [package_folder, os.environ.get("PYTHONPATH")])),
    }
    home = java_home()
    return _variables(wanted if home is None else wanted | {"JAVA_HOME": home})


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Variables of the environment, as long as the block is."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
