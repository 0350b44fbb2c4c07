"""Failures of a soak, apart from counts that differ."""

from __future__ import annotations


class SoakError(Exception):
    """A process of the run ended, did not start, or did not end in time. The message has its name and its errors."""
