"""The errors that `kafkawire.spark` raises. Spark's own messages are pages long; only their first line is kept."""

from __future__ import annotations

from kafkawire.errors import KafkaWireError


class SparkError(KafkaWireError):
    """Spark could not start, or its job failed."""


class SourceError(KafkaWireError):
    """Damage that a data source met, in mode FAILFAST."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text; its class where it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
