"""Faults and scripted answers for the next requests of a mock broker, and a log of the requests that it received."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

import msgspec

from kafkawire.frames import Request
from kafkawire.testing.apis import is_of
from kafkawire.wire.message import Message

#: In place of the broker's answer: a response; the bytes of a frame with its size; a function of the request's body.
Answer = Message | bytes | Callable[[Any], Message | bytes]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What goes wrong with a request.

    Attributes:
        delay_s: seconds before anything else.
        error: the error code of the response. The request is not carried out.
        drop: closes the connection without a response, "before" or "after" the request is carried out.
        reset: the dropped connection ends with RST, as if the broker's process were killed.
        silent: the request is carried out, there is no response, and the connection stays open.
        wrong_correlation_id: the response has another correlation id than its request.

    Raises:
        ValueError: another `drop`, a negative delay, or `reset` without `drop`.
    """

    delay_s: float = 0.0
    error: int = 0
    drop: Literal["before", "after"] | None = None
    reset: bool = False
    silent: bool = False
    wrong_correlation_id: bool = False

    def __post_init__(self) -> None:
        if self.drop not in (None, "before", "after"):
            raise ValueError(f'drop={self.drop!r}: "before" or "after" the request is carried out, or None')
        if not self.delay_s >= 0:
            raise ValueError(f"delay_s={self.delay_s}: seconds, at least 0")
        if self.reset and self.drop is None:
            raise ValueError('reset=True needs drop="before" or drop="after"')


class _ScriptStep(NamedTuple):
    kind: type[Message] | None
    action: Fault | Answer
    times: int | None
    node: int | None


class Script:
    """Faults and answers, each for a number of requests, in the order in which they were added."""

    def __init__(self) -> None:
        self._steps: list[_ScriptStep] = []

    def add(
        self, kind: type[Message] | None, action: Fault | Answer, times: int | None, node: int | None = None
    ) -> None:
        """Adds a step for the next requests of a class.

        Args:
            kind: their class; None: any.
            action: what happens to them.
            times: for how many requests, at least 1; None: for all.
            node: those that are sent to this node; None: to any.
        """
        if times is not None and times < 1:
            raise ValueError(f"times={times}: a number of requests, at least 1, or None for all of them")
        self._steps.append(_ScriptStep(kind, action, times, node))

    def take(self, body: Any, node: int = 1) -> Fault | Answer | None:
        """The first step that is for this request; None for none."""
        for at, (kind, action, times, where) in enumerate(self._steps):
            if where in (None, node) and is_of(kind, body):
                if times == 1:
                    del self._steps[at]
                elif times is not None:
                    self._steps[at] = _ScriptStep(kind, action, times - 1, where)
                return action
        return None

    def clear(self) -> None:
        self._steps.clear()


class RequestLog:
    """The last requests: at most `max_requests`, whose frames have at most `max_bytes`."""

    def __init__(self, max_requests: int = 10_000, max_bytes: int = 16 << 20) -> None:
        self._held: deque[tuple[Request[Message], int, int]] = deque()
        self._bytes = 0
        self._max_requests = max_requests
        self._max_bytes = max_bytes

    def add(self, request: Request[Message], size: int, node: int = 1) -> None:
        """Adds a request; `size`: bytes of its frame. `node`: the id of the node that it was sent to."""
        self._held.append((request, size, node))
        self._bytes += size
        while len(self._held) > self._max_requests or self._bytes > self._max_bytes:
            self._bytes -= self._held.popleft()[1]

    def __iter__(self) -> Iterator[Request[Message]]:
        return (request for request, _, _ in tuple(self._held))

    def __len__(self) -> int:
        return len(self._held)

    def of(self, kind: type[Message], *, node: int | None = None) -> list[Any]:
        """The bodies of the requests of a class, oldest first; `node`: those that were sent to this node."""
        held = tuple(self._held)
        return [each.body for each, _, where in held if node in (None, where) and is_of(kind, each.body)]

    def clear(self) -> None:
        self._held.clear()
        self._bytes = 0
