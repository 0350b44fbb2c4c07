"""`Timeline`: tasks that act one after the other, in the order of true time."""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator

from tests.audit_logs import NOON

#: A task: what it does happens between its values, each of which is how long it waits, in milliseconds.
Steps = Iterator[int]


class Timeline:
    """True time, and the events in it.

    Attributes:
        draw: of the seed.
        now: epoch milliseconds, on no broker's clock.
        moments: the time of each event: an append to a log. Its number is its place here.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = NOON
        self.moments: list[int] = []
        self._started = 0
        self._due: list[tuple[int, int, Steps]] = []

    def event(self) -> int:
        """A new event; returns its number."""
        self.moments.append(self.now)
        return len(self.moments) - 1

    def start(self, steps: Steps, after: int = 0) -> None:
        """Begin a task after some milliseconds."""
        self._started += 1
        heapq.heappush(self._due, (self.now + after, self._started, steps))

    def run(self, until: int | None = None) -> None:
        """Let all tasks act, to their ends; with `until`, those that are due before that time."""
        while self._due and (until is None or self._due[0][0] < until):
            self.now, _, steps = heapq.heappop(self._due)
            wait = next(steps, None)
            if wait is not None:
                self.start(steps, wait)
        self.now = max(self.now, until or 0)
