"""What blocks a consumer group: the partitions where it has offsets, and the one that its offsets are kept in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.deadline import Deadline
from kafkawire.client.driver import drive
from kafkawire.client.errors import UNSTABLE_OFFSET_COMMIT, BrokerError, ClientError
from kafkawire.client.hanging import Search, find_hanging
from kafkawire.client.results import TopicPartition
from kafkawire.client.rights import missing_right
from kafkawire.client.routing import group_coordinators
from kafkawire.messages import OffsetFetchRequest
from kafkawire.transactions.model import partition_of_id
from kafkawire.transactions.wording import count

if TYPE_CHECKING:
    from kafkawire.client.admin import Admin
    from kafkawire.client.cluster import Cluster

CONSUMER_OFFSETS = "__consumer_offsets"
_STABLE, _LAST_OF_ONE_GROUP = 7, 7  # versions: "require stable" came, and from 8 on there are many groups


class GroupOffsets(msgspec.Struct, frozen=True):
    """A group's committed offsets.

    Attributes:
        committed: by partition.
        unstable: partitions whose offset is in a transaction that is open (KIP-447): fetching it fails, and a consumer
            of the group cannot start there.
    """

    committed: dict[TopicPartition, int]
    unstable: tuple[TopicPartition, ...]

    @property
    def partitions(self) -> list[TopicPartition]:
        return sorted({*self.committed, *self.unstable})


async def group_offsets(cluster: Cluster, group: str, deadline: Deadline) -> GroupOffsets:
    """The offsets that a group has committed, of all topics that the principal may Describe.

    Raises:
        ClientError: they could not be had (Describe on the group).
    """
    body = OffsetFetchRequest(group_id=group, topics=None, require_stable=True)

    async def ask(broker: int, keys: Sequence[str]) -> dict[str, GroupOffsets | ClientError]:
        answer = await cluster.ask(broker, body, deadline, at_least=_STABLE, at_most=_LAST_OF_ONE_GROUP)
        if answer.error_code:
            right = missing_right("OffsetFetch", answer.error_code, group)
            return {group: BrokerError(answer.error_code, f"offsets of group {group}", right=right)}
        committed, unstable = {}, []
        for topic in answer.topics:
            for one in topic.partitions:
                place = TopicPartition(topic.name, one.partition_index)
                if one.error_code == UNSTABLE_OFFSET_COMMIT:
                    unstable.append(place)
                elif not one.error_code and one.committed_offset >= 0:
                    committed[place] = one.committed_offset
        return {group: GroupOffsets(committed, tuple(unstable))}

    return (await drive(cluster, [group], group_coordinators(cluster, deadline), ask, deadline))[group]


async def find_blocking(
    admin: Admin, group: str, search: Search, progress: Callable[[int, int], None] | None = None
) -> rows.Audit:
    """`find_hanging` where a group has offsets; each finding says what the group waits for."""
    cluster = admin.cluster
    deadline = cluster.deadline(search.timeout_s)
    offsets = await group_offsets(cluster, group, deadline)
    if not offsets.partitions:
        raise ClientError(f"group {group} has no committed offsets")
    metadata = await cluster.metadata([CONSUMER_OFFSETS], deadline=deadline)
    places = list(offsets.partitions)
    own = None
    if metadata.partitions:
        own = TopicPartition(CONSUMER_OFFSETS, partition_of_id(group, len(metadata.partitions)))
        places.append(own)
    found = await find_hanging(admin, replace(search, places=tuple(places)), progress)
    problem = metadata.errors.get(CONSUMER_OFFSETS)
    if problem is not None:
        gaps = (*found.read.gaps, f"where the group's own offsets are kept: {problem}")
        found = replace(found, read=replace(found.read, gaps=gaps, complete=False))
    findings = tuple(
        replace(finding, evidence=(*finding.evidence, *_waits(group, finding, offsets, own)))
        for finding in found.findings
    )
    return replace(found, findings=findings)


def _waits(group: str, finding: rows.Finding, offsets: GroupOffsets, own: TopicPartition | None) -> list[str]:
    place = TopicPartition(finding.topic, finding.partition)
    if place == own:
        if not offsets.unstable:
            return [f"Group {group!r} keeps its offsets here; none of them is in an open transaction."]
        names = ", ".join(map(str, offsets.unstable))
        return [
            f"Group {group!r} keeps its offsets here: fetching them fails for {names} (UNSTABLE_OFFSET_COMMIT) until "
            "their transaction has ended."
        ]
    stable, high, committed = finding.last_stable_offset, finding.high_watermark, offsets.committed.get(place)
    if not finding.blocked or stable is None or high is None or committed is None:
        return []
    behind = count(high - stable, "offset")
    who = f"Group {group!r}, if it reads committed,"
    if committed >= stable:
        return [f"{who} waits at offset {stable}, {behind} below the high watermark."]
    return [f"{who} gets from {committed} to offset {stable} and then waits, {behind} below the high watermark."]
