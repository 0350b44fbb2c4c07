"""`Waits`: what a client is waiting for at this moment, for a user who wonders why nothing happens.

A wait is an answer that has not come, a connection that is not made, a partition without a leader. The client notes it
when it begins and forgets it when it ends; nothing is printed here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

import msgspec


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is waited for.

    Attributes:
        subject: what it is, always the same where the same is waited for again.
        text: a sentence without its end: "broker 2 (kafka-2:9092): no answer to DescribeProducers".
        began: on this machine's monotonic clock, in seconds. `began_ms`: epoch milliseconds.
        limit_s: seconds after which it is given up.
    """

    subject: str
    text: str
    began: float
    began_ms: int
    limit_s: float

    @property
    def lasted_s(self) -> float:
        """Seconds until now."""
        return time.monotonic() - self.began


class Waits:
    """See the module.

    Attributes:
        ended: called with each wait at its end.
    """

    def __init__(self) -> None:
        self.ended: Callable[[Wait], None] | None = None
        self._now: dict[int, Wait] = {}
        self._numbers = count()

    @property
    def now(self) -> list[Wait]:
        """All of this moment, the oldest first."""
        return sorted(self._now.values(), key=lambda wait: wait.began)

    @contextmanager
    def on(self, subject: str, text: str, limit_s: float, *, since: Wait | None = None) -> Iterator[Wait]:
        """Waits for something in its body.

        Args:
            since: an earlier wait for the same, which this one continues.
        """
        wait = Wait(
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
