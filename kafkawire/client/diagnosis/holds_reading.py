"""Which transactions of a live topic blocked read_committed consumers the longest (Read on the topic)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing

from msgspec.structs import replace

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.partition_symptoms import newest_from
from kafkawire.client.errors import ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import PIECE
from kafkawire.client.rpc.log_dirs import log_sizes
from kafkawire.client.rpc.partition_log import DeletedOffsets, pieces
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.client.rpc.transactional_ids import list_transactions
from kafkawire.offsets.longest_holds import LongestHolds, longest
from kafkawire.records import Damage
from kafkawire.records.columns import batches
from kafkawire.rows import DamageRow, Hold
from kafkawire.transactions.formatting import size


async def read_holds(
    cluster: Cluster, topic: str, partitions: Collection[int] | None, most: int, fetch_bytes: int,
    timeout_s: float | None = None,
) -> AsyncGenerator[Hold | DamageRow, None]:  # fmt: skip
    """The longest holds of a topic's partitions, the longest first, and before them what was not read.

    Args:
        partitions: numbers; None: all.
        most: number of holds. fetch_bytes: of a partition, its newest; a hold that began before them is not known.

    Raises:
        ClientError: the topic is not known.
    """
    deadline = cluster.deadline(timeout_s)
    metadata = await cluster.metadata([topic], deadline=deadline)
    for error in metadata.errors.values():
        raise error
    places = [one for one in sorted(metadata.partitions) if partitions is None or one.partition in partitions]
    known = await list_offsets(cluster, places, deadline)
    sizes = await log_sizes(cluster, places, deadline)
    found: list[Hold] = []
    for place in places:
        if place in known.errors:
            yield _missing(place, str(known.errors[place]))
            continue
        three = known.values[place]
        start = newest_from(three, sizes.values.get(place), fetch_bytes)
        if start > three.log_start:
            yield _missing(place, f"not read below offset {start}: --fetch-bytes is {size(fetch_bytes)}")
        if three.last_stable_offset < start:
            yield _missing(place, f"a transaction from offset {three.last_stable_offset} on is open, and was not read")
            continue
        holds, left = LongestHolds(topic, place.partition, most, cut=start > 0), fetch_bytes
        try:
            async with aclosing(pieces(cluster, place, start, three.high_watermark, most=min(left, PIECE))) as walk:
                async for piece in walk:
                    if isinstance(piece, DeletedOffsets):
                        yield _missing(place, piece.damage.detail)
                        continue
                    damage = await asyncio.to_thread(_take, holds, piece.data)
                    for one in damage:
                        yield _missing(place, one.detail)
                    left -= len(piece.data)
                    if left <= 0 and holds.read_to < three.high_watermark:
                        yield _missing(place, f"not read from offset {holds.read_to} on: --fetch-bytes")
                        break
        except ClientError as error:
            yield _missing(place, str(error))
        found = longest([*found, *holds.finish(int(time.time() * 1000))], most)
    names: dict[int, str] = {}
    if found:
        listed = await list_transactions(cluster, deadline, producer_ids={one.producer_id for one in found})
        names = {one.producer_id: one.transactional_id for of_broker in listed.values.values() for one in of_broker}
    for hold in found:
        yield replace(hold, transactional_id=names.get(hold.producer_id))


def _take(holds: LongestHolds, data: bytes) -> list[Damage]:
    damage = []
    for item in batches(data, window=len(data)):
        if isinstance(item, Damage):
            damage.append(item)
        else:
            holds.take(item)
    return damage


def _missing(place: TopicPartition, what: str) -> DamageRow:
    return DamageRow(topic=place.topic, partition=place.partition, reason="unread", detail=f"{place}: {what}")
