"""The witness as a Spark job: captures are read by tasks, what they hold is shuffled by partition, and each partition
is joined with its copies by one task.

The driver has counts, anomalies up to a limit, and what partitions share: answers to EndTxn, groups, coordinators'
decisions on captured producers. A task has one partition at a time: 77 bytes a batch that was sent, and 52 a batch that
is held.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa

from kafkawire import capture, logdir
from kafkawire.capture import Summary
from kafkawire.errors import CaptureError
from kafkawire.records.distinct import distinct
from kafkawire.rows import DamageRow, Row
from kafkawire.spark.session.jobs import Progress, job, kept
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.sessions import QUICK_START, session_on
from kafkawire.spark.session.task_sizing import by_task
from kafkawire.witness.capture_parts import Numbers, merged, part_of, renumbered
from kafkawire.witness.commits import COMMIT
from kafkawire.witness.ended import REGISTERED
from kafkawire.witness.evidence import MOST_ANOMALIES, Witness
from kafkawire.witness.exchange_rows import Place, Rows
from kafkawire.witness.fetched import FETCHED
from kafkawire.witness.held_side import DirectoryCopies, HeldSide, Identity
from kafkawire.witness.partition_join import Captured, Context, join_partition
from kafkawire.witness.positions import STEP
from kafkawire.witness.sent import SENT
from kafkawire.witness.totals import Totals

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

#: The rows of a partition in a capture, by the name of the collector.
_ROWS = {"sent": SENT, "fetched": FETCHED, "commits": COMMIT, "steps": STEP, "registered": REGISTERED}
#: The columns of what captures hold of partitions; without a topic, of what partitions share.
PARTS = "topic string, partition int, kind string, task int, chunk int, payload binary"
_PAYLOAD = "payload binary"
#: Rows of a payload: bytes of one cell are limited.
_CHUNK = 1 << 16
#: Tasks that join partitions, for each core.
_TASKS_A_CORE = 4
#: The number of cores of a cluster for which Spark Connect gives none.
_REMOTE_CORES = 8


class CaptureNote:
    """A note on a capture that was read. `summary`: None where it could not be read. `error`: why."""

    def __init__(self, file: str, summary: Summary | None, error: str | None) -> None:
        self.file, self.summary, self.error = file, summary, error


class _Names(DirectoryCopies):
    """No copies: names of topics alone."""

    def __init__(self, names: dict[UUID, str]) -> None:
        super().__init__(logdir.LogDirectory([]))
        self._names = names

    def topic_names(self) -> dict[UUID, str]:
        return self._names


def witness(
    captures: Sequence[str],
    paths: Sequence[str],
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] = {},
    progress: Progress | None = None,
    most: int = MOST_ANOMALIES,
    keylog: Sequence[str] = (),
    decode_as: Sequence[str] = (),
    tier_keys: Sequence[str] = (),
) -> tuple[list[Row], list[CaptureNote], list[str]]:
    """The rows of `witness.Witness`, notes on the captures, and what of groups' logs cannot be read.

    Args:
        captures: a task reads each. paths: log directories. Workers read both under the same paths.
        spark: the session to use; None: the running one, or one for this call.
        master, conf, progress: see `spark.audit`.
        most: anomalies that are listed, at most. keylog, decode_as: see `capture.read`.
        tier_keys: files with the RSA private keys (PEM) of encrypted tiers.

    Raises:
        OSError: a path that is not there or may not be read.
        SparkError: Spark did not start, or a job failed.
    """
    directory = logdir.open(*paths, tier_keys=tier_keys)
    held = DirectoryCopies(directory)
    joined = Witness(held, most=most)
    names = held.topic_names()
    arguments = tuple(keylog), tuple(decode_as)
    with session_on(master, settings=QUICK_START, conf=conf) if spark is None else nullcontext(spark) as session:
        tasks = list(enumerate(captures))

        def read_captures(rows: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
            for row in rows:
                yield from _read_capture(row["task"], row["file"], names, *arguments)

        listed = session.createDataFrame(tasks, "task int, file string").repartition(len(tasks), "task")
        with kept(by_task(listed, read_captures, PARTS)) as found:
            with job(session, "read captures", progress):
                metas = found.where("topic IS NULL").orderBy("task").collect()
            notes, numbers, context = _merged(joined, [received(row.payload) for row in metas])

            read = partial(_directory_copies, tuple(paths), tuple(tier_keys))
            tasks_read = joined_totals(session, found, read, joined.identity, numbers, context, most, progress)
    held.damage += tasks_read.damage
    held.left_out += tasks_read.left_out
    return list(joined.result(tasks_read.totals)), notes, held.problems


class JoinedTotals(NamedTuple):
    """The results of all tasks, added up. `damage`, `left_out`: see `HeldSide`. `memory`: most resident memory of a
    worker, in KiB."""

    totals: Totals
    damage: list[DamageRow]
    left_out: list[str]
    memory: int


def joined_totals(
    session: SparkSession,
    found: DataFrame,
    held_of_task: Callable[[], HeldSide],
    identity: Identity,
    numbers: list[Numbers],
    context: Context,
    most: int,
    progress: Progress | None = None,
) -> JoinedTotals:
    """Joins partitions with their copies, each in a task.

    Args:
        found: what captures hold (`PARTS`). held_of_task: makes what a task reads copies with.
        identity: ids that captures show. numbers: of each task that read a capture. context: what partitions share.
        most: anomalies that are listed, at most. progress: see `spark.audit`.

    Raises:
        SparkError: the job failed.
    """

    def join(rows: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        held = held_of_task()
        for place, captured in _by_place(rows, numbers):
            copies = held.copies(place, identity, only_newest=captured.sent is None)
            totals = join_partition(place, captured, copies, context)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            yield _payload(JoinedTotals(totals, held.damage, held.left_out, memory))
            held.damage, held.left_out = [], []

    cores = session.sparkContext.defaultParallelism if hasattr(session, "_jsparkSession") else _REMOTE_CORES
    rows = found.where("topic IS NOT NULL").repartition(cores * _TASKS_A_CORE, "topic", "partition")
    ordered = rows.sortWithinPartitions("topic", "partition", "kind", "task", "chunk")
    whole = JoinedTotals(Totals(), [], [], 0)
    with job(session, "join partitions", progress):
        for row in by_task(ordered, join, _PAYLOAD).toLocalIterator():
            one: JoinedTotals = received(row.payload)
            whole.totals.add(one.totals, most)
            whole.damage.extend(one.damage)
            whole.left_out.extend(one.left_out)
            whole = whole._replace(memory=max(whole.memory, one.memory))
    return whole


def _directory_copies(paths: tuple[str, ...], tier_keys: tuple[str, ...]) -> HeldSide:
    return DirectoryCopies(logdir.open(*paths, tier_keys=tier_keys))


def _read_capture(
    task: int, file: str, names: dict[UUID, str], keylog: tuple[str, ...], decode_as: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """What a capture holds, in chunks; and what partitions share, without a topic."""
    collected = Witness(_Names(names))
    found = capture.read(file, keep=True, keylog=keylog, decode_as=decode_as)
    error = None
    try:
        for exchange in found.matched():
            collected.add(exchange)
    except CaptureError as failed:
        error = str(failed)
    except OSError as failed:
        error = failed.strerror or str(failed)
    captured = collected.captured()
    for place, one in captured.items():
        yield from chunks(place, task, one)
    note = CaptureNote(file, found.summary if error is None or found.summary.packets else None, error)
    yield _batch(None, None, "", task, 0, sent((part_of(collected, captured), note)))


def chunks(place: Place, task: int, captured: Captured) -> Iterator[pa.RecordBatch]:
    """What a capture holds of a partition, as rows (`PARTS`). `task`: that read it."""
    for kind in _ROWS:
        rows: Rows | None = getattr(captured, kind)
        for chunk in range(0, 0 if rows is None else len(rows), _CHUNK):
            assert rows is not None
            yield _batch(*place, kind, task, chunk, rows[chunk : chunk + _CHUNK].tobytes())


def _merged(joined: Witness, parts: list[tuple[Any, CaptureNote]]) -> tuple[list[CaptureNote], list[Numbers], Context]:
    """Adds what all captures have to the witness; the numbers of each task, and what partitions share."""
    numbers: list[Numbers] = []
    runs = 0
    subjects: set[tuple[str, str, int]] = set()
    for part, _ in parts:
        numbers.append(merged(joined, part, runs))
        runs += part.runs
        subjects |= part.subjects
    ids = distinct(np.concatenate([np.empty(0, np.int64), *(part.producer_ids for part, _ in parts)]))
    context = joined.context_of(ids, subjects)
    return [note for _, note in parts], numbers, context


def _by_place(rows: Iterable[dict[str, Any]], numbers: list[Numbers]) -> Iterator[tuple[Place, Captured]]:
    """The rows of each partition, which follow one another."""
    for place, of_place in groupby(rows, lambda row: (row["topic"], row["partition"])):
        found: dict[str, list[Rows]] = {}
        for row in of_place:
            chunk = np.frombuffer(row["payload"], _ROWS[row["kind"]])
            found.setdefault(row["kind"], []).append(renumbered(chunk, numbers[row["task"]]))
        yield place, Captured(**{kind: np.concatenate(chunks) for kind, chunks in found.items()})


def _batch(
    topic: str | None, partition: int | None, kind: str, task: int, chunk: int, payload: bytes
) -> pa.RecordBatch:
    types = (pa.string(), pa.int32(), pa.string(), pa.int32(), pa.int32(), pa.binary())
    names = ("topic", "partition", "kind", "task", "chunk", "payload")
    values = (topic, partition, kind, task, chunk, payload)
    arrays = [pa.array([value], of) for value, of in zip(values, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _payload(value: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([sent(value)], pa.binary())], names=["payload"])
