"""The story of a group or transactional id, from its coordinator's log on a live cluster (Read on its topic)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import PIECE, batches
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.offsets.copied_history import TOPICS
from kafkawire.offsets.subject_history import SubjectHistory
from kafkawire.rows import HistoryEvent, Subject
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from kafkawire.transactions.formatting import size


async def read_history(
    cluster: Cluster, subject: Subject, fetch_bytes: int, timeout_s: float | None = None
) -> AsyncGenerator[HistoryEvent, None]:
    """What the records of a group or a transactional id changed, in the order of its log.

    Args:
        fetch_bytes: of the partition, at most; what is behind is an event that says so.

    Raises:
        ClientError: the log could not be read.
    """
    kind = "group" if subject.group is not None else "transactional_id"
    name = subject.group if subject.group is not None else subject.transactional_id or ""
    topic, deadline = TOPICS[kind][0], cluster.deadline(timeout_s)
    metadata = await cluster.metadata([topic], deadline=deadline)
    for error in metadata.errors.values():
        raise error
    if not metadata.partitions:
        raise ClientError(f"topic {topic} has no partitions")
    place = TopicPartition(topic, partition_of_id(name, len(metadata.partitions)))
    offsets = (await list_offsets(cluster, [place], deadline))[place]
    leader = await leader_of(cluster, place, deadline)
    history, left = SubjectHistory(topic, place.partition, name), fetch_bytes
    start, end = offsets.log_start, offsets.high_watermark
    async with aclosing(batches(cluster, leader, place, start, end, deadline, min(max(left, 1), PIECE))) as found:
        async for batch in found:
            for event in history.take(batch):
                yield event
            left -= batch.size
            if left <= 0 and batch.last_offset + 1 < end:
                what = f"not read from here to offset {end - 1}: --fetch-bytes is {size(fetch_bytes)}"
                yield HistoryEvent(
                    topic=topic, partition=place.partition, offset=batch.last_offset + 1, timestamp=-1, what=what,
                    damaged=True,
                )  # fmt: skip
                return
