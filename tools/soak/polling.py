"""Waiting for a condition, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from .errors import SoakError

T = TypeVar("T")
_STEP_S = 0.1


def until(attempt: Callable[[], T | None], what: str, *, seconds: float) -> T:
    """What `attempt` gives once that is something. Raises SoakError after so many seconds."""
    deadline = time.monotonic() + seconds
    while (found := attempt()) is None:
        if time.monotonic() > deadline:
            raise SoakError(f"{what}: not so after {seconds:g} s")
        time.sleep(_STEP_S)
    return found
