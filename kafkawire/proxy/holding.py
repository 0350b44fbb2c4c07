"""`Held`: one request that a proxy holds back until it is released, as a network can: delayed, or lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

from kafkawire.wire.message import Message


class Held:
    """A request that is held back, made by `Proxy.hold`. A request that is never released is lost when the proxy ends.

    Attributes:
        caught: set once the request is held. Later requests of its connection wait after it; other connections
            continue.
    """

    def __init__(self, number: int, over: Callable[[Held], None]) -> None:
        if number < 1:
            raise ValueError(f"number={number}: which request, from 1 on")
        self.caught = threading.Event()
        self._left = number
        self._over = over
        self._released: Future[None] = Future()

    def release(self) -> None:
        """Sends the request on, also if its client has gone meanwhile; one that is yet to come is not held."""
        with suppress(InvalidStateError):
            self._released.set_result(None)

    async def __call__(self, body: Message) -> None:
        self._left -= 1
        if self._left == 0:
            self._over(self)
            self.caught.set()
            await asyncio.wrap_future(self._released)
