"""A partition's batches, fetched as by a consumer (Read on the topic)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from kafkawire import records
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.routing import leader_of
from kafkawire.client.errors import BrokerError, ClientError
from kafkawire.client.results import TopicPartition
from kafkawire.messages import FetchRequest, FetchResponse
from kafkawire.messages.fetch_request import FetchPartition, FetchTopic
from kafkawire.messages.fetch_response import PartitionData

#: Versions of Fetch: the first with an isolation level, and the last that names topics; later ones have their ids.
FIRST, LAST_BY_NAME = 4, 12
#: Bytes of a response, by default.
PIECE = 8 << 20
_PAUSE_S = 0.1
#: A response may end in the middle of a batch; also after the first bytes of its offset, which are zeros.
_CUT = ("truncated", "preallocated")


async def batches(
    cluster: Cluster, broker: int, key: TopicPartition, start: int, end: int, deadline: Deadline, piece: int = PIECE
) -> AsyncGenerator[records.Batch, None]:
    """The batches from the one that contains offset `start` up to offset `end`, and further ones of the last response.

    Args:
        broker: id of the partition's leader, which is not verified.
        start: offset at or above the log start offset. `end`: offset at most the high watermark.
        deadline: of the whole walk.
        piece: most bytes of a response, unless its first batch alone is larger.

    Raises:
        ClientError: the broker's error, or data that cannot be read, with its offset.
    """
    offset = start
    while offset < end:
        data = await fetch(cluster, broker, key, offset, deadline, piece)
        if not data and await deadline.sleep(_PAUSE_S):
            continue  # a fetch quota makes responses empty
        before = offset
        for batch in records.read(data):
            if not isinstance(batch, records.Batch):
                if batch.reason not in _CUT:
                    raise ClientError(f"{key}: after offset {offset}: {batch.detail}")
                continue
            offset = max(offset, batch.last_offset + 1)
            yield batch
        if offset == before:
            raise ClientError(f"{key}: nothing could be read at offset {offset}, below {end}")


async def first_batch(
    cluster: Cluster,
    partition: TopicPartition,
    start: int,
    end: int,
    deadline: Deadline,
    wanted: Callable[[records.Batch], bool],
) -> records.Batch | None:
    """The first batch that is `wanted`, of those from offset `start` up to `end`; None where there is none. `start`,
    `end`: offsets; reading stops at the first batch that is wanted. `deadline`: of the whole call."""
    leader = await leader_of(cluster, partition, deadline)
    async with aclosing(batches(cluster, leader, partition, start, end, deadline)) as found:
        async for batch in found:
            if wanted(batch):
                return batch
    return None


async def fetch(
    cluster: Cluster, broker: int, key: TopicPartition, offset: int, deadline: Deadline, most: int = PIECE
) -> bytes:
    """One response of a partition's leader: batches from the one that contains an offset on. The last may be cut off;
    a fetch quota can make it empty.

    Args:
        broker: id of the leader, which is not verified.
        most: bytes; a first batch that is larger comes whole (KIP-74).

    Raises:
        ClientError: the broker's error.
    """
    return bytes((await fetch_part(cluster, broker, key, offset, deadline, most)).records or b"")


async def fetch_part(
    cluster: Cluster,
    broker: int,
    key: TopicPartition,
    offset: int,
    deadline: Deadline,
    most: int = PIECE,
    *,
    committed: bool = False,
) -> PartitionData:
    """One response of a partition's leader: its batches, and the other fields that it has of the partition.

    Args:
        broker, key, offset, deadline, most: see `fetch`.
        committed: as a read_committed consumer: nothing at or above the last stable offset, with aborted transactions.

    Raises:
        ClientError: the broker's error.
    """
    body = fetch_request(key, offset, most, committed=committed)
    answer = await cluster.ask_broker(broker, body, deadline, at_most=LAST_BY_NAME, at_least=FIRST)
    return part_in(answer, key)


def fetch_request(key: TopicPartition, offset: int, most: int = PIECE, *, committed: bool = False) -> FetchRequest:
    """The request for one response, in versions `FIRST` to `LAST_BY_NAME`; the arguments are those of `fetch_part`."""
    partition = FetchPartition(partition=key.partition, fetch_offset=offset, partition_max_bytes=most)
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=most,
        isolation_level=int(committed),
        topics=(FetchTopic(topic=key.topic, partitions=(partition,)),),
    )


def records_in(answer: FetchResponse, key: TopicPartition) -> bytes:
    """The bytes of a partition's batches in a response. Raises ClientError: the broker's error."""
    return bytes(part_in(answer, key).records or b"")


def part_in(answer: FetchResponse, key: TopicPartition) -> PartitionData:
    """The part of a response for a partition. Raises ClientError: the broker's error."""
    if answer.error_code:
        raise BrokerError(answer.error_code, f"partition {key}")
    for topic in answer.responses:
        for one in topic.partitions:
            if one.error_code:
                raise BrokerError.answering("Fetch", one.error_code, f"partition {key}", key.topic)
            return one
    return PartitionData()
