"""The offsets of a group that are in open transactions, read from the partition of `__consumer_offsets` that keeps
them.

A broker answers that an offset is in a transaction, but not which producer's. The records of the transaction name the
group and the partition, also for a group without members and without a committed offset, whose partitions no broker
lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import aclosing

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import PIECE, batches
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.errors import KafkaWireError
from kafkawire.messages import OffsetCommitKey
from kafkawire.records import Batch
from kafkawire.records.internal_topics import decode_key

CONSUMER_OFFSETS = "__consumer_offsets"


class PendingOffsets(msgspec.Struct, frozen=True):
    """Partitions of a group by the producer id whose open transaction holds their offset. `problem`: why there may be
    more; None where all was read."""

    by_producer: dict[int, frozenset[TopicPartition]] = {}
    problem: str | None = None

    @property
    def partitions(self) -> set[TopicPartition]:
        return {place for places in self.by_producer.values() for place in places}


async def read_pending(cluster: Cluster, group: str, own: TopicPartition, search: Search) -> PendingOffsets:
    """The offsets of a group that open transactions hold now.

    Args:
        own: the partition of `__consumer_offsets` that keeps its offsets.
        search: `fetch_bytes` limits what is fetched of the partition (Read on the topic), from its first open
            transaction on.
    """
    deadline = cluster.deadline(search.timeout_s)
    found: dict[int, set[TopicPartition]] = {}
    left = search.fetch_bytes
    try:
        states = (await describe_producers(cluster, [own], deadline))[own]
        starts = {one.producer_id: start for one in states if (start := one.transaction_start_offset) is not None}
        if not starts:
            return PendingOffsets()
        if not left:
            return PendingOffsets(problem=f"{own} was not read: nothing is to be fetched")
        offsets = (await list_offsets(cluster, [own], deadline))[own]
        begin, end = max(min(starts.values()), offsets.log_start), offsets.high_watermark
        leader = await leader_of(cluster, own, deadline)
        async with aclosing(batches(cluster, leader, own, begin, end, deadline, min(left, PIECE))) as walk:
            async for batch in walk:
                start = starts.get(batch.producer_id)
                if start is not None and batch.transactional and batch.last_offset >= start:
                    if batch.control is not None:
                        found.pop(batch.producer_id, None)  # it has ended meanwhile
                    else:
                        found.setdefault(batch.producer_id, set()).update(_places(group, batch))
                left -= batch.size
                if left <= 0 and batch.last_offset + 1 < end:
                    problem = f"{own} was read up to offset {batch.last_offset} of {end - 1}"
                    return _pending(found, problem)
    except ClientError as error:
        return _pending(found, f"{own} could not be read: {error}")
    except KafkaWireError as error:
        return _pending(found, f"{own} holds what could not be decoded: {error}")
    return _pending(found, None)


def _pending(found: dict[int, set[TopicPartition]], problem: str | None) -> PendingOffsets:
    return PendingOffsets({producer: frozenset(places) for producer, places in found.items() if places}, problem)


def _places(group: str, batch: Batch) -> Iterator[TopicPartition]:
    for record in batch.records:
        key = decode_key(CONSUMER_OFFSETS, record.key)
        if key is None or key.message is None:
            raise ClientError(f"the key at offset {record.offset}: {'null' if key is None else key.problem}")
        if isinstance(key.message, OffsetCommitKey) and key.message.group == group:
            yield TopicPartition(key.message.topic, key.message.partition)
