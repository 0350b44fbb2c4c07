"""Replicas that are read by several processes, where no engine lets threads work side by side: several small ones by
one, and parts of large ones by all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from kafkawire.transactions.auditing.replica_facts import AuditedReplica, parts_of
from kafkawire.transactions.auditing.replica_reading import Outcome, ReplicaReading, Whole, read_whole
from kafkawire.transactions.failed_reading import ReadingError, reason_of
from kafkawire.transactions.parts.part_columns import PartColumns, decode, encode
from kafkawire.transactions.parts.part_processes import Work, in_order
from kafkawire.transactions.parts.part_scan import PartTask

#: Bytes of a part: of one for each process the columns are in memory, and of one that is replayed.
PART_BYTES = 16 << 20
#: Bytes of a replica, and replicas, that a process is given at once, at most.
_WHOLE_BYTES, _GROUP = 256 << 20, 64
#: Whether this process reads as well.
SHARES = True


def in_processes(
    replicas: Sequence[AuditedReplica], jobs: int, progress: Callable[[int], None] | None
) -> Iterator[Outcome]:
    """The facts of each replica, in order.

    Args:
        jobs: number of processes, this one among them.
        progress: see `audit`.
    """
    plans = [_plan(replica) for replica in replicas]
    most = max(PART_BYTES, min(_WHOLE_BYTES, sum(plan.size for plan in plans) // (8 * jobs)))
    groups = in_order(_groups(replicas, plans, most), _WORK, jobs, shares=SHARES)
    found = (one for group in groups for one in group)
    for replica, plan in zip(replicas, plans, strict=True):
        if plan.size <= most:
            one = next(found)
            assert isinstance(one, Whole)
            if progress is not None:
                progress(one.read)
            yield one.facts
            continue
        reading = ReplicaReading(replica)
        for segment, _ in plan.parts:
            part = next(found)
            assert not isinstance(part, Whole)
            reading.take(segment, part)
            if progress is not None and isinstance(part, PartColumns):
                progress(part.scan.bytes)
        yield reading.result()


class _Plan(NamedTuple):
    """The parts of a replica, and their bytes; none where its files cannot be listed: reading it gives the reason."""

    parts: list[tuple[int, PartTask]]
    size: int = 0


def _plan(replica: AuditedReplica) -> _Plan:
    try:
        found = list(parts_of(replica, PART_BYTES))
        return _Plan(found, sum(task.size for _, task in found))
    except Exception:  # the process that reads it whole gives the error
        return _Plan([])


_Task = AuditedReplica | PartTask
_Found = Whole | PartColumns | ReadingError


def _groups(replicas: Sequence[AuditedReplica], plans: Sequence[_Plan], most: int) -> Iterator[list[_Task]]:
    """What a process is given at once: several small replicas, or a part of a large one.

    Args:
        most: bytes of a replica that one process reads whole.
    """
    group: list[_Task] = []
    size = 0
    for replica, plan in zip(replicas, plans, strict=True):
        whole = plan.size <= most
        if group and (not whole or size + plan.size > most or len(group) == _GROUP):
            yield group
            group, size = [], 0
        if whole:
            group.append(replica)
            size += plan.size
        else:
            for _, task in plan.parts:
                yield [task]
    if group:
        yield group


def _here(tasks: list[_Task]) -> list[_Found]:
    return [_read(task) if isinstance(task, PartTask) else read_whole(task) for task in tasks]


def _there(tasks: list[_Task]) -> list[Whole | bytes | str]:
    return [
        encode(one, compress=False)
        if isinstance(one, PartColumns)
        else str(one)
        if isinstance(one, ReadingError)
        else one
        for one in _here(tasks)
    ]


def _back(found: list[Whole | bytes | str]) -> list[_Found]:
    return [
        decode(one) if isinstance(one, bytes) else ReadingError(one) if isinstance(one, str) else one for one in found
    ]


_WORK: Work[list[_Task], list[Whole | bytes | str], list[_Found]] = Work(_here, _there, _back)


def _read(task: PartTask) -> PartColumns | ReadingError:
    try:
        return task.read()
    except Exception as error:
        return ReadingError(reason_of(error))
