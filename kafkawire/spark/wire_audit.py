"""`audit_cluster`: the audit of a live cluster (`client.diagnosis.wire_audit`), whose logs Spark tasks fetch.

The driver plans the reading, asks coordinators, and gives the verdicts, as one process does. A task fetches the
partitions of a share, one after another, and summarizes their parts with the code of one process. Ended transactions,
decisions and uses of producer ids stay with the workers and are judged there, as those of copied logs are
(`outcome_judge`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import nullcontext, suppress
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import pyarrow as pa
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.admin import Admin
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.log_reading import FetchRange, Load, LogReader, RangeReader, ReadWith
from kafkawire.client.diagnosis.reading_journal import Journal
from kafkawire.client.diagnosis.reading_plan import ReadingPlan
from kafkawire.client.diagnosis.wire_audit import WireAudit
from kafkawire.client.diagnosis.wire_audit import audit as audit_over_the_wire
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.transport.config import Config
from kafkawire.spark.auditing.audit_tables import for_driver
from kafkawire.spark.auditing.outcome_judge import judged, judged_with, judgements
from kafkawire.spark.auditing.outcome_rows import FACTS, EndedCell, id_rows
from kafkawire.spark.auditing.replica_parts import drained, to_driver
from kafkawire.spark.errors import SparkError
from kafkawire.spark.session.jobs import Progress, cancel, job
from kafkawire.spark.session.sent_values import received, sent
from kafkawire.spark.session.sessions import session_on
from kafkawire.spark.session.task_sizing import Rows, by_task
from kafkawire.spark.session.typed_table import only
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.auditing.replica_facts import ReplicaFacts
from kafkawire.transactions.coordinator.packed_decisions import Decided
from kafkawire.transactions.verdict.cluster_facts import ClusterFacts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T = TypeVar("T")
#: Seconds for a thread that was started to begin its work.
_BEGIN_S = 5
#: Seconds between two looks of a wait for Ctrl-C.
_LOOK_S = 0.5


def audit_cluster(
    bootstrap: str,
    wanted: WireAudit = WireAudit(),  # noqa: B008 (frozen)
    properties: Mapping[str, str] | None = None,
    *,
    spark: SparkSession | None = None,
    master: str | None = None,
    conf: Mapping[str, str] = {},
    progress: Progress | None = None,
    announce: Callable[[ReadingPlan], None] = lambda plan: None,
) -> rows.Audit:
    """Find and judge every open transaction of a live cluster, and check its logs against the rules. The result is
    that of `client.diagnosis.wire_audit.audit`.

    Args:
        bootstrap: `HOST:PORT,...`. Driver and workers connect to the brokers.
        wanted: what to audit. `load.side_by_side` is the number of tasks; together they read `load.bytes_per_s`. A
            journal is not supported.
        properties: Java-style client properties. Workers get them, with passwords, and read the files that they name.
        spark, master, conf, progress: see `audit`.
        announce: called with what will be read, before the first byte of a log is fetched.

    Raises:
        ClientError: nothing could be read. SparkError: Spark did not start, or a job failed.
        ValueError: a journal was given.
    """
    if wanted.journal is not None:
        raise ValueError("the journal of a reading is kept by one process, not by Spark")

    async def run(session: SparkSession) -> rows.Audit:
        async with Admin.connect(bootstrap, properties) as admin:
            reader = reader_on(session, bootstrap, properties or {}, progress)
            return await audit_over_the_wire(admin.cluster, wanted, announce=announce, reader=reader)

    with session_on(master, conf=conf) if spark is None else nullcontext(spark) as session:
        return _in_a_thread(run(session))


def _in_a_thread(work: Coroutine[Any, Any, T]) -> T:
    """Run that in a thread: notebooks have a running event loop in this one. It is cancelled by Ctrl-C, which only this
    thread gets."""
    begun: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = Future()

    async def run() -> T:
        task = asyncio.ensure_future(work)
        begun.set_result((asyncio.get_running_loop(), task))
        return await task

    with ThreadPoolExecutor(1) as thread:
        try:
            future = thread.submit(asyncio.run, run())
            # A signal that comes right before a wait without end does not interrupt it.
            while not wait([future], _LOOK_S).done:
                pass
            return future.result()
        except KeyboardInterrupt:
            # It has just ended; or Ctrl-C came before it could begin.
            with suppress(RuntimeError, TimeoutError):
                loop, task = begun.result(_BEGIN_S)
                loop.call_soon_threadsafe(task.cancel)
            raise


def reader_on(
    spark: SparkSession, bootstrap: str, properties: Mapping[str, str], progress: Progress | None = None
) -> Callable[[ReadWith], RangeReader]:
    """A function that makes the reader for `client.diagnosis.wire_audit.audit`.

    Args:
        bootstrap, properties, progress: see `audit_cluster`.

    Raises:
        SparkError: the session starts copies of slow tasks, which would read more than the load allows.
    """
    if str(spark.conf.get("spark.speculation", "false")).lower() == "true":
        raise SparkError("spark.speculation starts copies of slow tasks, which would exceed the load on brokers")
    return lambda using: _SparkReader(spark, bootstrap, dict(properties), using, progress)


class Share(NamedTuple):
    """What a task reads, one range after another, and its part of the load."""

    bytes_per_s: int
    ranges: list[FetchRange]


def shares(ranges: Sequence[FetchRange], load: Load) -> list[Share]:
    """Divide ranges into at most `load.side_by_side` tasks of similar size, which together read at most
    `load.bytes_per_s`. Half of that is divided evenly, because sizes are estimates, and half by size."""
    reading = [one for one in ranges if one.start < one.end]
    count = max(1, min(load.side_by_side, len(reading), load.bytes_per_s // 2))
    estimated = all(one.size is not None for one in reading)
    sized = [(1 + (one.size or 0 if estimated else one.end - one.start), one) for one in ranges]
    tasks: list[tuple[int, int, list[FetchRange]]] = [(0, number, []) for number in range(count)]
    heapify(tasks)
    for size, one in sorted(sized, key=lambda pair: -pair[0]):
        taken, number, listed = tasks[0]
        listed.append(one)
        heapreplace(tasks, (taken + size, number, listed))
    whole = sum(size for size, *_ in tasks)
    return [
        Share(load.bytes_per_s * (count * size + whole) // (2 * count * max(1, whole)), listed)
        for size, _, listed in tasks
    ]


class _RangeOutcome(NamedTuple):
    """What the driver gets of a range. `judged`: how many rows of it workers judge. `error`: why it was not read to
    the end."""

    place: TopicPartition
    facts: ReplicaFacts
    judged: int
    error: str | None


class _SparkReader:
    """See `RangeReader`."""

    def __init__(
        self,
        spark: SparkSession,
        bootstrap: str,
        properties: dict[str, str],
        using: ReadWith,
        progress: Progress | None,
    ) -> None:
        self.errors: dict[TopicPartition, ClientError] = {}
        self._spark = spark
        self._connect = bootstrap, properties
        self._using = using
        self._progress = progress
        self._judged = 0
        self._kept: list[DataFrame] = []

    async def read(self, ranges: Sequence[FetchRange]) -> list[ReplicaFacts]:
        return await self._job("read logs", lambda: self._read(ranges)) if ranges else []

    async def outcomes(self, cluster: ClusterFacts) -> list[Placed]:
        return await self._job("judge transactions", lambda: self._outcomes(cluster)) if self._judged else []

    def _read(self, ranges: Sequence[FetchRange]) -> list[ReplicaFacts]:
        connect, using = self._connect, self._using
        payloads = [sent(one) for one in shares(ranges, using.load)]

        def read(listed: Rows) -> Iterator[pa.RecordBatch]:
            for row in listed:
                yield from _of_share(received(payloads[row["id"]]), connect, using)

        tasks = self._spark.range(0, len(payloads), 1, len(payloads))  # a row each
        # Without its lineage: rows that are lost with an executor are no reason to read the cluster's logs again.
        found = by_task(tasks, read, FACTS.spark).localCheckpoint()
        self._kept.append(found)
        by_place: dict[TopicPartition, _RangeOutcome] = {one.place: one for one in for_driver(found)}
        self.errors |= {one.place: ClientError(one.error) for one in by_place.values() if one.error is not None}
        self._judged += sum(one.judged for one in by_place.values())
        return [by_place[one.place].facts for one in ranges]

    def _outcomes(self, cluster: ClusterFacts) -> list[Placed]:
        first, *others = self._kept
        for one in others:
            first = first.union(one)
        using = {0: judged_with(cluster)}
        cells = only(first, EndedCell)
        return list(judgements(judged(first, cells, list(cluster.chosen), using, self._judged, opens=False)))

    async def _job(self, what: str, work: Callable[[], list[T]]) -> list[T]:
        def run() -> list[T]:
            with job(self._spark, f"kafkawire audit: {what}", self._progress):
                return work()

        try:
            return await asyncio.to_thread(run)
        except asyncio.CancelledError:
            cancel(self._spark)
            raise


# On the workers ------------------------------------------------------------------------------------------------------


def _of_share(share: Share, connect: tuple[str, dict[str, str]], using: ReadWith) -> Iterator[pa.RecordBatch]:
    """The rows of a share's ranges, as `outcome_rows.FACTS` has them."""
    using = replace(using, load=Load(share.bytes_per_s, 1))
    with asyncio.Runner() as runner:
        cluster = Cluster(Config.of(*connect))
        try:
            reader = LogReader(cluster, using, Journal(None, using.address, None))
            for asked in share.ranges:
                yield from _of_range(runner, reader, asked)
        finally:
            runner.run(cluster.close())


def _of_range(runner: asyncio.Runner, reader: LogReader, asked: FetchRange) -> Iterator[pa.RecordBatch]:
    merge, ended = yield from drained(0, _stepped(runner, reader.merges(asked)))
    facts = reader.facts(asked, merge)
    ids = facts.ids
    if ids is not None:  # the driver judges open transactions, and ids in a Prepare state
        yield from id_rows(0, replace(facts, ids=replace(ids, owners={}, prepared=())))
    error = reader.errors.get(asked.place)
    yield to_driver(
        _RangeOutcome(
            asked.place,
            replace(
                facts,
                ids=None
                if ids is None
                else replace(ids, owners={}, uses=(), decisions=Decided.none(facts.partition.place)),
                digests=b"",
            ),
            ended + (0 if ids is None else len(ids.uses)),
            None if error is None else str(error),
        )
    )


def _stepped(runner: asyncio.Runner, source: AsyncIterator[T]) -> Iterator[T]:
    """The items of an asynchronous iterator. Its event loop runs only while one is awaited."""

    async def following() -> T | None:
        return await anext(source, None)

    while (found := runner.run(following())) is not None:
        yield found
