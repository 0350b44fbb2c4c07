"""Reads ranges of partitions from their leaders into the facts that audits rest on, with a bounded load.

A piece is fetched, replayed and dropped. Memory grows with the producers, transactional ids and ended transactions,
not with the batches; the pieces in memory are as many as the partitions that are read side by side.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.fetched_log import FetchedPartition
from kafkawire.client.diagnosis.reading_journal import Journal
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Offsets, ProducerState, TopicPartition
from kafkawire.client.rpc.partition_log import fetched_at, whole_batches
from kafkawire.transactions.answers import Placed
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge
from kafkawire.transactions.failed_reading import reason_of
from kafkawire.transactions.log.replay import PRODUCER_ID_EXPIRATION_MS
from kafkawire.transactions.parts.part_scan import read_range
from kafkawire.transactions.verdict.cluster_facts import ClusterFacts

_MOST, _LEAST = 8 << 20, 64 << 10


class Load(msgspec.Struct, frozen=True):
    """The load on brokers: bytes a second of all partitions together; partitions side by side."""

    bytes_per_s: int = 10_000_000
    side_by_side: int = 4

    @property
    def piece(self) -> int:
        """Bytes of a fetch: those of a second at most."""
        return min(_MOST, max(_LEAST, self.bytes_per_s))


class FetchRange(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a partition's log: offsets `[start, end)`.

    Attributes:
        leader: broker id, None where there is none.
        offsets: of the partition; `end` is its high watermark. `producers`: that its leader remembers.
        size: bytes, as an estimate; None where the size of the log is not known.
    """

    place: TopicPartition
    leader: int | None
    start: int
    offsets: Offsets
    producers: tuple[ProducerState, ...] = ()
    size: int | None = None

    @property
    def end(self) -> int:
        return self.offsets.high_watermark


class ReadWith(msgspec.Struct, frozen=True, kw_only=True):
    """The settings with which ranges are read. `address`: of the cluster, as findings and damage name it.
    `producer_expiration_ms`, `id_expiration_ms`: producer.id.expiration.ms and transactional.id.expiration.ms."""

    address: str
    load: Load = Load()
    producer_expiration_ms: int = PRODUCER_ID_EXPIRATION_MS
    id_expiration_ms: int | None = None


class RangeReader(Protocol):
    """Reads ranges, in this process or elsewhere. `errors`: the partitions that were not read to the end, and why."""

    errors: dict[TopicPartition, ClientError]

    async def read(self, ranges: Sequence[FetchRange]) -> list[ReplicaFacts]:
        """The facts of each range, in order."""

    async def outcomes(self, cluster: ClusterFacts) -> list[Placed]:
        """The answers that rest on what `read` has left where it was read."""


class RateLimit:
    """Spreads bytes over time: `wait_after` returns when the next fetch may be sent."""

    def __init__(self, bytes_per_s: int) -> None:
        self._bytes_per_s = bytes_per_s
        self._free = time.monotonic()

    async def wait_after(self, size: int) -> None:
        now = time.monotonic()
        self._free = max(self._free, now) + size / self._bytes_per_s
        await asyncio.sleep(self._free - now)


class LogReader:
    """The reader of one process. `progress`: called with the number of bytes that were read since its last call."""

    def __init__(
        self, cluster: Cluster, using: ReadWith, journal: Journal, progress: Callable[[int], None] | None = None
    ) -> None:
        self.errors: dict[TopicPartition, ClientError] = {}
        self._cluster = cluster
        self._using = using
        self._piece = using.load.piece
        self._rate_limit = RateLimit(using.load.bytes_per_s)
        self._side_by_side = asyncio.Semaphore(using.load.side_by_side)
        self._journal = journal
        self._progress = progress or (lambda size: None)

    async def read(self, ranges: Sequence[FetchRange]) -> list[ReplicaFacts]:
        return list(await asyncio.gather(*map(self._one, ranges)))

    async def outcomes(self, cluster: ClusterFacts) -> list[Placed]:
        return []

    async def _one(self, asked: FetchRange) -> ReplicaFacts:
        async with self._side_by_side:
            async for merge in self.merges(asked):
                last = merge
            return self.facts(asked, last)

    async def merges(self, asked: FetchRange) -> AsyncGenerator[ReplicaMerge, None]:
        """The state of a range after each piece, and once at the end. An error ends it, and is in `errors`; after one
        that no rule foresees, nothing of the range counts."""
        log = _RangeLog(asked, self._using)
        offset = asked.start
        while offset < asked.end:
            try:
                offset, size = await self._next(log, offset)
            except ClientError as error:
                self.errors[asked.place] = error
                break
            except Exception as error:
                self._failed(asked, error)
                log.restart()
                break
            if size:
                self._progress(size)
                await self._rate_limit.wait_after(size)
            yield log.merge
        yield log.merge

    def facts(self, asked: FetchRange, merge: ReplicaMerge) -> ReplicaFacts:
        """The facts of a range from its last state; of none of it, if an error is raised, which is in `errors`."""
        try:
            return merge.facts()
        except Exception as error:
            self._failed(asked, error)
            return _RangeLog(asked, self._using).merge.facts()

    def _failed(self, asked: FetchRange, error: Exception) -> None:
        self.errors[asked.place] = ClientError(f"{asked.place}: {reason_of(error)}")

    async def _next(self, log: _RangeLog, offset: int) -> tuple[int, int]:
        """Reads the piece at an offset. Returns the offset after it, and the number of bytes that were fetched."""
        place = log.asked.place
        known = self._journal.known(place, offset) if log.journaled else None
        if known is not None:
            part, following = known
            log.begin_at(part.scan.first_offset)
            log.partition.log.piece.skip(part.scan.bytes)
            again = log.merge.read_again
            log.merge.take(0, part)
            return (following if log.merge.read_again == again else log.restart()), 0
        data = await self._fetched(log.asked, offset)
        if isinstance(data, int):
            return data, 0
        whole = data[: whole_batches(data)]
        if not whole:
            raise ClientError(f"{place}: nothing could be read at offset {offset}, below {log.asked.end}")
        log.begin_at(int.from_bytes(whole[:8], "big", signed=True))
        piece = log.partition.log.piece
        piece.follow(whole)
        part = await asyncio.to_thread(read_range, log.partition.log, piece.start, piece.end)
        again = log.merge.read_again
        log.merge.take(0, part)  # where its offsets go back, it reads the piece again
        behind = part.scan.following
        if behind is None or behind <= offset:
            raise ClientError(f"{place}: nothing could be read behind offset {offset}, below {log.asked.end}")
        self._journal.add(place, offset, behind, part if log.merge.read_again == again else None)
        return behind, len(data)

    async def _fetched(self, asked: FetchRange, offset: int) -> bytes | int:
        """The bytes at an offset; or the new log start offset, where retention has deleted the offset."""
        found = await fetched_at(self._cluster, asked.place, offset, leader=asked.leader, most=self._piece)
        return found if isinstance(found, int) else bytes(found.records or b"")


class _RangeLog:
    """A range while it is read. `journaled`: pieces of an earlier reading may be taken."""

    def __init__(self, asked: FetchRange, using: ReadWith) -> None:
        self.asked = asked
        self.journaled = True
        self._using = using
        self._begin(asked.start)

    def _begin(self, first: int) -> None:
        asked, using = self.asked, self._using
        self.partition = FetchedPartition(using.address, asked.place, first, asked.offsets, asked.producers)
        self.merge = ReplicaMerge(
            AuditedReplica(
                self.partition,
                producer_expiration_ms=using.producer_expiration_ms,
                id_expiration_ms=using.id_expiration_ms,
                impacts=False,
            )
        )

    def begin_at(self, base_offset: int | None) -> None:
        """Before the first piece: its first batch can begin below the requested offset."""
        if not self.partition.log.piece.end and base_offset is not None and 0 <= base_offset < self.asked.start:
            self._begin(base_offset)

    def restart(self) -> int:
        """Starts again without the pieces of an earlier reading, which do not fit what the leader remembers now.
        Returns the offset to start at."""
        self.journaled = False
        self._begin(self.asked.start)
        return self.asked.start
