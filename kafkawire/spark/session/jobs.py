"""`job`: a block of Spark work with a name, progress, and failures that are one sentence with what to change."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.accumulators import AccumulatorTCPServer
from pyspark.errors import PySparkException

from kafkawire.spark.errors import SparkError, first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: Is called with a description, the number of tasks that are done, and the number of all tasks.
Progress = Callable[[str, int, int], None]

_POLL_S = 0.2
_GROUP = "kafkawire"

_DRIVER_LOST = "Spark's driver ended, and it may have run out of memory: raise spark.driver.memory (1g by default)"
#: All that py4j's error states where the connection broke in the midst of a call. An exception in Java would follow.
_BROKEN_CALL = re.compile(r"An error occurred while calling \S+")
#: What Spark reports -> what to change. The first that is found counts.
_CAUSES = [
    (re.compile(pattern), advice)
    for pattern, advice in (
        (
            r"[Cc]heckpoint block \S+ not found",
            "an executor was lost, and with it what it had read of the cluster: run the audit again",
        ),
        (
            r"maxResultSize",
            "the results are larger than the driver takes: raise spark.driver.maxResultSize and spark.driver.memory",
        ),
        (
            r"OutOfMemoryError|Java heap space|GC overhead limit|exit (?:code|status):? ?52",
            "an executor ran out of Java memory: raise spark.executor.memory (on local[N]: spark.driver.memory)",
        ),
        (
            r"exit (?:code|status):? ?(?:137|143)|Container killed|OOMKilled|Python worker exited unexpectedly"
            r"|memory limits",
            "an executor or its Python worker was killed, probably for its memory: raise "
            "spark.executor.memoryOverhead, or lower spark.executor.cores",
        ),
        (
            r"ExecutorLostFailure|Remote RPC client disassociated|Executor heartbeat timed out",
            "executors were lost again and again: raise spark.executor.memory and spark.executor.memoryOverhead, or "
            "see the executors' logs",
        ),
        (
            r'Cannot run program "([^"]*)"',
            "the workers have no {0}: set PYSPARK_PYTHON to a Python that they have, or send one with spark.archives",
        ),
        (
            r"PYTHON_VERSION_MISMATCH|Python in worker has different version",
            "the workers run another version of Python than the driver: set PYSPARK_PYTHON to the same version",
        ),
        (
            r"ModuleNotFoundError: No module named '([\w.]+)'",
            "the workers' Python has no {0}: install kafkawire[spark] there, or set PYSPARK_PYTHON to one that has it",
        ),
    )
]


@contextmanager
def job(spark: SparkSession, description: str, progress: Progress | None = None) -> Iterator[None]:
    """Name the jobs of a block, in Spark's web page too, and report their progress.

    Args:
        description: the name. `progress`: see `Progress`; None: it is not reported.

    Raises:
        SparkError: a job failed.
        KeyboardInterrupt: Ctrl-C; the jobs are cancelled.
    """
    try:
        with _quiet(), _named(spark, description, progress):
            yield
    except (PySparkException, Py4JError, OSError, ValueError) as error:
        if _interrupted(error):
            raise KeyboardInterrupt from None
        raise SparkError(f"the Spark job failed: {cause(error)}") from error


def cancel(spark: SparkSession) -> None:
    """End the jobs that run in a `job` of another thread."""
    if hasattr(spark, "_jsparkSession"):
        spark.sparkContext.cancelJobGroup(_GROUP)
    else:  # Spark Connect
        spark.interruptTag(_GROUP)


@contextmanager
def kept(frame: DataFrame) -> Iterator[DataFrame]:
    """A table whose rows are computed once while the block lasts."""
    try:
        yield frame.persist()
    finally:
        with suppress(PySparkException, Py4JError, OSError):  # the driver may be gone: the job has its own error
            frame.unpersist()


def cause(error: BaseException) -> str:
    """Why Spark failed, and what to change where that is known."""
    if isinstance(error, (Py4JNetworkError, ConnectionError)):
        return _DRIVER_LOST
    try:
        text = str(error)
    except (Py4JError, OSError):  # Java has the text of its exceptions
        return _DRIVER_LOST
    if isinstance(error, Py4JError) and _BROKEN_CALL.fullmatch(text):
        return _DRIVER_LOST
    for pattern, advice in _CAUSES:
        found = pattern.search(text)
        if found:
            return advice.format(*found.groups())
    raised = re.findall(r"^(?:[\w.]+(?:Error|Exception|Interrupt)): .+$", text, re.MULTILINE)
    if raised and ("Traceback (most recent call last)" in text or "from the Python worker" in text):
        return str(raised[-1])
    caused = re.findall(r"^Caused by: (?:[\w.$]+: )?(.+)$", text, re.MULTILINE)
    return caused[-1] if isinstance(error, Py4JJavaError) and caused else first_line(error)


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C came first: what PySpark cleans up then fails, too."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppresses the traces that py4j (in the root logger) and PySpark write when Java ends or Ctrl-C comes."""
    AccumulatorTCPServer.handle_error = lambda *_: None  # type: ignore[method-assign]

    def not_py4j(record: logging.LogRecord) -> bool:
        return "py4j" not in record.pathname

    root = logging.getLogger()
    root.addFilter(not_py4j)
    try:
        yield
    finally:
        root.removeFilter(not_py4j)


@contextmanager
def _named(spark: SparkSession, description: str, progress: Progress | None) -> Iterator[None]:
    if not hasattr(spark, "_jsparkSession"):  # Spark Connect
        with _watched_remotely(spark, description, progress):
            yield
        return
    context = spark.sparkContext
    context.setJobGroup(_GROUP, description, interruptOnCancel=True)
    try:
        with _watched(context, description, progress):
            yield
    finally:
        with suppress(Py4JError, OSError):  # it may have ended
            for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
                context.setLocalProperty(name, None)  # type: ignore[arg-type]


@contextmanager
def _watched(context: Any, description: str, progress: Progress | None) -> Iterator[None]:
    if progress is None:
        yield
        return
    ended = threading.Event()

    def watch() -> None:
        tracker = context.statusTracker()
        with suppress(Py4JError, OSError):  # the driver is gone: the job has its own error
            while not ended.wait(_POLL_S):
                found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                stages = [stage for stage in found if stage is not None]
                if stages:
                    done = sum(stage.numCompletedTasks for stage in stages)
                    progress(description, done, sum(stage.numTasks for stage in stages))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _watched_remotely(spark: SparkSession, description: str, progress: Progress | None) -> Iterator[None]:
    def report(stages: Any, **_: Any) -> None:
        if progress is not None and stages:
            done = sum(stage.num_completed_tasks for stage in stages)
            progress(description, done, sum(stage.num_tasks for stage in stages))

    spark.addTag(_GROUP)
    spark.registerProgressHandler(report)  # type: ignore[arg-type]
    try:
        yield
    finally:
        spark.removeProgressHandler(report)  # type: ignore[arg-type]
        spark.removeTag(_GROUP)
