"""Sentences about bytes of a stream that belong to no frame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkawire.capture.tls import LostRecords


def lost_records(event: LostRecords) -> str:
    """The sentence about bytes that were not decrypted."""
    problem = f"{byte_count(event.bytes)} {event.reason}"
    if event.captured < event.bytes:
        problem += f" ({byte_count(event.bytes - event.captured)} of them are missing in the capture)"
    return problem


def byte_count(count: int) -> str:
    return f"{count} byte{'s' * (count != 1)}"
