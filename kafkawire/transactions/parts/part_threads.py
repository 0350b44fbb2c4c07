"""`Threads`: work on logs by several threads of this process, for which the native engine lets go of the interpreter.

A replica is read by one of them. Parts of a large one are read ahead by those that have no replica of their own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import islice
from threading import Event
from types import TracebackType
from typing import Self, TypeVar

T = TypeVar("T")
R = TypeVar("R")

#: Tasks for each thread whose results wait, at most.
_AHEAD = 3


class Stopped(BaseException):
    """The result of a thread is not wanted any more. No error of what it works on."""


class Threads:
    """Threads that take what is given to them, the oldest first.

    Args:
        count: of the threads. The caller's is not among them: it waits, and Ctrl-C ends it.
        pool: that takes what is submitted, where these are no threads.
    """

    def __init__(self, count: int, pool: Executor | None = None) -> None:
        self._count = count
        self._pool = pool or ThreadPoolExecutor(count, "kafkawire-log")
        self._stopped = Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def check(self) -> None:
        """Called by the threads, again and again.

        Raises:
            Stopped: the block has ended.
        """
        if self._stopped.is_set():
            raise Stopped

    def submit(self, work: Callable[[T], R], task: T) -> Future[R]:
        """Give work to one of the threads."""
        return self._pool.submit(work, task)

    def in_order(self, tasks: Iterable[T], work: Callable[[T], R]) -> Iterator[R]:
        """The result of each task, in order.

        The thread that asks for them works on the tasks itself, but for those that one of these threads, which has
        nothing older to do, has taken. So it may be one of them: it waits for work in progress, never for a thread.
        """
        given = iter(tasks)
        ahead: deque[tuple[T, Future[R]]] = deque()
        while True:
            self.check()
            for task in islice(given, self._count * _AHEAD - len(ahead)):
                ahead.append((task, self._pool.submit(work, task)))
            if not ahead:
                return
            task, first = ahead[0]
            if first.cancel():
                ahead.popleft()
                yield work(task)
                continue
            own = None if first.done() else next((at for at, (_, one) in enumerate(ahead) if one.cancel()), None)
            if own is None:
                ahead.popleft()
                yield first.result()
            else:
                done = Future[R]()
                done.set_result(work(ahead[own][0]))
                ahead[own] = ahead[own][0], done
