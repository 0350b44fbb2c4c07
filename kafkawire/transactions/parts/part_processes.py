"""Parts of segments read by several processes, in the order of the log."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from kafkawire.errors import KafkaWireError
from kafkawire.transactions.failed_reading import ReadingError, reason_of
from kafkawire.transactions.parts.part_columns import PartColumns, decode, encode
from kafkawire.transactions.parts.part_scan import PartTask

#: Bytes, and parts, that a process is given at once at most, where a single part is not more.
_TASK_BYTES = 16 << 20
_TASK_PARTS = 64
#: Tasks for each process that are begun before the first is waited for.
_AHEAD = 4


class ProcessError(KafkaWireError):
    """A process that read logs ended before its work was done."""


def parts(tasks: Iterable[PartTask], jobs: int) -> Iterator[PartColumns | ReadingError]:
    """Each part, in order; the error of one that could not be read.

    Args:
        jobs: number of processes; 1: this one.

    Raises:
        ProcessError: a process was ended from outside.
    """
    if jobs == 1:
        yield from map(_read, tasks)
        return
    waiting: deque[Future[list[bytes | str]]] = deque()
    with ProcessPoolExecutor(jobs, get_context("spawn"), _ignore_interrupts) as pool:
        try:
            for group in _groups(tasks):
                waiting.append(pool.submit(_encoded, group))
                while len(waiting) > jobs * _AHEAD:
                    yield from map(_decoded, waiting.popleft().result())
            while waiting:
                yield from map(_decoded, waiting.popleft().result())
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


def _read(task: PartTask) -> PartColumns | ReadingError:
    try:
        return task.read()
    except Exception as error:
        return ReadingError(reason_of(error))


def _encoded(tasks: Sequence[PartTask]) -> list[bytes | str]:
    found = map(_read, tasks)
    return [str(one) if isinstance(one, ReadingError) else encode(one) for one in found]


def _decoded(found: bytes | str) -> PartColumns | ReadingError:
    return ReadingError(found) if isinstance(found, str) else decode(found)


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the first ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
