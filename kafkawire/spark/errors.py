"""The errors that `kafkawire.spark` raises. Spark's own messages are pages long; only their first line is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from kafkawire.errors import KafkaWireError

#: Environment variables of a worker: Spark asks it for short traces (the default), and for none (`hideTraceback`).
_SHORT_TRACE, _NO_TRACE = "SPARK_SIMPLIFIED_TRACEBACK", "SPARK_HIDE_TRACEBACK"


class SparkError(KafkaWireError):
    """Spark could not start, or its job failed."""


class SourceError(KafkaWireError):
    """Damage that a data source met, in mode FAILFAST."""


@contextmanager
def without_trace() -> Iterator[None]:
    """Errors of options, paths and files reach the user as one sentence: a worker of Spark reports them without
    Python's trace, unless the session asks for whole traces. It ends after an error, and its environment with it."""
    try:
        yield
    except (KafkaWireError, OSError, ValueError):
        if _SHORT_TRACE in os.environ:
            os.environ[_NO_TRACE] = "1"
        raise


def first_line(error: BaseException) -> str:
    """The first line of an error's text; its class where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
