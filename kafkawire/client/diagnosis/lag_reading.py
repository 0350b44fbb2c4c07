"""The lag of a group on a live cluster, from its offsets and a bounded number of bytes of each partition after them.

Partitions are fetched as by a read_uncommitted consumer: the markers in the data show what a read_committed one gets.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import aclosing

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.configs import topic_configs
from kafkawire.client.rpc.fetch_batches import PIECE, batches
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.errors import KafkaWireError
from kafkawire.offsets.lag_count import LagCounter, MarkerOutcomes
from kafkawire.offsets.lag_row import Standing, unread_row
from kafkawire.rows import Lag
from kafkawire.transactions.blocking.blockers import GroupView, Place
from kafkawire.transactions.formatting import size
from kafkawire.transactions.impact.held_back import TOPIC_SETTINGS

#: Bytes that are fetched of a partition.
FETCH_BYTES = 8 << 20


async def read_lags(
    cluster: Cluster,
    view: GroupView,
    *,
    fetch_bytes: int = FETCH_BYTES,
    timeout_s: float | None = None,
    held_by: Mapping[Place, Sequence[str]] | None = None,
    topics: Sequence[str] | None = None,
    unfinished: Mapping[Place, int | None] | None = None,
    places: Collection[Place] | None = None,
) -> tuple[Lag, ...]:
    """A row for each partition of a group, in order.

    Args:
        fetch_bytes: of a partition, at most; 0: nothing, so that counts are bounds.
        timeout_s: seconds for all of it; None as configured.
        held_by: what holds the last stable offset of a partition.
        topics: only these.
        unfinished: of a share group: offsets from its own on that it has not finished with; None: not known.
        places: only these partitions.
    """
    deadline = cluster.deadline(timeout_s)
    chosen = [
        TopicPartition(*place)
        for place in sorted(view.partitions)
        if (topics is None or place[0] in topics) and (places is None or place in places)
    ]
    if not chosen:
        return ()
    offsets = await list_offsets(cluster, chosen, deadline)
    names = {place.topic for place in chosen}
    settings = await topic_configs(cluster, names, sorted(TOPIC_SETTINGS), deadline)
    unstable = {place for found in view.held.values() for place in found} | view.unexplained
    found = []
    for place in chosen:
        error = offsets.errors.get(place)
        if error is not None:
            found.append(unread_row(view.group, *place, str(error), view.committed.get(place)))
            continue
        three = offsets.values[place]
        standing = Standing(
            group=view.group,
            topic=place.topic,
            partition=place.partition,
            committed=view.committed.get(place),
            log_start=three.log_start,
            stable=three.last_stable_offset,
            high=three.high_watermark,
            unstable=place in unstable,
        )
        counter, problems = standing.counter(), list[str]()
        try:
            await count(cluster, place, counter, fetch_bytes, deadline)
        except KafkaWireError as problem:
            problems.append(str(problem))
            counter.unread(counter.read_to, counter.high, f"it was read up to offset {counter.read_to}")
        if unfinished is not None:
            left = unfinished.get(place)
            counter.finished(None if left is None else max(0, counter.high - counter.start - left))
        of_topic = settings.values.get(place.topic)
        found.append(
            standing.row(
                counter,
                as_of=int(time.time() * 1000),
                settings=None if of_topic is None else {name: one.value or "" for name, one in of_topic.items()},
                held_by=(held_by or {}).get(place, ()),
                problems=problems,
            )
        )
    return tuple(found)


async def count(
    cluster: Cluster, place: TopicPartition, counter: LagCounter, fetch_bytes: int, deadline: Deadline
) -> None:
    """Counts what is from the counter's start up to its high watermark, as far as the budget goes. `fetch_bytes`: at
    most. Raises KafkaWireError: the broker's error, or data that cannot be read; what came before it is counted."""
    outcomes, left = MarkerOutcomes(counter), fetch_bytes
    try:
        if left and counter.start < counter.high:
            leader = await leader_of(cluster, place, deadline)
            walk = batches(cluster, leader, place, counter.start, counter.high, deadline, min(left, PIECE))
            async with aclosing(walk) as found:
                async for batch in found:
                    if batch.base_offset >= counter.high:
                        break
                    outcomes.add(batch)
                    left -= batch.size
                    if left <= 0:
                        break
    finally:
        outcomes.finish()
    if counter.read_to < counter.high:
        why = f"it was read up to offset {counter.read_to}: --fetch-bytes is {size(fetch_bytes)}"
        counter.unread(counter.read_to, counter.high, why)
