"""Replicas that are read side by side: each by one thread, small ones in groups, and parts of large ones by threads
that have nothing else to do. Without the native engine processes read them, each whole: threads of pure Python do not
work at the same time."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from queue import SimpleQueue

from kafkawire.errors import KafkaWireError
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaMerge
from kafkawire.transactions.auditing.replica_reading import Outcome, outcome_of, read_whole
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.parts.cut_parts import CutPart, cut_parts, is_whole
from kafkawire.transactions.parts.part_columns import PartColumns
from kafkawire.transactions.parts.part_threads import Threads

#: Bytes of a part.
PART_BYTES = 8 << 20
#: Small replicas that a thread is given at once, at most: each time the interpreter changes between threads.
_GROUP = 64
#: How often `progress` is called, in seconds.
_TICK_S = 0.1

_Task = tuple[AuditedReplica, int]


class ProcessError(KafkaWireError):
    """A process that read logs ended before its work was done."""


def side_by_side(
    replicas: Sequence[AuditedReplica],
    sizes: Sequence[int],
    jobs: int,
    progress: Callable[[int], None] | None,
    *,
    threads: bool,
) -> Iterator[Outcome]:
    """The facts of each replica, in order.

    Args:
        sizes: bytes of each. The largest are read first, so that none is left alone at the end.
        jobs: number of threads or processes.
        progress: called by this thread; see `audit`.
        threads: whether threads read, not processes.

    Raises:
        ProcessError: a process was ended from outside.
    """
    read: SimpleQueue[int] = SimpleQueue()
    pool: Executor | None = None if threads else ProcessPoolExecutor(jobs, get_context("spawn"), _ignore_interrupts)
    try:
        with Threads(jobs, pool) as workers:
            work = partial(_facts, workers, read) if threads else _whole
            given: dict[int, tuple[Future[list[Outcome]], int]] = {}
            for group in _groups(sizes, jobs):
                future = workers.submit(work, [(replicas[number], sizes[number]) for number in group])
                given |= {number: (future, place) for place, number in enumerate(group)}
            for number in range(len(replicas)):
                future, place = given.pop(number)  # its facts are the caller's now
                if progress is not None:
                    _report(future, read, progress)
                    if not threads:
                        progress(sizes[number])
                yield future.result()[place]
    except BrokenProcessPool as error:
        raise ProcessError(
            "a process that reads the logs was ended, perhaps because memory ran out: use fewer (--jobs)"
        ) from error


def _ignore_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal; the first ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _groups(sizes: Sequence[int], jobs: int) -> Iterator[list[int]]:
    """The replicas that a thread is given at once."""
    most = min(2 * PART_BYTES, sum(sizes) // (8 * jobs))
    group, left = list[int](), most
    for number in sorted(range(len(sizes)), key=lambda number: -sizes[number]):
        if group and (sizes[number] > left or len(group) == _GROUP):
            yield group
            group, left = [], most
        group.append(number)
        left -= sizes[number]
    if group:
        yield group


def _report(future: Future[list[Outcome]], read: SimpleQueue[int], progress: Callable[[int], None]) -> None:
    """Waits for a result, and reports what is read in the meantime."""
    waiting = True
    while waiting:
        waiting = bool(wait([future], _TICK_S).not_done)
        size = 0
        while not read.empty():
            size += read.get()
        if size:
            progress(size)


def _whole(tasks: Sequence[_Task]) -> list[Outcome]:
    return [read_whole(replica) for replica, _ in tasks]


def _facts(threads: Threads, read: SimpleQueue[int], tasks: Sequence[_Task]) -> list[Outcome]:
    def seen(size: int) -> None:
        threads.check()
        read.put(size)

    def read_one(merge: ReplicaMerge, replica: AuditedReplica, size: int) -> None:
        if size < 2 * PART_BYTES or replica.partition.topic == TRANSACTION_STATE:  # one pass takes its records in order
            merge.read_all(seen)
        else:
            _read_cut(merge, replica, seen, threads)

    return [outcome_of(one, partial(read_one, replica=one, size=size), threads.check) for one, size in tasks]


def _read_cut(merge: ReplicaMerge, replica: AuditedReplica, seen: Callable[[int], None], threads: Threads) -> None:
    """Read a replica's segments in parts. A segment of which a part cannot be taken is read in one go from there on.
    `seen`: see `read_part`."""
    read_on: int | None = None
    segments = enumerate(replica.partition.segments)
    parts = (part for part in cut_parts(segments, PART_BYTES) if part.segment != read_on)
    segment, position = -1, 0
    for part, found in threads.in_order(parts, _read):
        if part.segment != segment:
            segment, position = part.segment, 0
        if part.segment == read_on or found is None:
            continue
        if isinstance(found, Exception) or found.start != position or not (found.end is None or is_whole(found)):
            read_on = segment
            merge.read(segment, seen, position, part.size)
            continue
        merge.take(segment, found)
        seen(found.scan.bytes)
        position = found.end or 0


def _read(part: CutPart) -> tuple[CutPart, PartColumns | Exception | None]:
    """An error is what reading on gives, too, if it is one of the file's."""
    try:
        return part, part.read()
    except Exception as error:
        return part, error
