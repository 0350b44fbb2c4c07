"""The lag of a share group on a live cluster, counted from the records of its state, by the code for copies.

Where the records were not read to their end, the coordinator's answer bounds the count (KIP-1226, `lag_reading`).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.diagnosis.lag_reading import read_lags
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.diagnosis.share_reading import read_shares
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.configs import topic_configs
from kafkawire.client.rpc.fetch_batches import PIECE, batches
from kafkawire.client.rpc.share_offsets import ShareOffsets
from kafkawire.errors import KafkaWireError
from kafkawire.offsets.share_explain import ShareExplained
from kafkawire.offsets.share_lag import share_lag
from kafkawire.rows import Lag
from kafkawire.transactions.blocking.blockers import GroupView, Place
from kafkawire.transactions.impact.held_back import TOPIC_SETTINGS


async def read_share_lags(
    cluster: Cluster,
    view: GroupView,
    standing: ShareOffsets,
    search: Search,
    *,
    held_by: Mapping[Place, Sequence[str]],
    topics: Sequence[str] | None = None,
) -> tuple[Lag, ...]:
    """A row for each partition of a share group, in order.

    Args:
        view: the group. standing: what its coordinator answers.
        search: `fetch_bytes` limits what is fetched of a partition; 0: nothing.
        held_by: what holds the last stable offset of a partition.
        topics: only these.
    """
    deadline = cluster.deadline(search.timeout_s)
    exact: dict[Place, Lag] = {}
    counted, unread = await _counted(cluster, view.group, search, topics)
    names = {share.source.topic or "" for share in counted}
    configs = (await topic_configs(cluster, names, sorted(TOPIC_SETTINGS), deadline)).values if counted else {}
    for share in counted:
        place = (share.source.topic or "", share.source.key.partition)
        settings = configs.get(place[0])
        exact[place] = await _row(
            cluster,
            share,
            None if settings is None else {name: one.value or "" for name, one in settings.items()},
            held_by.get(place, ()),
            deadline,
        )
    left = view.partitions - exact.keys()
    unfinished = {(place.topic, place.partition): one.lag for place, one in standing.found.items()}
    bounded = await read_lags(
        cluster,
        view,
        fetch_bytes=search.fetch_bytes,
        timeout_s=search.timeout_s,
        held_by=held_by,
        topics=topics,
        unfinished=unfinished,
        places=left,
    )
    rows = [*exact.values(), *(replace(one, bounds=(*one.bounds, *unread)) if one.bounds else one for one in bounded)]
    return tuple(sorted(rows, key=lambda one: (one.topic, one.partition)))


async def _counted(
    cluster: Cluster, group: str, search: Search, topics: Sequence[str] | None
) -> tuple[list[ShareExplained], list[str]]:
    """The share partitions whose state was read to its end, and a sentence where none could be read."""
    if not search.fetch_bytes:
        return [], []
    try:
        found, _ = await read_shares(
            cluster, group, topics=topics, fetch_bytes=search.fetch_bytes, timeout_s=search.timeout_s
        )
    except ClientError as error:  # what the coordinator answers is left
        return [], [f"The records of the group's state could not be read: {error}."]
    return [one for one in found if one.bounds is not None and not one.source.problems and one.current], []


async def _row(
    cluster: Cluster,
    share: ShareExplained,
    settings: Mapping[str, str] | None,
    held_by: Sequence[str],
    deadline: Deadline,
) -> Lag:
    now = int(time.time() * 1000)
    first: list[int] = []
    row = share_lag(share, as_of=now, settings=settings, oldest=first.append, held_by=held_by)
    if not first:
        return row
    place = TopicPartition(row.topic, row.partition)
    timestamp, problem = await _timestamp(cluster, place, first[0], row.high_watermark or 0, deadline)
    row = share_lag(share, as_of=now, settings=settings, oldest=lambda offset: timestamp, held_by=held_by)
    return row if problem is None else replace(row, problems=(*row.problems, problem))


async def _timestamp(
    cluster: Cluster, place: TopicPartition, offset: int, high: int, deadline: Deadline
) -> tuple[int | None, str | None]:
    """The timestamp of the first record from an offset on; and a sentence where it could not be read."""
    try:
        leader = await leader_of(cluster, place, deadline)
        async with aclosing(batches(cluster, leader, place, offset, high, deadline, PIECE)) as found:
            async for batch in found:
                for record in () if batch.is_control else batch.records:
                    if record.offset >= offset:
                        return record.timestamp, None
    except KafkaWireError as error:
        return None, f"the timestamp of the record at offset {offset} could not be read: {error}"
    return None, f"no record at offset {offset} or later was read: its timestamp is not known"
