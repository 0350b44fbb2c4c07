"""`Fault`: an error, delay or loss that the proxy inflicts on requests, chosen by api, topic and rate."""

from __future__ import annotations

import random
from typing import Literal

import msgspec

from kafkawire import visit
from kafkawire.wire.message import Message


class Fault(msgspec.Struct, frozen=True):
    """An error, a delay or a loss for requests of a kind.

    Attributes:
        request: their class; None: any.
        topic: those that name this topic; None: any.
        rate: the share of them that it happens to, above 0 and at most 1.
        times: how many it happens to; None: all.
        delay_s: seconds before the request is sent on, or is dropped.
        error: the error code of the response that the proxy gives in place of the broker, which gets no request.
        drop: "request": the connection is closed, and the broker does not get it; "response": it does, and the client
            gets no response: its connection is closed.

    Raises:
        ValueError: a value outside of its range; nothing happens; `error` and `drop` together.
    """

    request: type[Message] | None = None
    topic: str | None = None
    rate: float = 1.0
    times: int | None = None
    delay_s: float = 0.0
    error: int = 0
    drop: Literal["request", "response"] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.rate <= 1:
            raise ValueError(f"rate={self.rate}: above 0 and at most 1")
        if self.times is not None and self.times < 1:
            raise ValueError(f"times={self.times}: at least 1, or None for all")
        if not 0 <= self.delay_s < 1e6:
            raise ValueError(f"delay_s={self.delay_s}: seconds, from 0 on")
        if self.drop not in (None, "request", "response"):
            raise ValueError(f'drop={self.drop!r}: "request" or "response"')
        if self.error and self.drop:
            raise ValueError("drop and error exclude each other: a dropped request has no response")
        if not (self.delay_s or self.error or self.drop):
            raise ValueError("nothing goes wrong: delay_s, error or drop says what does")


class Faults:
    """The faults of a proxy, in the order in which they were added; the first that is for a request happens to it."""

    def __init__(self, seed: int | None = None) -> None:
        self._left: list[tuple[Fault, int | None]] = []
        self._random = random.Random(seed)

    def add(self, fault: Fault) -> None:
        self._left.append((fault, fault.times))

    def clear(self) -> None:
        self._left.clear()

    def concern(self, api_key: int) -> bool:
        """Whether requests of an api key have to be looked at."""
        return any(fault.request is None or fault.request.spec.api_key == api_key for fault, _ in self._left)

    def of(self, body: Message) -> Fault | None:
        """The fault that happens to a request; None: it passes."""
        for at, (fault, left) in enumerate(self._left):
            if fault.request is not None and fault.request.spec.api_key != body.spec.api_key:
                continue
            if fault.topic is not None and not any(
                found.value == fault.topic for found in visit.find(body, visit.TOPIC_NAME)
            ):
                continue
            if fault.rate < 1 and self._random.random() >= fault.rate:
                continue
            if left == 1:
                del self._left[at]
            elif left is not None:
                self._left[at] = fault, left - 1
            return fault
        return None
