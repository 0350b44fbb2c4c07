"""A share group on a live cluster: the records of its state, beside what its partitions hold.

Needs Describe on the group, and Read on `__share_group_state` and on the topics. ReadShareGroupState, the request with
which leaders load a state, is never sent: the coordinator stores the leader epoch of the request, and may then fence
the real leader.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import aclosing

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.errors import ClientError
from kafkawire.client.results import Offsets, TopicPartition
from kafkawire.client.rpc.configs import broker_configs, group_configs
from kafkawire.client.rpc.fetch_batches import PIECE, batches
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.share_offsets import ShareOffset, share_offsets
from kafkawire.errors import KafkaWireError, RecordError
from kafkawire.offsets.dead_letters import Letter, letters_of
from kafkawire.offsets.live_holds import LiveHolds
from kafkawire.offsets.share_copies import STATE_TOPIC, ShareSource, histories
from kafkawire.offsets.share_explain import PartitionBounds, ShareExplained
from kafkawire.offsets.share_settings import BROKER_LIMIT, DEAD_LETTERS, ISOLATION, LIMIT, ShareSettings, of_properties
from kafkawire.records import Batch
from kafkawire.records.internal_topics import decode_key, decode_value
from kafkawire.share_groups.fold import SharePartition, ShareRecord
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from kafkawire.transactions.formatting import size
from kafkawire.wire.json_form import uuid_text

#: Why a copy that is not in the dead-letter topic proves nothing.
_OTHER_LETTERS = "whether the group had another dead-letter topic, or copies were deleted from it, is not known"


class NothingBegunError(ClientError):
    """A share group has not started in any partition, so that it has no state."""


async def read_shares(
    cluster: Cluster,
    group: str,
    *,
    topic: str | None = None,
    topics: Collection[str] | None = None,
    partition: int | None = None,
    limit: int | None = None,
    dead_letter_topic: str | None = None,
    fetch_bytes: int,
    timeout_s: float | None = None,
) -> tuple[list[ShareExplained], list[str]]:
    """The share partitions of a group; and why there may be more, a sentence each.

    Args:
        topic, partition: only these. topics: only those of these, too.
        limit, dead_letter_topic: of the group, in place of its properties.
        fetch_bytes: of each partition, at most; what follows is unread.
        timeout_s: seconds for all of it; None as configured.

    Raises:
        NothingBegunError: there is nothing to read. ClientError: the group, or its state, could not be read.
    """
    deadline = cluster.deadline(timeout_s)
    standing = await share_offsets(cluster, group, deadline)
    gaps = [f"{place}: {error}" for place, error in sorted(standing.refused.items())]
    wanted = {
        place: one
        for place, one in sorted(standing.found.items())
        if topic in (None, place.topic)
        and partition in (None, place.partition)
        and (topics is None or place.topic in topics)
    }
    if not wanted:
        why = f": {gaps[0]}" if gaps else ""
        kind = ClientError if gaps else NothingBegunError
        raise kind(f"group {group} has begun in no partition that was asked about{why}")
    settings = await _settings(cluster, group, limit, dead_letter_topic, deadline)
    metadata = await cluster.metadata([STATE_TOPIC], deadline=deadline)
    for error in metadata.errors.values():
        raise error
    numbers = {
        place: partition_of_id(coordinator_key(group, place, one), len(metadata.partitions))
        for place, one in wanted.items()
    }
    states = {
        number: await _state(cluster, number, group, fetch_bytes, deadline) for number in sorted({*numbers.values()})
    }
    offsets = await list_offsets(cluster, wanted, deadline)
    letters: list[Letter] = []
    unread: list[str] = []
    if settings.dead_letter_topic is not None:
        letters, unread = await _letters(cluster, settings.dead_letter_topic, group, fetch_bytes, deadline)
    found = []
    for place, one in wanted.items():
        key = SharePartition(group, one.topic_id, place.partition)
        records, problems, from_start = states[numbers[place]]
        history = histories((r for r in records if r.key == key), group, from_start=from_start).get(key)
        if history is None:
            gaps.append(f"{place}: no record of {STATE_TOPIC}-{numbers[place]} that was read is of group {group}")
            continue
        source = ShareSource(
            key=key,
            topic=place.topic,
            gone=False,
            path=None,
            number=numbers[place],
            records=_Again(records),
            from_start=from_start,
            history=history,
            problems=tuple(problems),
        )
        three = offsets.values.get(place)
        more = list(unread)
        if three is None:
            more.append(str(offsets.errors.get(place)))
        holds = LiveHolds(0 if three is None else three.log_start)
        if three is not None:
            more += await _read(cluster, place, three, holds, fetch_bytes, deadline)
        state = history.state
        current = state is None or state.start_offset == one.start
        if state is not None and not current:
            more.append(
                f"{place}: the start offset by the records that were read is {state.start_offset}, and the coordinator "
                f"answers {one.start}: the state has changed in between, or not all of it was read"
            )
        bounds = None
        if three is not None:
            bounds = PartitionBounds(three.log_start, three.last_stable_offset, three.high_watermark)
        found.append(
            ShareExplained(
                source,
                settings,
                bounds,
                holds.held,
                lambda: letters,
                more,
                letters_doubt=_OTHER_LETTERS,
                current=current,
            )
        )
    return found, gaps


class _Again:
    """The records that were read, anew each time."""

    def __init__(self, records: Sequence[ShareRecord]) -> None:
        self._records = records

    def __call__(self) -> Iterator[ShareRecord]:
        return iter(self._records)


def coordinator_key(group: str, place: TopicPartition, one: ShareOffset) -> str:
    """The key that chooses the partition of the state (Kafka's `SharePartitionKey.asCoordinatorKey`)."""
    return f"{group}:{uuid_text(one.topic_id)}:{place.partition}"


async def _settings(
    cluster: Cluster, group: str, limit: int | None, dead_letter_topic: str | None, deadline: Deadline
) -> ShareSettings:
    try:
        found = await group_configs(cluster, group, (LIMIT, ISOLATION, DEAD_LETTERS), deadline)
    except ClientError as error:
        return ShareSettings(limit, None, dead_letter_topic, (f"the group's properties: {error}",))
    values = {name: one.value for name, one in found.items() if one.value is not None}
    brokers: dict[str, str] = {}
    if LIMIT not in values:  # before Kafka 4.4 it is the brokers' alone
        known = await cluster.known_brokers(deadline)
        of_brokers = await broker_configs(cluster, [min(known)], [BROKER_LIMIT], deadline)
        for of_broker in of_brokers.values.values():
            brokers |= {name: one.value for name, one in of_broker.items() if one.value is not None}
    now = of_properties(values, brokers, limit, dead_letter_topic, complete=ISOLATION in found)
    return now._replace(limit_changed=True, isolation_changed=True, letters_changed=True)


async def _state(
    cluster: Cluster, number: int, group: str, fetch_bytes: int, deadline: Deadline
) -> tuple[list[ShareRecord], list[str], bool]:
    """The records of a partition of the state that are of a group; what could not be read; whether none was removed."""
    place, found, problems = TopicPartition(STATE_TOPIC, number), list[ShareRecord](), list[str]()
    three = (await list_offsets(cluster, [place], deadline))[place]
    async for batch in _batches(cluster, place, three, fetch_bytes, deadline, problems):
        try:
            for record in () if batch.is_control else batch.records:
                if record.key is None or group.encode("utf-8", "surrogateescape") not in record.key:
                    continue
                key = decode_key(STATE_TOPIC, record.key)
                value = decode_value(STATE_TOPIC, record.key, record.value)
                message = None if value is None else value.message
                read = None
                if key is not None and key.message is not None and (value is None or message is not None):
                    read = ShareRecord.of(record.offset, record.timestamp, key.message, message)
                if read is None:
                    problems.append(f"{place}: offset {record.offset}: no state of a share group")
                elif read.key.group == group:
                    found.append(read)
        except RecordError as error:
            problems.append(f"{place}: offset {batch.base_offset}: {error}")
    return found, problems, not three.log_start


async def _letters(
    cluster: Cluster, topic: str, group: str, fetch_bytes: int, deadline: Deadline
) -> tuple[list[Letter], list[str]]:
    """The copies of a group's records in its dead-letter topic, and what of it could not be read."""
    found, problems = list[Letter](), list[str]()
    metadata = await cluster.metadata([topic], deadline=deadline)
    problems += [f"the dead-letter topic {topic}: {error}" for error in metadata.errors.values()]
    places = sorted(metadata.partitions)
    offsets = await list_offsets(cluster, places, deadline)
    for place in places:
        three = offsets.values.get(place)
        if three is None:
            problems.append(f"the dead-letter topic: {offsets.errors.get(place)}")
            continue
        async for batch in _batches(cluster, place, three, fetch_bytes, deadline, problems):
            try:
                found += (one for one in letters_of(batch, place.partition) if one.group == group)
            except RecordError as error:
                problems.append(f"{place}: offset {batch.base_offset}: {error}")
    return found, problems


async def _read(
    cluster: Cluster, place: TopicPartition, three: Offsets, holds: LiveHolds, fetch_bytes: int, deadline: Deadline
) -> list[str]:
    """Takes what a partition holds; returns what could not be read."""
    problems: list[str] = []
    async for batch in _batches(cluster, place, three, fetch_bytes, deadline, problems):
        holds.take(batch)
    return problems


async def _batches(
    cluster: Cluster, place: TopicPartition, three: Offsets, fetch_bytes: int, deadline: Deadline, problems: list[str]
) -> AsyncGenerator[Batch, None]:
    """The batches of a partition, as far as the budget goes; what is not read is added to `problems`."""
    start, end, left, reached = three.log_start, three.high_watermark, fetch_bytes, three.log_start
    try:
        leader = await leader_of(cluster, place, deadline)
        async with aclosing(batches(cluster, leader, place, start, end, deadline, min(max(left, 1), PIECE))) as walk:
            async for batch in walk:
                yield batch
                left, reached = left - batch.size, batch.last_offset + 1
                if left <= 0 and reached < end:
                    problems.append(
                        f"{place}: read up to offset {reached} of {end}: --fetch-bytes is {size(fetch_bytes)}"
                    )
                    return
    except KafkaWireError as error:
        problems.append(f"{place}: read up to offset {reached} of {end}: {error}")
