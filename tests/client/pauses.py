"""Pauses at every await: each time that a task goes on is counted, and at one of them something happens before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any


class Pauses:
    """Counts how often tasks go on while it is armed, and calls `action` before the one with number `at`, from 1 on.

    Attributes:
        count: so far.
    """

    def __init__(self, at: int, action: Callable[[], None]) -> None:
        self.count = 0
        self._at = at
        self._action = action
        self._armed = False

    def arm(self) -> None:
        """Counts from now on."""
        self._armed = True

    def install(self) -> None:
        """Makes every further task of the running loop one that is counted."""
        asyncio.get_running_loop().set_task_factory(
            lambda loop, coroutine, **more: asyncio.Task(_Counted(coroutine, self), loop=loop, **more)
        )

    def step(self) -> None:
        if self._armed:
            self.count += 1
            if self.count == self._at:
                self._action()


class _Counted(Coroutine[Any, Any, Any]):
    """A coroutine, with a step before each time that it goes on."""

    def __init__(self, inner: Any, pauses: Pauses) -> None:
        self._inner = inner
        self._pauses = pauses

    def send(self, value: Any) -> Any:
        self._pauses.step()
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        self._pauses.step()
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._inner.__await__()  # type: ignore[no-any-return]
