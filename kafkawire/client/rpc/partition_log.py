"""A partition's log, piece by piece, from its leader (Read on the topic).

Leaders may move, quotas may make responses empty, and retention may delete the offsets to be read next. Reading
continues in all three cases, and reports the offsets that were deleted.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import leaders
from kafkawire.client.errors import OFFSET_OUT_OF_RANGE, BrokerError, ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.client.rpc.fetch_batches import PIECE, fetch_part
from kafkawire.client.rpc.partition_offsets import list_offsets
from kafkawire.messages.fetch_response import PartitionData
from kafkawire.records import Damage
from kafkawire.records.header import HEADER, MAGIC, MAGIC_AT

_LENGTH = struct.Struct(">i")
_LENGTH_AT, _OVERHEAD, _LEAST = 8, 12, 14
_EMPTY_S = 0.1


class LogPiece(NamedTuple):
    """Whole batches of a partition, one after the other. `aborted`: of the transactions in it that were aborted,
    producer id and first offset; in `committed` reading only."""

    data: bytes
    aborted: tuple[tuple[int, int], ...] = ()


class DeletedOffsets(NamedTuple):
    """Offsets that were deleted before they could be read. `end`: the first that is there."""

    first: int
    end: int

    @property
    def damage(self) -> Damage:
        """The deleted offsets as damage of the log."""
        text = f"offsets {self.first} to {self.end - 1} were deleted while they were read"
        return Damage(0, "deleted", text)


class _Fetched(NamedTuple):
    """The result of a Fetch at an offset, and the offset that follows."""

    found: LogPiece | DeletedOffsets
    following: int


async def pieces(
    cluster: Cluster, place: TopicPartition, start: int, end: int, *, committed: bool = False, most: int = PIECE
) -> AsyncGenerator[LogPiece | DeletedOffsets, None]:
    """The log from the batch that contains offset `start` up to offset `end`. While a piece is used, the next one is
    fetched. The first batch may begin before `start`, and the last one end after `end`.

    Args:
        start: at or above the log start offset. `end`: at most the high watermark, or the last stable offset.
        committed: fetch as read_committed consumers do: with the aborted transactions, and nothing at or above the last
            stable offset.
        most: bytes of a piece, unless its first batch alone is larger.

    Raises:
        ClientError: the broker's error, or data that cannot be read, with its offset.
    """
    coming = None if start >= end else asyncio.ensure_future(_next(cluster, place, start, end, committed, most))
    try:
        while coming is not None:
            found, following = await coming
            coming = None
            if following < end:
                coming = asyncio.ensure_future(_next(cluster, place, following, end, committed, most))
            yield found
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)


async def _next(cluster: Cluster, place: TopicPartition, offset: int, end: int, committed: bool, most: int) -> _Fetched:
    part = await fetched_at(cluster, place, offset, committed=committed, most=most)
    if isinstance(part, int):
        return _Fetched(DeletedOffsets(offset, min(part, end)), part)
    data = part.records or b""
    size, following = _whole(data, end)
    if following is None or following <= offset:
        raise ClientError(f"{place}: nothing could be read at offset {offset}, below {end}")
    aborted = tuple((one.producer_id, one.first_offset) for one in part.aborted_transactions or ())
    whole = bytes(data) if size == len(data) else bytes(memoryview(data)[:size])
    return _Fetched(LogPiece(whole, aborted), following)


async def fetched_at(
    cluster: Cluster,
    place: TopicPartition,
    offset: int,
    *,
    leader: int | None = None,
    committed: bool = False,
    most: int = PIECE,
) -> PartitionData | int:
    """The batches of a partition's leader at an offset; or the new log start offset, where retention has deleted the
    offset. The call has a deadline of its own, by default as configured.

    Args:
        leader: broker id of the one that is asked first; None: as the metadata says.
        committed, most: see `pieces`.

    Raises:
        ClientError: the broker's error, or nothing came in time.
    """
    deadline = cluster.deadline()
    known = {} if leader is None else {place: leader}

    async def route(keys: Sequence[TopicPartition]) -> dict[TopicPartition, int | ClientError]:
        found: dict[TopicPartition, int | ClientError] = {}
        if known:  # first the given leader, afterwards the present one
            found[place] = known.pop(place)
            return found
        found.update(await leaders(cluster, deadline)(keys))
        return found

    async def ask(broker: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, PartitionData | ClientError]:
        part = await fetch_part(cluster, broker, place, offset, deadline, most, committed=committed)
        while not part.records and await deadline.sleep(_EMPTY_S):  # a fetch quota makes responses empty
            part = await fetch_part(cluster, broker, place, offset, deadline, most, committed=committed)
        return {place: part}

    try:
        return (await drive(cluster, [place], route, ask, deadline))[place]
    except BrokerError as error:
        if error.code != OFFSET_OUT_OF_RANGE:
            raise
        start = (await list_offsets(cluster, [place], deadline))[place].log_start
        if start <= offset:
            raise
        return start


def whole_batches(data: bytes | memoryview) -> int:
    """The bytes of a Fetch response up to the end of its last whole batch; all, where a batch's length is damaged."""
    return _whole(data)[0]


def behind(data: bytes | memoryview) -> int | None:
    """The offset after the last whole batch of a Fetch response; None where there is none."""
    return _whole(data)[1]


def _whole(data: bytes | memoryview, end: int | None = None) -> tuple[int, int | None]:
    """`whole_batches`, and the offset after the last whole batch; None where there is none. `end`: without batches
    that begin at this offset or after it."""
    at, last = 0, None
    while at + _OVERHEAD <= len(data):
        (length,) = _LENGTH.unpack_from(data, at + _LENGTH_AT)
        if length < _LEAST:
            at = len(data)
            break
        if at + _OVERHEAD + length > len(data):
            break
        if end is not None and data[at + MAGIC_AT] == MAGIC and _base(data, at) >= end:
            break
        last = at
        at += _OVERHEAD + length
    if last is None:
        return at, None
    base = _base(data, last)
    if data[last + MAGIC_AT] < MAGIC or last + HEADER.size > len(data):  # a wrapper has its last message's offset
        return at, base + 1
    return at, base + int(HEADER.unpack_from(data, last)[6]) + 1


def _base(data: bytes | memoryview, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "big", signed=True)
