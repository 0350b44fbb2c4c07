"""`Background`: an event loop in a thread of its own, for callers that have no event loop or already run in one (a
notebook)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Generator
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")


class Background:
    """Runs coroutines while the context lasts."""

    def __enter__(self) -> Background:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kafkawire", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine."""
        future = asyncio.run_coroutine_threadsafe(call, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def iterate(self, made: AsyncGenerator[T, None]) -> Generator[T, None, None]:
        """The items of an asynchronous generator. While one is used, the next one is made."""
        end = object()
        one_at_a_time = asyncio.Lock()

        async def following() -> Any:
            async with one_at_a_time:
                return await anext(made, end)

        async def close() -> None:
            async with one_at_a_time:  # what was cancelled has ended
                await made.aclose()

        coming = asyncio.run_coroutine_threadsafe(following(), self._loop)
        try:
            while (item := coming.result()) is not end:
                coming = asyncio.run_coroutine_threadsafe(following(), self._loop)
                yield item
        finally:
            coming.cancel()
            self.run(close())
