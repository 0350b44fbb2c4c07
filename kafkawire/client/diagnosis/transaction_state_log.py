"""Every transactional id, read from `__transaction_state` as a consumer does. This requires Read on the topic, and no
right on ids."""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import leaders
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Offsets, Results, TopicPartition
from kafkawire.client.rpc.fetch_batches import batches
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.transactions.coordinator.coordinator_log import IdLog, coordinator_records, registration
from kafkawire.transactions.facts import TRANSACTION_STATE, CoordinatorRecord, Place


async def read_ids(cluster: Cluster, partitions: Sequence[int], deadline: Deadline) -> Results[TopicPartition, IdLog]:
    """Each partition of `__transaction_state`, from its beginning up to the high watermark of now. `partitions`:
    numbers. `deadline`: for all partitions together."""
    places = [TopicPartition(TRANSACTION_STATE, number) for number in partitions]
    offsets = await list_offsets(cluster, places, deadline)

    async def ask(broker: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, IdLog | ClientError]:
        found: dict[TopicPartition, IdLog | ClientError] = {}
        for key in keys:
            try:
                found[key] = await _read(cluster, broker, key, offsets.values[key], deadline)
            except ClientError as error:
                found[key] = error
        return found

    logs = await drive(cluster, offsets.values, leaders(cluster, deadline), ask, deadline)
    return Results(logs.values, {**offsets.errors, **logs.errors})


async def _read(cluster: Cluster, broker: int, key: TopicPartition, to: Offsets, deadline: Deadline) -> IdLog:
    ids = IdLog()
    place = Place("", key.topic, key.partition)
    async for batch in batches(cluster, broker, key, to.log_start, to.high_watermark, deadline):
        for record in coordinator_records(batch):
            change = registration(place, record) if isinstance(record, CoordinatorRecord) else record
            if change is not None:
                ids.add(change)
    if ids.unreadable is not None:
        raise ClientError(f"{key}: record at offset {ids.unreadable.offset}: {ids.unreadable.problem}")
    return ids
