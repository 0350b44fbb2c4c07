"""What can go wrong while a cluster is recorded."""

from __future__ import annotations


class RecordingError(Exception):
    """Something is missing, Kafka answered other than the recipe expects, or a recording is too large."""
