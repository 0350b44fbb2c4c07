"""The offsets of one group, and those that it cannot fetch (OffsetFetch with `require_stable`).

Brokers answer UNSTABLE_OFFSET_COMMIT for an offset that is in an open transaction. To a request for all of a group's
offsets they do so only for partitions that have a committed offset, too; a partition whose only offset is in the
transaction is left out. So the partitions that matter are named.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import group_coordinators
from kafkawire.client.errors import UNSTABLE_OFFSET_COMMIT, BrokerError, ClientError
from kafkawire.client.results import TopicPartition, by_topic
from kafkawire.messages import OffsetFetchRequest, OffsetFetchResponse
from kafkawire.messages.offset_fetch_request import OffsetFetchRequestTopic

_STABLE, _LAST_OF_ONE_GROUP = 7, 7  # versions: the first with "require stable", the last with one group


class GroupOffsets(msgspec.Struct, frozen=True):
    """A group's committed offsets.

    Attributes:
        committed: by partition.
        unstable: partitions whose offset is in an open transaction (KIP-447): fetching it fails, and a consumer of the
            group cannot start there.
        refused: partitions whose offset the coordinator does not return for another reason, with the error.
    """

    committed: dict[TopicPartition, int]
    unstable: tuple[TopicPartition, ...] = ()
    refused: dict[TopicPartition, ClientError] = {}

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted({*self.committed, *self.unstable, *self.refused})


async def group_offsets(
    cluster: Cluster, group: str, assigned: Collection[TopicPartition], deadline: Deadline
) -> GroupOffsets:
    """The offsets that a group has committed, of all topics that the principal may Describe.

    Args:
        assigned: partitions that are asked for by name, beside all with a committed offset.
        deadline: of all attempts together.

    Raises:
        ClientError: they could not be read (it needs Describe on the group).
    """
    listed = await _fetch(cluster, group, None, deadline)
    left = sorted(set(assigned) - set(listed.partitions))
    if not left:
        return listed
    named = await _fetch(cluster, group, left, deadline)
    return GroupOffsets(
        listed.committed | named.committed,
        tuple(sorted({*listed.unstable, *named.unstable})),
        listed.refused | named.refused,
    )


async def _fetch(
    cluster: Cluster, group: str, places: Sequence[TopicPartition] | None, deadline: Deadline
) -> GroupOffsets:
    topics = None if places is None else tuple(
        OffsetFetchRequestTopic(name=topic, partition_indexes=tuple(numbers))
        for topic, numbers in by_topic(places).items()
    )  # fmt: skip
    body = OffsetFetchRequest(group_id=group, topics=topics, require_stable=True)

    async def ask(broker: int, keys: Sequence[str]) -> dict[str, GroupOffsets | ClientError]:
        answer = await cluster.ask_broker(broker, body, deadline, at_least=_STABLE, at_most=_LAST_OF_ONE_GROUP)
        if answer.error_code:
            return {group: BrokerError.answering("OffsetFetch", answer.error_code, f"offsets of group {group}", group)}
        return {group: _read(answer)}

    return (await drive(cluster, [group], group_coordinators(cluster, deadline), ask, deadline))[group]


def _read(answer: OffsetFetchResponse) -> GroupOffsets:
    committed: dict[TopicPartition, int] = {}
    unstable: list[TopicPartition] = []
    refused: dict[TopicPartition, ClientError] = {}
    for topic in answer.topics:
        for one in topic.partitions:
            place = TopicPartition(topic.name, one.partition_index)
            if one.error_code == UNSTABLE_OFFSET_COMMIT:
                unstable.append(place)
            elif one.error_code:
                refused[place] = BrokerError.answering("OffsetFetch", one.error_code, f"partition {place}", topic.name)
            elif one.committed_offset >= 0:
                committed[place] = one.committed_offset
    return GroupOffsets(committed, tuple(sorted(unstable)), refused)
