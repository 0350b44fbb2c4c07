"""Deadlines of calls, and pauses between retries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator

from kafkawire.client.transport.config import Config

_LEAST_S = 0.001
_JITTER = 0.2


class Deadline:
    """The time at which a call gives up, `seconds` after its start."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """Seconds that are left; never 0, so that the last attempt fails with its own reason."""
        return max(_LEAST_S, self._end - time.monotonic())

    def within(self, seconds: float) -> Deadline:
        """The earlier of this deadline and one in `seconds`."""
        return Deadline(min(seconds, self.left()))

    @property
    def over(self) -> bool:
        return time.monotonic() >= self._end

    async def sleep(self, seconds: float) -> bool:
        """Sleeps and returns True; returns False at once if the deadline would have passed by then."""
        if time.monotonic() + seconds >= self._end:
            return False
        await asyncio.sleep(seconds)
        return True


def backoffs(config: Config) -> Iterator[float]:
    """Seconds before each retry: doubled up to a limit, with jitter (KIP-580)."""
    wait = config.backoff_s
    while True:
        yield wait * random.uniform(1 - _JITTER, 1 + _JITTER)
        wait = min(wait * 2, config.max_backoff_s)
