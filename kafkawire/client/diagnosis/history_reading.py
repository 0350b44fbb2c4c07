"""The story of a group or transactional id, from its coordinator's log on a live cluster (Read on its topic)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.diagnosis.share_reading import coordinator_key
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import PIECE, batches
from kafkawire.client.rpc.group_assignments import SHARE, group_assignment
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.share_offsets import share_offsets
from kafkawire.offsets.copied_history import TOPICS
from kafkawire.offsets.share_copies import STATE_TOPIC
from kafkawire.offsets.subject_history import SubjectHistory
from kafkawire.rows import HistoryEvent, Subject
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from kafkawire.transactions.formatting import size
from kafkawire.wire.json_form import uuid_text


async def read_history(
    cluster: Cluster, subject: Subject, fetch_bytes: int, timeout_s: float | None = None
) -> AsyncGenerator[HistoryEvent, None]:
    """What the records of a group or a transactional id changed, in the order of its log; of a share group, then those
    of its state.

    Args:
        fetch_bytes: of each partition, at most; what follows is named by an event.

    Raises:
        ClientError: the log could not be read.
    """
    kind = "group" if subject.group is not None else "transactional_id"
    name = subject.group if subject.group is not None else subject.transactional_id or ""
    topic, deadline = TOPICS[kind][0], cluster.deadline(timeout_s)
    read = [TopicPartition(topic, partition_of_id(name, await _partitions(cluster, topic, deadline)))]
    names: dict[str, str] = {}
    if subject.group is not None:
        group = await group_assignment(cluster, name, deadline)
        if group is not None and group.kind == SHARE:
            states = await share_offsets(cluster, name, deadline)
            names = {uuid_text(one.topic_id): place.topic for place, one in states.found.items()}
            count = await _partitions(cluster, STATE_TOPIC, deadline) if states.found else 0
            keys = (coordinator_key(name, place, one) for place, one in states.found.items())
            read += [TopicPartition(STATE_TOPIC, n) for n in sorted({partition_of_id(key, count) for key in keys})]
    for place in read:
        history = SubjectHistory(place.topic, place.partition, name, names.get)
        async with aclosing(_of_partition(cluster, place, history, fetch_bytes, deadline)) as found:
            async for event in found:
                yield event


async def _partitions(cluster: Cluster, topic: str, deadline: Deadline) -> int:
    metadata = await cluster.metadata([topic], deadline=deadline)
    for error in metadata.errors.values():
        raise error
    if not metadata.partitions:
        raise ClientError(f"topic {topic} has no partitions")
    return len(metadata.partitions)


async def _of_partition(
    cluster: Cluster, place: TopicPartition, history: SubjectHistory, fetch_bytes: int, deadline: Deadline
) -> AsyncGenerator[HistoryEvent, None]:
    offsets = (await list_offsets(cluster, [place], deadline))[place]
    leader = await leader_of(cluster, place, deadline)
    left, start, end = fetch_bytes, offsets.log_start, offsets.high_watermark
    async with aclosing(batches(cluster, leader, place, start, end, deadline, min(max(left, 1), PIECE))) as found:
        async for batch in found:
            for event in history.take(batch):
                yield event
            left -= batch.size
            if left <= 0 and batch.last_offset + 1 < end:
                what = f"not read from here to offset {end - 1}: --fetch-bytes is {size(fetch_bytes)}"
                yield HistoryEvent(
                    topic=place.topic, partition=place.partition, offset=batch.last_offset + 1, timestamp=-1,
                    what=what, damaged=True,
                )  # fmt: skip
                return
