"""Offsets of partitions: log start, last stable offset, high watermark (ListOffsets at the leader)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import leaders
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import Offsets, Results, TopicPartition, by_topic
from kafkawire.messages import ListOffsetsRequest, ListOffsetsResponse
from kafkawire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from kafkawire.messages.list_offsets_response import ListOffsetsPartitionResponse

_EARLIEST, _LATEST = -2, -1
#: Timestamps of ListOffsets for tiered storage: the first offset on the leader's disk (KIP-405), the last in the tier
#: (KIP-1005).
_LOCAL, _TIERED = -4, -5
#: The record with the newest time, and that time (KIP-734).
_NEWEST = -3
_WITH_NEWEST = 7  # the version of ListOffsets that brought it
_WITH_TIERED = 9  # the version of ListOffsets that brought the latter
_UNCOMMITTED, _COMMITTED = 0, 1
_ISOLATION = 2  # the version that brought the isolation level
_CONSUMER = -1  # replica id

_QUESTIONS = ((_EARLIEST, _UNCOMMITTED), (_LATEST, _COMMITTED), (_LATEST, _UNCOMMITTED))


async def list_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Results[TopicPartition, Offsets]:
    """The three offsets of each partition. `partitions`: each has offsets or an error. `deadline`: of the whole call,
    with its retries."""

    async def ask(broker: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, Offsets | ClientError]:
        # In this order: the high watermark is never older than the last stable offset it is compared with.
        starts, stable, high = await asyncio.gather(
            *(_ask(cluster, broker, keys, timestamp, isolation, deadline) for timestamp, isolation in _QUESTIONS)
        )
        found: dict[TopicPartition, Offsets | ClientError] = {}
        for key in keys:
            three = starts.get(key), stable.get(key), high.get(key)
            error = next((one for one in three if isinstance(one, ClientError)), None)
            if error is not None:
                found[key] = error
                continue
            start, end, watermark = (one if isinstance(one, int) else -1 for one in three)
            found[key] = Offsets(log_start=start, last_stable_offset=end, high_watermark=max(watermark, end))
        return found

    return await drive(cluster, partitions, leaders(cluster, deadline), ask, deadline)


async def offsets_at(
    cluster: Cluster, partitions: Iterable[TopicPartition], timestamp: int, deadline: Deadline
) -> Results[TopicPartition, int | None]:
    """The first offset of each partition with a timestamp of `timestamp` (epoch milliseconds) or later; None if there
    is none. `partitions`: each has an offset, None, or an error. `deadline`: of the whole call, with its retries."""

    async def ask(broker: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, int | ClientError]:
        return await _ask(cluster, broker, keys, timestamp, _UNCOMMITTED, deadline)

    found = await drive(cluster, partitions, leaders(cluster, deadline), ask, deadline)
    return Results({place: at if at >= 0 else None for place, at in found.values.items()}, found.errors)


async def tier_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], deadline: Deadline
) -> Results[TopicPartition, tuple[int, int]]:
    """The last offset of each partition that its tier has, -1 for none, and the first on its leader's disk.

    Args:
        partitions: of topics with remote.storage.enable; each has offsets or an error.
        deadline: of the whole call, with its retries.
    """

    async def ask(broker: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int] | ClientError]:
        tiered, local = [
            await _ask(cluster, broker, keys, timestamp, _UNCOMMITTED, deadline, _WITH_TIERED)
            for timestamp in (_TIERED, _LOCAL)
        ]
        found: dict[TopicPartition, tuple[int, int] | ClientError] = {}
        for key in keys:
            last, first = tiered.get(key, -1), local.get(key, -1)
            if isinstance(last, int) and isinstance(first, int):
                found[key] = last, first
            else:
                found[key] = next(one for one in (last, first) if isinstance(one, ClientError))
        return found

    return await drive(cluster, partitions, leaders(cluster, deadline), ask, deadline)


class NewestTime(msgspec.Struct, frozen=True):
    """The newest time of a partition's records, epoch milliseconds, -1 where it has none; the offset and the leader
    epoch of that record."""

    time: int
    offset: int
    leader_epoch: int


async def newest_times(
    cluster: Cluster, broker: int, partitions: Sequence[TopicPartition], deadline: Deadline
) -> Results[TopicPartition, NewestTime]:
    """The newest time of each partition, by one broker, which is asked once. Raises ClientError: it does not answer, or
    not this question (Kafka before 3.0)."""
    found: dict[TopicPartition, NewestTime] = {}
    errors: dict[TopicPartition, ClientError] = {}
    if partitions:
        body = _request(partitions, _NEWEST, _UNCOMMITTED)
        answer = await cluster.ask_broker(broker, body, deadline, at_least=_WITH_NEWEST)
        for key, one in _answered(answer):
            if one.error_code:
                errors[key] = BrokerError.answering("ListOffsets", one.error_code, f"partition {key}", key.topic)
            else:
                found[key] = NewestTime(one.timestamp, one.offset, one.leader_epoch)
    return Results(found, errors)


async def _ask(
    cluster: Cluster,
    broker: int,
    keys: Sequence[TopicPartition],
    timestamp: int,
    isolation: int,
    deadline: Deadline,
    at_least: int = _ISOLATION,
) -> dict[TopicPartition, int | ClientError]:
    body = _request(keys, timestamp, isolation)
    answer = await cluster.ask_broker(broker, body, deadline, at_least=at_least)
    found: dict[TopicPartition, int | ClientError] = {}
    for key, one in _answered(answer):
        code = one.error_code
        error = BrokerError.answering("ListOffsets", code, f"partition {key}", key.topic)
        found[key] = error if code else one.offset
    return found


def _request(keys: Iterable[TopicPartition], timestamp: int, isolation: int) -> ListOffsetsRequest:
    topics = tuple(
        ListOffsetsTopic(
            name=topic,
            partitions=tuple(ListOffsetsPartition(partition_index=number, timestamp=timestamp) for number in numbers),
        )
        for topic, numbers in by_topic(keys).items()
    )
    return ListOffsetsRequest(replica_id=_CONSUMER, isolation_level=isolation, topics=topics)


def _answered(answer: ListOffsetsResponse) -> Iterator[tuple[TopicPartition, ListOffsetsPartitionResponse]]:
    for topic in answer.topics:
        for one in topic.partitions:
            yield TopicPartition(topic.name, one.partition_index), one
