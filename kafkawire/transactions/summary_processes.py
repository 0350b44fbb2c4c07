"""Parts of segments summarized by several processes, in the order of the log."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from kafkawire.errors import KafkaWireError
from kafkawire.transactions.part_scan import PartTask
from kafkawire.transactions.part_summary import PartSummary, decode, encode

#: Bytes, and parts, that a process is given at once at most, where a single part is not more.
_TASK_BYTES = 16 << 20
_TASK_PARTS = 64
#: Tasks for each process that are begun before the first is waited for.
_AHEAD = 4


class ProcessError(KafkaWireError):
    """A process that read logs ended before its work was done."""


def summaries(tasks: Iterable[PartTask], jobs: int) -> Iterator[PartSummary]:
    """The summary of each part, in order.

    Args:
        jobs: number of processes; 1: this one.

    Raises:
        ProcessError: a process was ended from outside.
    """
    if jobs == 1:
        for task in tasks:
            yield task.summary()
        return
    waiting: deque[Future[list[bytes]]] = deque()
    with ProcessPoolExecutor(jobs, get_context("spawn"), _ignore_interrupts) as pool:
        try:
            for group in _groups(tasks):
                waiting.append(pool.submit(_encoded, group))
                while len(waiting) > jobs * _AHEAD:
                    yield from map(decode, waiting.popleft().result())
            while waiting:
                yield from map(decode, waiting.popleft().result())
        except BrokenProcessPool as error:
            raise ProcessError(
                "a process that reads the logs was ended, perhaps because memory ran out: use fewer (--jobs)"
            ) from error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _groups(tasks: Iterable[PartTask]) -> Iterator[list[PartTask]]:
    group: list[PartTask] = []
    size = 0
    for task in tasks:
        if group and (size + task.size > _TASK_BYTES or len(group) == _TASK_PARTS):
            yield group
            group, size = [], 0
        group.append(task)
        size += task.size
    if group:
        yield group


def _encoded(tasks: Sequence[PartTask]) -> list[bytes]:
    return [encode(task.summary()) for task in tasks]


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the first ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
