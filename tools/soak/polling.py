"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from .errors import SoakError

T = TypeVar("T")
_STEP_S = 0.1


def until(attempt: Callable[[], T | None], what: str, *, seconds: float) -> T:
    """Calls `attempt` until its result is not None, and returns this result.

    Args:
        attempt: called every 0.1 seconds.
        what: description of the condition, for the error.
        seconds: limit of the wait.

    Raises:
        SoakError: the time is over.
    """
    deadline = time.monotonic() + seconds
    while (found := attempt()) is None:
        if time.monotonic() > deadline:
            raise SoakError(f"{what}: not so after {seconds:g} s")
        time.sleep(_STEP_S)
    return found
