"""A quiet local Spark session: no web page, no log on the terminal, nothing that listens beyond this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import kafkawire
from kafkawire.errors import KafkaWireError
from kafkawire.spark.jre import java_home

_TAIL_BYTES = 2000


class SparkError(KafkaWireError):
    """Spark could not start, or its job failed."""


SETTINGS = {
    "spark.app.name": "kafkawire",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # As many as the processors of this machine can use; adaptive execution merges what is too small.
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
}

#: For short jobs: half of their processor time would go into compiling what soon is over.
QUICK_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


@contextmanager
def local_session(master: str = "local[*]", settings: Mapping[str, str] = {}) -> Iterator[SparkSession]:
    """The running Spark session, or one of its own that ends with the block.

    Raises:
        MissingExtraError: no Java that Spark accepts.
        SparkError: Spark did not start.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    session = _start(master, settings)
    try:
        yield session
    finally:
        session.stop()


def _start(master: str, settings: Mapping[str, str]) -> SparkSession:
    conf = SparkConf(loadDefaults=False)
    conf.setMaster(master)
    conf.setAll([*SETTINGS.items(), *settings.items()])
    with tempfile.TemporaryFile() as log, _environment():
        try:
            # The Java process writes warnings before any setting can silence it: they go to a file, which is shown
            # when it does not start. It lives as long as this one, and serves later sessions.
            gateway = None
            if SparkContext._gateway is None:
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]
            return SparkSession(SparkContext(conf=conf, gateway=gateway))
        except (PySparkException, OSError, RuntimeError) as error:
            log.seek(0, os.SEEK_END)
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            said = log.read().decode("utf-8", "replace").strip().splitlines()
            raise SparkError(f"Spark did not start: {said[-1] if said else error}") from None


@contextmanager
def _environment() -> Iterator[None]:
    """What the Java process and the Python workers inherit: this interpreter, this package, a Java that fits."""
    package_folder = str(Path(kafkawire.__file__).parent.parent)
    wanted = {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(filter(None, [package_folder, os.environ.get("PYTHONPATH")])),
    }
    home = java_home()
    if home is not None:
        wanted["JAVA_HOME"] = home
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
