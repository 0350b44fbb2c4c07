"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_STEP_S = 0.1


def until(attempt: Callable[[], T | None], what: str, *, seconds: float) -> T:
    """Calls `attempt` until its result is neither None nor False, and returns this result.

    Args:
        attempt: called every 0.1 seconds.
        what: description of the condition, for the error.
        seconds: limit of the wait.

    Raises:
        TimeoutError: the time is over.
    """
    deadline = time.monotonic() + seconds
    while (found := attempt()) is None or found is False:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(_STEP_S)
    return found
