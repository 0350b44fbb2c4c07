"""How a transaction ended: the marker in its partition's log.

It is shown to an operator who tries to abort a transaction that has already ended by itself or was ended by another
operator.
"""

from __future__ import annotations

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.results import Offsets, TopicPartition
from kafkawire.client.rpc.fetch_batches import first_batch
from kafkawire.client.rpc.partition_offsets import list_offsets, offsets_at
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.records import Batch
from kafkawire.records.batch import readable_control
from kafkawire.transactions.verdict.abort_rules import TransactionSpec

ABORT, COMMIT = "ABORT", "COMMIT"

#: Offsets that are read after the transaction's start, before its marker is looked for by time.
_NEAR = 100_000


class EndedTransaction(msgspec.Struct, frozen=True, kw_only=True):
    """A transaction that has ended. `marker`: "ABORT" or "COMMIT". `marker_offset`: of the marker; `coordinator_epoch`:
    that it carries. `start_offset`: of the transaction, None where it was named by its producer."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int | None
    marker: str
    marker_offset: int
    last_stable_offset: int
    high_watermark: int


async def how_it_ended(
    cluster: Cluster, named: TransactionSpec, timeout_s: float | None = None
) -> EndedTransaction | None:
    """The marker that ended a transaction; None if there is none near its start, nor where its producer wrote last.

    Args:
        named: by its start offset or by its producer.
        timeout_s: seconds for all requests together; None as configured.

    Raises:
        ClientError: the partition could not be read.
    """
    place = TopicPartition(named.topic, named.partition)
    deadline = cluster.deadline(timeout_s)
    offsets = (await list_offsets(cluster, [place], deadline))[place]
    producer_id, epoch, found = named.producer_id, named.producer_epoch, None
    if named.start_offset is not None:
        if not offsets.log_start <= named.start_offset < offsets.high_watermark:
            return None
        first = await _first(cluster, place, named.start_offset, deadline)
        if first is None:
            return None
        producer_id, epoch = first.producer_id, None
        found = await _marker(cluster, place, producer_id, epoch, named.start_offset, offsets, deadline)
    if found is None and producer_id is not None:
        begin = await _last_written(cluster, place, producer_id, deadline)
        if begin is None:
            return None
        begin = max(begin, named.start_offset or offsets.log_start)
        found = await _marker(cluster, place, producer_id, epoch, begin, offsets, deadline)
    if found is None:
        return None
    assert found.control is not None
    return EndedTransaction(
        topic=place.topic,
        partition=place.partition,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        coordinator_epoch=-1 if found.control.coordinator_epoch is None else found.control.coordinator_epoch,
        start_offset=named.start_offset,
        marker=found.control.name,
        marker_offset=found.base_offset,
        last_stable_offset=offsets.last_stable_offset,
        high_watermark=offsets.high_watermark,
    )


async def _first(cluster: Cluster, place: TopicPartition, offset: int, deadline: Deadline) -> Batch | None:
    """The batch of transactional data that begins at an offset; None where none does."""
    batch = await first_batch(cluster, place, offset, offset + 1, deadline, lambda one: one.last_offset >= offset)
    data = batch is not None and batch.base_offset == offset and batch.transactional and not batch.is_control
    return batch if data else None


async def _marker(
    cluster: Cluster,
    place: TopicPartition,
    producer_id: int,
    epoch: int | None,
    begin: int,
    offsets: Offsets,
    deadline: Deadline,
) -> Batch | None:
    """The first marker of a producer (of an epoch, where one is given) near an offset."""

    def wanted(batch: Batch) -> bool:
        control = readable_control(batch)
        ends = control is not None and control.name in (ABORT, COMMIT) and batch.base_offset >= begin
        return ends and batch.producer_id == producer_id and epoch in (None, batch.producer_epoch)

    return await first_batch(cluster, place, begin, min(offsets.high_watermark, begin + _NEAR), deadline, wanted)


async def _last_written(cluster: Cluster, place: TopicPartition, producer_id: int, deadline: Deadline) -> int | None:
    """An offset not after a producer's last batch or marker; None where the leader does not remember the producer."""
    states = (await describe_producers(cluster, [place], deadline))[place]
    times = [one.last_timestamp for one in states if one.producer_id == producer_id]
    if not times or times[0] is None:
        return None
    return (await offsets_at(cluster, [place], times[0], deadline))[place]
