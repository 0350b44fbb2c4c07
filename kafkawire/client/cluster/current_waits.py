"""`CurrentWaits`: the waits of a client at this moment, so that a program can show them to its user.

A client waits for responses, for connections, and for partitions to get a leader. It registers each wait for as long as
it lasts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import msgspec


class CurrentWait(msgspec.Struct, frozen=True, kw_only=True):
    """A wait.

    Attributes:
        subject: identifies what is waited for; equal for repeated waits.
        text: a sentence without a full stop: "broker 2 (kafka-2:9092): no answer to DescribeProducers".
        began: seconds of this machine's monotonic clock. `began_ms`: epoch milliseconds.
        limit_s: seconds after which the client gives up.
    """

    subject: str
    text: str
    began: float
    began_ms: int
    limit_s: float

    @property
    def elapsed_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began


class CurrentWaits:
    """The waits of a client at this moment. `ended`: called with each wait when it ends."""

    def __init__(self) -> None:
        self.ended: Callable[[CurrentWait], None] | None = None
        self._now: dict[int, CurrentWait] = {}
        self._numbers = count()

    @property
    def now(self) -> list[CurrentWait]:
        """All current waits, the oldest first."""
        return sorted(self._now.values(), key=lambda wait: wait.began)

    @contextmanager
    def on(self, subject: str, text: str, limit_s: float, *, since: CurrentWait | None = None) -> Iterator[CurrentWait]:
        """Registers a wait while its body runs. `since`: an earlier wait for the same subject, which this one
        continues."""
        wait = CurrentWait(
            subject=subject,
            text=text,
            began=time.monotonic() if since is None else since.began,
            began_ms=int(time.time() * 1000) if since is None else since.began_ms,
            limit_s=limit_s,
        )
        number = next(self._numbers)
        self._now[number] = wait
        try:
            yield wait
        finally:
            del self._now[number]
            if self.ended is not None:
                self.ended(wait)
