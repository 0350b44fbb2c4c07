"""The records of a live cluster's topics as Arrow batches.

The end is that of the moment when reading begins: each partition's high watermark, or its last stable offset. Nothing
is committed, and there is no consumer group. What became of transactions is what brokers say of it: with the aborted
transactions of Fetch below the last stable offset, and above it by the markers up to the high watermark.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.errors import UNKNOWN_TOPIC_OR_PARTITION, BrokerError, ClientError
from kafkawire.client.results import Metadata, Offsets, TopicPartition
from kafkawire.client.rpc.partition_log import DeletedOffsets, LogPiece, pieces
from kafkawire.client.rpc.partition_offsets import list_offsets, offsets_at
from kafkawire.client.transport.config import Config
from kafkawire.logdir.stretches import Stretch, table_of
from kafkawire.logdir.transaction_states import ABORTED, NO_OFFSET, UNKNOWN, Outcomes, TransactionScan
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import Batches, batches
from kafkawire.scanning.background import Background
from kafkawire.scanning.record_columns import Origin, RecordColumns, schema_of
from kafkawire.scanning.record_filter import Range, narrowed
from kafkawire.scanning.record_options import RecordOptions
from kafkawire.scanning.record_reading import RecordReading
from kafkawire.scanning.stream import Problems

_COMMITTED = "read_committed"


class LiveScan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is read of a cluster.

    Attributes:
        config: how to reach it. `options`: which records, and how. `schema`: of the batches.
    """

    config: Config
    options: RecordOptions
    schema: pa.Schema

    @classmethod
    def of(cls, config: Config, options: RecordOptions, columns: Iterable[str] | None) -> LiveScan:
        """A scan of what the cluster has.

        Raises:
            ClientError: the cluster cannot be reached. LookupError: no such column, topic or partition.
        """
        found = cls(config=config, options=options, schema=schema_of(columns, options.messages, files=False))
        with Background() as loop:
            metadata = loop.run(found._metadata())
        options.filter.check([*metadata.partitions])
        options.check_topics({place.topic for place in metadata.partitions})
        return found

    def narrowed(self, columns: list[str], bounds: Any) -> LiveScan:
        schema = schema_of(columns, self.options.messages, files=False)
        return msgspec.structs.replace(self, schema=schema, options=self.options.narrowed(bounds))

    def batches(self, problems: Problems) -> Iterator[pa.RecordBatch]:
        with Background() as loop:
            cluster = Cluster(self.config)
            try:
                planned = loop.run(self._plan(cluster, problems))
                columns = RecordColumns(self.schema, self.options.messages, {one.place.topic for one in planned})
                reading = RecordReading(self.options, columns, problems)
                for one in planned:
                    try:
                        yield from _PartitionReading(loop, cluster, self.options, reading, one).batches()
                    except ClientError as error:
                        reading.problem(Damage(0, "unreadable", str(error)), one.origin)
            finally:
                loop.run(cluster.close())

    async def _metadata(self) -> Metadata:
        async with Cluster(self.config) as cluster:
            return await self._described(cluster)

    async def _described(self, cluster: Cluster) -> Metadata:
        """The topics that are chosen; all, where none is.

        Raises:
            LookupError: one of those that are chosen does not exist. ClientError: it has no metadata.
        """
        topics = self.options.filter.topics
        found = await cluster.metadata(None if topics is None else sorted(topics))
        for topic, error in found.errors.items() if topics is not None else ():
            if isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION:
                raise LookupError(f"there is no topic {topic!r}, or it may not be described")
            raise error
        return found

    async def _plan(self, cluster: Cluster, problems: Problems) -> list[_Planned]:
        """The partitions that are read, and their offsets."""
        metadata, wanted = await self._described(cluster), self.options.filter
        for topic, error in metadata.errors.items():
            problems.add(Damage(0, "unreadable", str(error)), topic=topic)
        places = [place for place in metadata.partitions if wanted.selects(*place)]
        deadline = cluster.deadline()
        first = wanted.times[0]
        offsets, timed = await asyncio.gather(
            list_offsets(cluster, places, deadline),
            _nothing() if first is None else offsets_at(cluster, places, first, deadline),
        )
        planned = []
        for place in places:
            error_at = offsets.errors.get(place) or (timed.errors.get(place) if timed is not None else None)
            if error_at is not None:
                problems.add(Damage(0, "unreadable", str(error_at)), topic=place.topic, partition=place.partition)
                continue
            known = offsets.values[place]
            committed = self.options.isolation_level == _COMMITTED
            there: Range = (known.log_start, known.last_stable_offset if committed else known.high_watermark)
            low, high = narrowed(wanted.offsets_in(*place), there)
            if timed is not None:
                at = timed.values[place]
                low = high if at is None else max(low or 0, at)
            planned.append(_Planned(place, low or 0, high or 0, known))
        return planned


async def _nothing() -> None:
    return None


class _Planned(NamedTuple):
    """A partition, and the offsets that are read."""

    place: TopicPartition
    start: int
    end: int
    offsets: Offsets

    @property
    def origin(self) -> Origin:
        return Origin(*self.place)


class _PartitionReading:
    """Reads one partition."""

    def __init__(
        self, loop: Background, cluster: Cluster, options: RecordOptions, reading: RecordReading, planned: _Planned
    ) -> None:
        self._loop = loop
        self._cluster = cluster
        self._options = options
        self._reading = reading
        self._planned = planned

    def batches(self) -> Iterator[pa.RecordBatch]:
        planned = self._planned
        if not self._reading.sees_outcomes:
            yield from self._part(planned.start, planned.end, committed=False, outcomes=None)
            return
        stable = min(max(planned.start, planned.offsets.last_stable_offset), planned.end)
        yield from self._part(planned.start, stable, committed=True, outcomes=None)
        if stable < planned.end:
            yield from self._part(stable, planned.end, committed=False, outcomes=self._unstable(stable))

    def _part(self, start: int, end: int, *, committed: bool, outcomes: Outcomes | None) -> Iterator[pa.RecordBatch]:
        """The records of a range of offsets.

        Args:
            committed: read with the aborted transactions. outcomes: of the transactions, if they are known.
        """
        planned, reading = self._planned, self._reading
        offsets = start, end
        for piece in self._loop.iterate(pieces(self._cluster, planned.place, start, end, committed=committed)):
            if isinstance(piece, DeletedOffsets):
                text = f"offsets {piece.first} to {piece.end - 1} were deleted while they were read"
                reading.problem(Damage(0, "deleted", text), planned.origin)
                continue
            found = [*batches(piece.data, window=len(piece.data))]
            known = outcomes
            if committed:
                known = _outcomes([item for item in found if isinstance(item, Batches)], piece)
            for item in found:
                if isinstance(item, Damage):
                    text = f"{item.detail}, among what follows offset {start}"
                    reading.problem(Damage(item.position, item.reason, text, item.resumed_at), planned.origin)
                elif isinstance(item, Batch):
                    yield from reading.old(item.measured(), planned.origin, offsets)
                else:
                    yield from self._rows(item, offsets, known)

    def _rows(self, found: Batches, offsets: Range, outcomes: Outcomes | None) -> Iterator[pa.RecordBatch]:
        wanted, origin = self._options.filter, self._planned.origin
        chosen, states = wanted.batches(found, offsets), None
        if outcomes is not None:
            states = outcomes.states(found)
            selected = wanted.by_states(states)
            if selected is not None:
                for index in np.flatnonzero(chosen & (states == UNKNOWN) & ~selected).tolist():
                    batch = found.batch(index)
                    text = f"offsets {batch.base_offset} to {batch.last_offset}: {outcomes.why(batch.base_offset)}"
                    self._reading.problem(Damage(0, "unknown_outcome", text), origin)
                chosen &= selected
            if self._options.isolation_level == _COMMITTED:
                chosen &= states != ABORTED
        yield from self._reading.batches(found, origin, offsets, chosen, states)

    def _unstable(self, first: int) -> Outcomes:
        """The outcomes of what lies above the last stable offset: no transaction that is open began below it."""
        scan = TransactionScan(first)
        place, end = self._planned.place, self._planned.offsets.high_watermark
        for piece in self._loop.iterate(pieces(self._cluster, place, first, end)):
            if isinstance(piece, DeletedOffsets):
                continue  # reported where its records are read
            for item in batches(piece.data, window=len(piece.data)):
                if isinstance(item, Damage):
                    scan.damage(f"{place}: {item.reason}: {item.detail}")
                elif isinstance(item, Batch):
                    scan.add_old(item.measured())
                else:
                    scan.add(item)
        return scan.finish()


def _outcomes(found: list[Batches], piece: LogPiece) -> Outcomes:
    """The outcomes of transactions below the last stable offset: those that the broker lists were aborted, each up to
    the next marker of its producer (Kafka's `CompletedFetch`); all others were committed."""
    if not piece.aborted:
        return Outcomes(end=NO_OFFSET, aborted=table_of(()))
    markers = [(one.producer_id[one.is_control], one.base_offset[one.is_control]) for one in found]
    producers = np.concatenate([ids for ids, _ in markers]) if markers else np.empty(0, np.int64)
    offsets = np.concatenate([at for _, at in markers]) if markers else np.empty(0, np.int64)
    by_producer: Mapping[int, Any] = {
        producer: offsets[producers == producer] for producer in {one for one, _ in piece.aborted}
    }
    stretches = []
    for producer, first in piece.aborted:
        own = by_producer[producer]
        at = int(own.searchsorted(first, "right"))
        stretches.append(Stretch(producer, first, int(own[at]) if at < len(own) else NO_OFFSET))
    return Outcomes(end=NO_OFFSET, aborted=table_of(stretches))
