"""`__transaction_state`, read as a consumer reads it: every transactional id, whatever rights on ids hide.

It needs Read on that topic, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkawire import records
from kafkawire.client.deadline import Deadline
from kafkawire.client.driver import drive
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.offsets import list_offsets
from kafkawire.client.results import Offsets, Results, TopicPartition
from kafkawire.client.rights import missing_right
from kafkawire.client.routing import leaders
from kafkawire.messages import FetchRequest
from kafkawire.messages.fetch_request import FetchPartition, FetchTopic
from kafkawire.transactions.coordinator import IdLog, coordinator_records, registration
from kafkawire.transactions.facts import TRANSACTION_STATE, CoordinatorRecord, Place

if TYPE_CHECKING:
    from kafkawire.client.cluster import Cluster

_LAST_BY_NAME = 12  # later versions name topics by their ids
_PIECE = 8 << 20
_PAUSE_S = 0.1
_TRUNCATED = "truncated"  # a response may end in the middle of a batch


async def read_ids(cluster: Cluster, partitions: Sequence[int], deadline: Deadline) -> Results[TopicPartition, IdLog]:
    """Each partition of `__transaction_state`, from its beginning up to the high watermark of now."""
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
    offset = to.log_start
    while offset < to.high_watermark:
        data = await _fetch(cluster, broker, key, offset, deadline)
        if not data and await deadline.sleep(_PAUSE_S):
            continue  # a fetch quota: such answers are empty
        before = offset
        for batch in records.read(data):
            if not isinstance(batch, records.Batch):
                if batch.reason != _TRUNCATED:
                    raise ClientError(f"{key}: after offset {offset}: {batch.detail}")
                continue
            offset = max(offset, batch.last_offset + 1)
            for record in coordinator_records(batch):
                said = registration(place, record) if isinstance(record, CoordinatorRecord) else record
                if said is not None:
                    ids.add(said)
        if offset == before:
            raise ClientError(f"{key}: nothing could be read at offset {offset}, below {to.high_watermark}")
    if ids.unreadable is not None:
        raise ClientError(f"{key}: record at offset {ids.unreadable.offset}: {ids.unreadable.problem}")
    return ids


async def _fetch(cluster: Cluster, broker: int, key: TopicPartition, offset: int, deadline: Deadline) -> bytes:
    partition = FetchPartition(partition=key.partition, fetch_offset=offset, partition_max_bytes=_PIECE)
    body = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=_PIECE,
        topics=(FetchTopic(topic=key.topic, partitions=(partition,)),),
    )
    answer = await cluster.ask(broker, body, deadline, at_most=_LAST_BY_NAME, at_least=4)
    if answer.error_code:
        raise BrokerError(answer.error_code, f"partition {key}")
    for topic in answer.responses:
        for one in topic.partitions:
            if one.error_code:
                right = missing_right("Fetch", one.error_code, key.topic)
                raise BrokerError(one.error_code, f"partition {key}", right=right)
            return bytes(one.records or b"")
    return b""
