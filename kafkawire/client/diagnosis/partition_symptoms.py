"""What blocks partitions of a live cluster other than a transaction: bytes that hold no valid batch, missing replicas,
a tier that lags.

Leaders do not verify the checksums of what they return, but consumers do. So the log is fetched and verified here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.diagnosis.search import Search
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import Offsets, PartitionInfo, TopicPartition
from kafkawire.client.rpc.configs import topic_configs
from kafkawire.client.rpc.fetch_batches import PIECE
from kafkawire.client.rpc.log_dirs import log_sizes
from kafkawire.client.rpc.partition_log import DeletedOffsets, behind, pieces
from kafkawire.client.rpc.partition_offsets import list_offsets, tier_offsets
from kafkawire.records import Damage
from kafkawire.records.columns import batches
from kafkawire.rows import Blocker
from kafkawire.transactions.blocking import partition_blockers
from kafkawire.transactions.commands import Reach
from kafkawire.transactions.formatting import size

_SIDE_BY_SIDE = 4
#: Budgets of partitions that all partitions of a topic share; each gets `_LEAST` bytes at least.
_BUDGETS, _LEAST = 16, 1 << 20
#: Damaged places of a partition that are kept.
_MOST_PLACES = 1000
_CORRUPT_MESSAGE = 2


class PartitionSymptoms(NamedTuple):
    """The symptoms of partitions, and what could not be read. `gaps`: what could not be read, sentences. `scope`: a
    sentence on what of the logs was not read; None: nothing."""

    blockers: tuple[Blocker, ...]
    gaps: tuple[str, ...]
    scope: str | None = None


class _Verified(msgspec.Struct):
    """The verified range of a log, `[first, following)`, with the damage in it."""

    first: int
    following: int
    bytes: int = 0
    places: list[partition_blockers.DamagedBatch] = msgspec.field(default_factory=list)


async def read_symptoms(
    cluster: Cluster, topic: str, partitions: Collection[int] | None, search: Search, reach: Reach
) -> PartitionSymptoms:
    """What blocks partitions of a topic.

    Args:
        partitions: numbers; None: all.
        search: its `fetch_bytes` are verified of each partition, up to its end; of many partitions less.
        reach: for the commands.

    Raises:
        ClientError: the topic is not known.
    """
    deadline = cluster.deadline(search.timeout_s)
    metadata = await cluster.metadata([topic], deadline=deadline)
    found = {
        place: info
        for place, info in sorted(metadata.partitions.items())
        if place.topic == topic and (partitions is None or place.partition in partitions)
    }
    led = [place for place, info in found.items() if info.leader is not None]
    # One after the other: a broker that closes the connection on one request would end the others, too.
    settings, gaps = await _settings(cluster, topic, deadline)
    offsets = await list_offsets(cluster, led, deadline)
    gaps += [f"{place}: its offsets could not be read: {error}" for place, error in sorted(offsets.errors.items())]
    sizes = await log_sizes(cluster, led, deadline)
    tiers: Mapping[TopicPartition, tuple[int, int]] = {}
    if settings.get("remote.storage.enable") == "true":
        tiered = await tier_offsets(cluster, led, deadline)
        tiers = tiered.values
        gaps += [f"{place}: how far its tier reaches: {error}" for place, error in sorted(tiered.errors.items())]
    budget = min(search.fetch_bytes, max(_LEAST, _BUDGETS * search.fetch_bytes // max(1, len(led))))
    side_by_side = asyncio.Semaphore(_SIDE_BY_SIDE)

    async def verify(place: TopicPartition) -> _Verified | ClientError:
        three = offsets.values[place]
        first = newest_from(three, sizes.values.get(place), budget)
        async with side_by_side:
            return await verified(cluster, place, first, three.high_watermark, budget)

    read = [place for place in led if place in offsets.values]
    logs = dict(zip(read, await asyncio.gather(*map(verify, read)), strict=True)) if budget else {}
    blockers: list[Blocker | None] = []
    unread = {} if budget else dict.fromkeys(read, "nothing")
    for place, info in found.items():
        replicas = replicas_of(info)
        blockers.append(partition_blockers.missing_replicas(replicas, settings, reach))
        log, three = logs.get(place), offsets.values.get(place)
        if isinstance(log, ClientError):
            gaps.append(f"{place}: its log could not be verified: {log}")
        elif log is not None and log.places:
            blockers.append(partition_blockers.damaged(log.places, replicas, reach))
            gaps.append(f"{place}: damaged from offset {log.places[0].offset} on: {log.places[0].detail}")
        if isinstance(log, _Verified) and three is not None and (part := _not_verified(log, three)):
            unread[place] = part
        if place in tiers and three is not None:
            copied, local_start = tiers[place]
            is_rest = isinstance(log, _Verified) and log.first >= copied
            blockers.append(
                partition_blockers.tier_behind(
                    partition_blockers.TierReach(
                        topic=topic,
                        partition=place.partition,
                        copied=copied,
                        local_start=local_start,
                        stable=three.last_stable_offset,
                        high=three.high_watermark,
                        local_bytes=sizes.values.get(place),
                        fetched_bytes=log.bytes if isinstance(log, _Verified) and is_rest and _settled(three) else 0,
                    ),
                    settings,
                )
            )
    return PartitionSymptoms(tuple(one for one in blockers if one is not None), tuple(gaps), _scope(unread, budget))


async def verified(
    cluster: Cluster, place: TopicPartition, first: int, end: int, budget: int
) -> _Verified | ClientError:
    """Verifies a log from the batch with an offset on, at most about `budget` bytes of it. Returns the error of a
    partition that could not be read. `first`: at or above the log start offset. `end`: at most the high watermark."""
    found = _Verified(first, first)
    try:
        async with aclosing(pieces(cluster, place, first, end, most=min(budget, PIECE))) as walk:
            async for piece in walk:
                if isinstance(piece, DeletedOffsets):
                    found.first = found.following = piece.end
                    continue
                found.places += await asyncio.to_thread(_damage_in, piece.data, found.following)
                del found.places[_MOST_PLACES:]
                found.following = behind(piece.data) or found.following
                found.bytes += len(piece.data)
                if found.bytes >= budget:
                    break
    except BrokerError as error:
        if error.code != _CORRUPT_MESSAGE:
            return error
        found.places.append(
            partition_blockers.DamagedBatch(offset=found.following, reason=error.name, detail=str(error))
        )
    except ClientError as error:
        return error
    return found


def _damage_in(data: bytes, expected: int) -> list[partition_blockers.DamagedBatch]:
    """The damage in a piece of a log. `expected`: the offset that follows the last piece."""
    found = []
    for item in batches(data, window=len(data)):
        if isinstance(item, Damage):
            base = int.from_bytes(data[item.position : item.position + 8], "big", signed=True)
            offset = base if item.reason == "crc_mismatch" and base >= expected else expected
            found.append(partition_blockers.DamagedBatch(offset=offset, reason=item.reason, detail=item.detail))
    return found


def newest_from(offsets: Offsets, log_bytes: int | None, budget: int) -> int:
    """Where to begin, so that a budget reaches the end: consumers are near it, mostly. Offsets are taken to be evenly
    large. `log_bytes`: of the whole log; None: not known. `budget`: bytes."""
    if log_bytes is None or log_bytes <= budget:
        return offsets.log_start
    length = offsets.high_watermark - offsets.log_start
    return offsets.high_watermark - min(length, length * budget // log_bytes)


def _settled(offsets: Offsets) -> bool:
    return offsets.last_stable_offset == offsets.high_watermark


def _not_verified(log: _Verified, offsets: Offsets) -> str:
    below = f"below offset {log.first}" if log.first > offsets.log_start else ""
    above = f"from offset {log.following} on" if log.following < offsets.high_watermark else ""
    return " and ".join(filter(None, (below, above)))


def _scope(unread: Mapping[TopicPartition, str], budget: int) -> str | None:
    if not unread:
        return None
    place, what = next(iter(unread.items()))
    others = f", and parts of {len(unread) - 1} more partitions" if len(unread) > 1 else ""
    if what == "nothing":
        return "Damage was not looked for: --fetch-bytes is 0."
    return f"Damage was not looked for in {place} {what}{others}: {size(budget)} of each was read (--fetch-bytes)."


async def _settings(cluster: Cluster, topic: str, deadline: Deadline) -> tuple[dict[str, str], list[str]]:
    """Settings of a topic by name, and what could not be read."""
    found = await topic_configs(cluster, {topic}, sorted(partition_blockers.TOPIC_SETTINGS), deadline)
    if topic in found.errors:
        return {}, [f"settings of topic {topic}, which say how many replicas it needs: {found.errors[topic]}"]
    return {name: one.value for name, one in found.values[topic].items() if one.value is not None}, []


def replicas_of(info: PartitionInfo) -> partition_blockers.Replicas:
    """The replicas of a partition, by the cluster's metadata."""
    return partition_blockers.Replicas(
        topic=info.topic_partition.topic,
        partition=info.topic_partition.partition,
        leader=info.leader,
        replicas=info.replicas,
        offline=info.offline,
        in_sync=info.in_sync,
    )
