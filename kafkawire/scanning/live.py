"""The records of a live cluster's topics as Arrow batches.

The end is that of the moment when reading begins. Nothing is committed, and there is no consumer group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kafkawire.client.cluster.background import Background
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.live_log import KnownPiece, LiveLog, described, known_pieces, planned
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Metadata, TopicPartition
from kafkawire.client.rpc.partition_log import DeletedOffsets
from kafkawire.client.transport.config import Config
from kafkawire.logdir.transaction_states import ABORTED, UNKNOWN, Outcomes
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import Batches, batches
from kafkawire.scanning.record_columns import Origin, RecordColumns, schema_of
from kafkawire.scanning.record_filter import Range
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
                logs = loop.run(self._plan(cluster, problems))
                columns = RecordColumns(self.schema, self.options.messages, {one.place.topic for one in logs})
                reading = RecordReading(self.options, columns, problems)
                for log in logs:
                    origin = Origin(*log.place)
                    found = loop.iterate(known_pieces(cluster, log, outcomes=reading.sees_outcomes))
                    try:
                        for piece in found:
                            yield from self._piece(piece, log, reading, origin)
                    except ClientError as error:
                        reading.problem(Damage(0, "unreadable", str(error)), origin)
                    finally:
                        found.close()
            finally:
                loop.run(cluster.close())

    async def _metadata(self) -> Metadata:
        async with Cluster(self.config) as cluster:
            return await described(cluster, self.options.filter.topics)

    async def _plan(self, cluster: Cluster, problems: Problems) -> list[LiveLog]:
        """The partitions that are read, and their offsets."""
        wanted = self.options.filter
        metadata = await described(cluster, wanted.topics)
        for topic, error in metadata.errors.items():
            problems.add(Damage(0, "unreadable", str(error)), topic=topic)
        places = [place for place in metadata.partitions if wanted.selects(*place)]

        def offsets_of(place: TopicPartition) -> Range:
            return wanted.offsets_in(*place)

        committed = self.options.isolation_level == _COMMITTED
        logs, errors = await planned(cluster, places, offsets_of, since=wanted.times[0], committed=committed)
        for place, error in errors.items():
            problems.add(Damage(0, "unreadable", str(error)), topic=place.topic, partition=place.partition)
        return logs

    def _piece(
        self, piece: KnownPiece | DeletedOffsets, log: LiveLog, reading: RecordReading, origin: Origin
    ) -> Iterator[pa.RecordBatch]:
        if isinstance(piece, DeletedOffsets):
            reading.problem(piece.damage, origin)
            return
        offsets = log.start, log.end
        for item in batches(piece.data, window=len(piece.data)):
            if isinstance(item, Damage):
                first = int.from_bytes(piece.data[:8], "big", signed=True)
                text = f"{item.detail}, among what follows offset {first}"
                reading.problem(Damage(item.position, item.reason, text, item.resumed_at), origin)
            elif isinstance(item, Batch):
                yield from reading.old(item.measured(), origin, offsets)
            else:
                yield from self._rows(item, reading, origin, offsets, piece.outcomes)

    def _rows(
        self, found: Batches, reading: RecordReading, origin: Origin, offsets: Range, outcomes: Outcomes | None
    ) -> Iterator[pa.RecordBatch]:
        wanted = self.options.filter
        chosen, states = wanted.batches(found, offsets), None
        if outcomes is not None:
            states = outcomes.states(found)
            selected = wanted.by_states(states)
            if selected is not None:
                for index in np.flatnonzero(chosen & (states == UNKNOWN) & ~selected).tolist():
                    batch = found.batch(index)
                    text = f"offsets {batch.base_offset} to {batch.last_offset}: {outcomes.why(batch.base_offset)}"
                    reading.problem(Damage(0, "unknown_outcome", text), origin)
                chosen &= selected
            if self.options.isolation_level == _COMMITTED:
                chosen &= states != ABORTED
        yield from reading.batches(found, origin, offsets, chosen, states)
