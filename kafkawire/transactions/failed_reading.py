"""Unexpected errors in the reading of a replica: the answer lacks that replica, and names the error.

What files and brokers are known to do wrong is damage, or an error of its own. An error of another type is a fault of
this package, or of the machine; the other replicas have their answers all the same.
"""

from __future__ import annotations

from kafkawire.errors import KafkaWireError

#: Characters of an error's text that are kept.
_LONGEST = 300


class ReadingError(KafkaWireError):
    """The reading of a replica failed, in another task."""


def reason_of(error: Exception) -> str:
    """Why a replica was not read: the type of the error, and its text."""
    if isinstance(error, ReadingError):
        return str(error)
    text = str(error)
    return f"unexpected {type(error).__name__}: {text[:_LONGEST]}{'...' if len(text) > _LONGEST else ''}".rstrip(": ")
