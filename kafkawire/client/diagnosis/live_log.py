"""The logs of live partitions up to where they end now, piece by piece, with what became of their transactions.

Below the last stable offset a Fetch of a read_committed consumer returns the transactions that were aborted; all others
were committed. From that offset on the markers up to the high watermark decide, so that part is fetched twice. No open
transaction began below it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, NamedTuple

import msgspec
import numpy as np

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.errors import UNKNOWN_TOPIC_OR_PARTITION, BrokerError, ClientError
from kafkawire.client.results import Metadata, Offsets, TopicPartition
from kafkawire.client.rpc.partition_log import DeletedOffsets, LogPiece, pieces
from kafkawire.client.rpc.partition_offsets import list_offsets, offsets_at
from kafkawire.logdir.data_ranges import DataRange, table_of
from kafkawire.logdir.transaction_doubts import NO_OFFSET
from kafkawire.logdir.transaction_states import Outcomes, TransactionScan
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import Batches, batches

#: Half open; None: no bound.
Range = tuple[int | None, int | None]


class LiveLog(NamedTuple):
    """A partition, and the offsets that are read. `offsets`: that it had when reading began."""

    place: TopicPartition
    start: int
    end: int
    offsets: Offsets


class KnownPiece(NamedTuple):
    """Whole batches. `outcomes`: of the transactions in them, where they were asked for."""

    data: bytes
    outcomes: Outcomes | None


async def described(cluster: Cluster, topics: frozenset[str] | None) -> Metadata:
    """The metadata of topics; None: of all. Raises LookupError: a topic that is named does not exist. ClientError: it
    has no metadata."""
    found = await cluster.metadata(None if topics is None else sorted(topics))
    for topic, error in found.errors.items() if topics is not None else ():
        if isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION:
            raise LookupError(f"there is no topic {topic!r}, or it may not be described")
        raise error
    return found


async def planned(
    cluster: Cluster,
    places: list[TopicPartition],
    offsets_of: Callable[[TopicPartition], Range],
    *,
    since: int | None,
    committed: bool,
) -> tuple[list[LiveLog], dict[TopicPartition, ClientError]]:
    """The logs that are read of partitions, and the reasons why others are not.

    Args:
        offsets_of: that are wanted. since: only from the first record on that is as new (epoch milliseconds).
        committed: up to the last stable offset, otherwise to the high watermark.
    """
    deadline = cluster.deadline()
    known, timed = await asyncio.gather(
        list_offsets(cluster, places, deadline),
        _nothing() if since is None else offsets_at(cluster, places, since, deadline),
    )
    errors = known.errors | ({} if timed is None else timed.errors)
    found = []
    for place in places:
        if place in errors:
            continue
        offsets = known.values[place]
        (low, high), end = offsets_of(place), offsets.last_stable_offset if committed else offsets.high_watermark
        start, end = max(low or 0, offsets.log_start), end if high is None else min(high, end)
        if timed is not None:
            at = timed.values[place]
            start = end if at is None else max(start, at)
        found.append(LiveLog(place, start, end, offsets))
    return found, errors


async def _nothing() -> None:
    return None


async def known_pieces(
    cluster: Cluster, log: LiveLog, *, outcomes: bool
) -> AsyncGenerator[KnownPiece | DeletedOffsets, None]:
    """A log, piece by piece. `outcomes`: with those of its transactions. Raises ClientError: the broker's error, or
    data that cannot be read, with its offset."""
    stable = min(max(log.start, log.offsets.last_stable_offset), log.end) if outcomes else log.start
    async with aclosing(pieces(cluster, log.place, log.start, stable, committed=True)) as found:
        async for piece in found:
            yield piece if isinstance(piece, DeletedOffsets) else KnownPiece(piece.data, _stable(log, piece))
    if stable >= log.end:
        return
    unstable = await _unstable(cluster, log, stable) if outcomes else None
    async with aclosing(pieces(cluster, log.place, stable, log.end)) as found:
        async for piece in found:
            yield piece if isinstance(piece, DeletedOffsets) else KnownPiece(piece.data, unstable)


def _bounds(log: LiveLog) -> dict[str, Any]:
    offsets = log.offsets
    stable = offsets.last_stable_offset
    return {"start": offsets.log_start, "last_stable_offset": stable, "last_stable_at_most": stable,
            "high_watermark": offsets.high_watermark}  # fmt: skip


def _stable(log: LiveLog, piece: LogPiece) -> Outcomes:
    """The outcomes below the last stable offset: a transaction that the broker lists was aborted, up to the next marker
    of its producer (Kafka's `CompletedFetch`)."""
    if not piece.aborted:
        return Outcomes(end=NO_OFFSET, aborted=table_of(()), **_bounds(log))
    found = [item for item in _headers(piece) if isinstance(item, Batches)]
    markers = [(one.producer_id[one.is_control], one.base_offset[one.is_control]) for one in found]
    producers = np.concatenate([ids for ids, _ in markers]) if markers else np.empty(0, np.int64)
    offsets = np.concatenate([at for _, at in markers]) if markers else np.empty(0, np.int64)
    by_producer = {producer: offsets[producers == producer] for producer in {one for one, _ in piece.aborted}}
    ranges = []
    for producer, first in piece.aborted:
        own = by_producer[producer]
        at = int(own.searchsorted(first, "right"))
        ranges.append(DataRange(producer, first, int(own[at]) if at < len(own) else NO_OFFSET))
    return Outcomes(end=NO_OFFSET, aborted=table_of(ranges), **_bounds(log))


async def _unstable(cluster: Cluster, log: LiveLog, first: int) -> Outcomes:
    """The outcomes from the last stable offset on, by the markers up to the high watermark."""
    scan = TransactionScan(first)
    async with aclosing(pieces(cluster, log.place, first, log.offsets.high_watermark)) as found:
        async for piece in found:
            if isinstance(piece, DeletedOffsets):
                continue  # reported where its records are read
            for item in _headers(piece, check_crc=True):
                if isinstance(item, Damage):
                    scan.damage(f"{log.place}: {item.reason}: {item.detail}")
                else:
                    scan.add(item.measured() if isinstance(item, Batch) else item)
    return msgspec.structs.replace(scan.finish(), **_bounds(log))


def _headers(piece: LogPiece, *, check_crc: bool = False) -> list[Batches | Batch | Damage]:
    return list(batches(piece.data, window=len(piece.data), check_crc=check_crc))
