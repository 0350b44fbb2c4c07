"""`in_order`: work on logs, done by several processes, with results in the order of the tasks."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Generic, NamedTuple, TypeVar

from kafkawire.errors import KafkaWireError

T = TypeVar("T")
R = TypeVar("R")
E = TypeVar("E")

#: Tasks for each other process that wait in it, and for each process those whose results wait here, at most.
_GIVEN, _AHEAD = 2, 4


class ProcessError(KafkaWireError):
    """A process that read logs ended before its work was done."""


class Work(NamedTuple, Generic[T, E, R]):
    """What is done with a task.

    Attributes:
        here: its result, made by this process.
        there: the result in the form in which another process sends it; back: the result from that.
    """

    here: Callable[[T], R]
    there: Callable[[T], E]
    back: Callable[[E], R]


def in_order(tasks: Iterable[T], work: Work[T, E, R], jobs: int, *, shares: bool = True) -> Iterator[R]:
    """The result of each task, in order.

    Args:
        jobs: number of processes, this one among them; 1: this one alone.
        shares: whether this one takes tasks, too: until another has started, and while the next result is not there.

    Raises:
        ProcessError: a process was ended from outside.
    """
    given = iter(tasks)
    if jobs == 1:
        yield from map(work.here, given)
        return
    pool = ProcessPoolExecutor(jobs - 1, get_context("spawn"), _ignore_interrupts)
    try:
        started = pool.submit(_start)
        while shares and not started.done() and (task := next(given, None)) is not None:
            yield work.here(task)
        yield from _shared(given, work, pool, jobs, shares)
    except BrokenProcessPool as error:
        raise ProcessError(
            "a process that reads the logs was ended, perhaps because memory ran out: use fewer (--jobs)"
        ) from error
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _shared(given: Iterator[T], work: Work[T, E, R], pool: ProcessPoolExecutor, jobs: int, shares: bool) -> Iterator[R]:
    waiting: deque[Future[E] | R] = deque()
    while True:
        while len(waiting) < jobs * _AHEAD and (task := next(given, None)) is not None:
            if sum(isinstance(one, Future) and not one.done() for one in waiting) < (jobs - 1) * _GIVEN or not shares:
                waiting.append(pool.submit(work.there, task))
                continue
            waiting.append(work.here(task))
            if not isinstance(waiting[0], Future) or waiting[0].done():
                break
        if not waiting:
            return
        first = waiting.popleft()
        yield work.back(first.result()) if isinstance(first, Future) else first


def _start() -> None:
    """The process has started."""


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the first ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
