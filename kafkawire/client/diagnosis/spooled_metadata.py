"""A copy of a live cluster's metadata log in a folder, by Fetch and FetchSnapshot of `__cluster_metadata`.

Only the controller that leads the quorum answers. It requires ClusterAction on the cluster, a right that brokers have.
The requests name no replica (id -1), so that the leader counts the client neither as voter nor as observer. Source:
KIP-595, KIP-630, `KafkaRaftClient.handleFetchRequest`, `ReplicatedLog.validateOffsetAndEpoch`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec

from kafkawire import records
from kafkawire.client.cluster.brokers import ANY
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.errors import CLUSTER_DENIED, BrokerError, ClientError
from kafkawire.client.results import Broker
from kafkawire.client.rpc.fetch_batches import PIECE
from kafkawire.messages import DescribeClusterRequest, DescribeQuorumRequest, FetchRequest, FetchSnapshotRequest
from kafkawire.messages.describe_quorum_request import PartitionData as QuorumPartition
from kafkawire.messages.describe_quorum_request import TopicData
from kafkawire.messages.fetch_request import FetchPartition, FetchTopic
from kafkawire.messages.fetch_response import PartitionData
from kafkawire.messages.fetch_snapshot_request import PartitionSnapshot, SnapshotId, TopicSnapshot
from kafkawire.messages.fetch_snapshot_response import PartitionSnapshot as SnapshotPart
from kafkawire.transactions.cluster.metadata_log import FIRST_RECORD
from kafkawire.transactions.facts import CLUSTER_METADATA
from kafkawire.transactions.formatting import size

#: The version of Fetch that has ids of topics, by which controllers know the log (`hasValidTopicPartition`).
_FETCH = 13
_TOPIC_ID = UUID(int=1)  # `Uuid.METADATA_TOPIC_ID`
_CONTROLLERS = 2  # the type of endpoint that DescribeCluster is asked for (KIP-919)
_NOT_LEADER, _FENCED, _NEWER_EPOCH, _NO_SNAPSHOT, _OTHER_TYPE = 6, 74, 75, 98, 114
_NO_SUCH_TOPIC = (3, 100)  # the errors for a name, and for an id
#: The lowest epoch of the quorum's leaders; a request with a lower one is invalid
#: (`KafkaRaftClient.handleFetchRequest`).
_FIRST_EPOCH = 1
#: How often the leader is looked for again: elections take a second or two.
_MOST_LEADERS = 10
_PAUSE_S = 0.5
_BROKER_HERE = (
    "this is a broker's listener: --bootstrap-controller takes those of controllers (controller.listener.names)"
)


class SpooledMetadata(msgspec.Struct, kw_only=True):
    """The part of the metadata log that was written. `end`: the offset after the last that was read. `bytes`: that were
    written. `problems`: what was not read, sentences."""

    end: int = 0
    bytes: int = 0
    problems: list[str] = msgspec.field(default_factory=list)


async def spool_metadata(cluster: Cluster, root: Path, fetch_bytes: int) -> SpooledMetadata:
    """Writes the metadata log up to its high watermark: the oldest checkpoint that can be had, and what follows it.

    Args:
        cluster: whose bootstrap addresses are those of controllers.
        root: an empty folder. fetch_bytes: at most; the log is read from its start.

    Raises:
        ClientError: no controller that leads could be reached, or it refuses.
    """
    quorum, found = _Quorum(cluster), SpooledMetadata()
    folder = root / f"{CLUSTER_METADATA}-0"
    folder.mkdir()
    part = await quorum.fetch(0, 0, fetch_bytes)
    offset, epoch = 0, 0
    if part.snapshot_id.end_offset >= 0 and not part.log_start_offset:
        # The log is whole. A leader answers offset 0 with its checkpoint, where it has one; from 1 on nothing is lost.
        offset, epoch = FIRST_RECORD, part.snapshot_id.epoch
    elif part.snapshot_id.end_offset >= 0:
        offset, epoch = await _checkpoint(quorum, part, folder, found, fetch_bytes)
    found.end = offset
    end = part.high_watermark
    with (folder / f"{offset:020}.log").open("wb") as file:
        while found.end < end:
            left = fetch_bytes - found.bytes
            if left <= 0:
                found.problems.append(
                    f"{CLUSTER_METADATA}: read up to offset {found.end} of {end}: --fetch-bytes is {size(fetch_bytes)}"
                )
                break
            part = await quorum.fetch(found.end, epoch, left)
            if part.snapshot_id.end_offset >= 0 or part.diverging_epoch.epoch >= 0:
                found.problems.append(
                    f"{CLUSTER_METADATA}: read up to offset {found.end} of {end}: the log has changed in the meantime"
                )
                break
            data, following, epoch = _whole(bytes(part.records or b""), found.end, end, epoch)
            if following == found.end:
                raise ClientError(f"{CLUSTER_METADATA}: nothing could be read at offset {found.end}, below {end}")
            file.write(data)
            found.bytes += len(data)
            found.end = following
    return found


def _whole(data: bytes, offset: int, end: int, epoch: int) -> tuple[bytes, int, int]:
    """The batches of a response that are whole and below the high watermark; the offset after them, and the leader
    epoch of the last."""
    cut = 0
    for item in records.read(data):
        if not isinstance(item, records.Batch) or item.last_offset >= end or item.last_offset < offset:
            break
        cut, offset = item.position + item.size, item.last_offset + 1
        if item.partition_leader_epoch is not None:
            epoch = item.partition_leader_epoch
    return data[:cut], offset, epoch


async def _checkpoint(
    quorum: _Quorum, part: PartitionData, folder: Path, found: SpooledMetadata, fetch_bytes: int
) -> tuple[int, int]:
    """Writes the checkpoint that the log begins with, or else the newest; returns its end offset and epoch.

    A leader names only its newest one. The oldest ends where the log starts, and its epoch is found by bisection: of
    offsets in the log the leader answers with a checkpoint only where the epoch is lower (`validateOffsetAndEpoch`).
    """
    newest, start = part.snapshot_id, part.log_start_offset
    if 0 < start < newest.end_offset:
        low, high = 0, newest.epoch
        while low < high:
            middle = (low + high) // 2
            answer = await quorum.fetch(start + 1, middle, 1)
            if answer.snapshot_id.end_offset >= 0:
                low = middle + 1
            else:
                high = middle
        if await _write(quorum, start, low, folder, found, fetch_bytes):
            return start, low
    if not await _write(quorum, newest.end_offset, newest.epoch, folder, found, fetch_bytes):
        raise ClientError(
            f"{CLUSTER_METADATA}: the checkpoint {newest.end_offset} of epoch {newest.epoch} is gone: try again"
        )
    return newest.end_offset, newest.epoch


async def _write(quorum: _Quorum, end: int, epoch: int, folder: Path, found: SpooledMetadata, fetch_bytes: int) -> bool:
    """Writes a checkpoint; False where the leader does not have it."""
    path = folder / f"{end:020}-{epoch:010}.checkpoint"
    position = 0
    with path.open("wb") as file:
        while True:
            part = await quorum.snapshot(end, epoch, position)
            if part is None:
                break
            data = bytes(part.unaligned_records)
            if part.position != position or part.size < position + len(data):
                raise ClientError(f"{CLUSTER_METADATA}: a checkpoint of {part.size} bytes came out of order")
            if part.size > fetch_bytes:
                raise ClientError(
                    f"{CLUSTER_METADATA}: its checkpoint has {size(part.size)}; --fetch-bytes is {size(fetch_bytes)}"
                )
            file.write(data)
            position += len(data)
            if position == part.size:
                found.bytes += position
                return True
            if not data:
                raise ClientError(f"{CLUSTER_METADATA}: nothing of the checkpoint came at byte {position}")
    path.unlink()
    return False


class _Quorum:
    """The leader of the controllers' quorum, looked for again when it changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._node, self._epoch = ANY, _FIRST_EPOCH

    async def fetch(self, offset: int, epoch: int, most: int) -> PartitionData:
        """A response to Fetch. `epoch`: of the record before `offset`."""
        size = min(max(most, 1), PIECE)

        def request(leader_epoch: int) -> FetchRequest:
            one = FetchPartition(
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=epoch,
                partition_max_bytes=size,
            )
            topic = FetchTopic(topic_id=_TOPIC_ID, partitions=(one,))
            return FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=size, topics=(topic,))

        return await self._ask("Fetch", request, lambda answer: answer.responses, version=_FETCH)  # type: ignore[no-any-return]

    async def snapshot(self, end: int, epoch: int, position: int) -> SnapshotPart | None:
        """A piece of a checkpoint; None where the leader does not have it."""

        def request(leader_epoch: int) -> FetchSnapshotRequest:
            wanted = PartitionSnapshot(
                current_leader_epoch=leader_epoch,
                snapshot_id=SnapshotId(end_offset=end, epoch=epoch),
                position=position,
            )
            topic = TopicSnapshot(name=CLUSTER_METADATA, partitions=(wanted,))
            return FetchSnapshotRequest(max_bytes=PIECE, topics=(topic,))

        try:
            return await self._ask("FetchSnapshot", request, lambda answer: answer.topics)  # type: ignore[no-any-return]
        except BrokerError as error:
            if error.code == _NO_SNAPSHOT:
                return None
            raise

    async def _ask(
        self,
        api: str,
        request: Callable[[int], FetchRequest | FetchSnapshotRequest],
        topics: Callable[[Any], Sequence[Any]],
        version: int | None = None,
    ) -> Any:
        """The partition's part of the leader's answer. `request`: the leader's epoch -> a request. `topics`: an answer
        -> its topics. `version`: of the request; None: the highest that both know."""
        for _ in range(_MOST_LEADERS):
            deadline = self._cluster.deadline()
            answer: Any = await self._cluster.ask_broker(
                self._node, request(self._epoch), deadline, at_least=version or 0, at_most=version
            )
            part = next((one for topic in topics(answer) for one in topic.partitions), None)
            code = answer.error_code or (0 if part is None else part.error_code)
            if not code:
                if part is None:
                    raise ClientError(f"{CLUSTER_METADATA}: the controller's answer to {api} does not contain it")
                return part
            leader = None if part is None else (part.current_leader.leader_id, part.current_leader.leader_epoch)
            await self._follow(api, code, leader, deadline)
        raise ClientError(f"{CLUSTER_METADATA}: no controller leads the quorum, or its leader changes all the time")

    async def _follow(self, api: str, code: int, leader: tuple[int, int] | None, deadline: Deadline) -> None:
        """Takes leader and epoch from a refusal. Raises ClientError: the refusal is permanent."""
        if code == CLUSTER_DENIED:
            raise BrokerError(code, f"{api} of {CLUSTER_METADATA}", right="ClusterAction on the cluster")
        if code in _NO_SUCH_TOPIC:
            raise ClientError(f"{CLUSTER_METADATA}: {_BROKER_HERE}")
        if code not in (_NOT_LEADER, _FENCED, _NEWER_EPOCH) or leader is None:
            raise BrokerError(code, f"{api} of {CLUSTER_METADATA}")
        known, (node, self._epoch) = self._epoch, (leader[0], max(leader[1], _FIRST_EPOCH))
        if code == _NOT_LEADER:
            if node < 0:
                await deadline.sleep(_PAUSE_S)  # an election is under way
                return
            await self._find(node, deadline)
        elif self._epoch == known:
            await deadline.sleep(_PAUSE_S)

    async def _find(self, node: int, deadline: Deadline) -> None:
        """Where the leader is, by any controller."""
        body = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
        answer = await self._cluster.ask_broker(ANY, body, deadline, at_least=1)
        if answer.error_code == _OTHER_TYPE:
            raise ClientError(f"{CLUSTER_METADATA}: {_BROKER_HERE}")
        if answer.error_code:
            right = "Alter on the cluster" if answer.error_code == CLUSTER_DENIED else None
            what = f"controller {node} leads; where it listens"
            raise BrokerError(answer.error_code, what, detail=answer.error_message or "", right=right)
        self._cluster.brokers = {one.broker_id: Broker(one.broker_id, one.host, one.port) for one in answer.brokers}
        if node not in self._cluster.brokers:
            raise ClientError(f"controller {node} leads the quorum, and its address is not known")
        self._node = node


async def controllers_of(cluster: Cluster) -> tuple[tuple[str, int], ...]:
    """Where the leader of the controllers listens, and then the other voters, by any broker (Describe on the cluster).
    Raises ClientError: the broker is older than Kafka 3.9 or has ZooKeeper, and does not list them."""
    topic = TopicData(topic_name=CLUSTER_METADATA, partitions=(QuorumPartition(partition_index=0),))
    body, advice = DescribeQuorumRequest(topics=(topic,)), "give the controllers' addresses by --bootstrap-controller"
    try:
        answer = await cluster.ask_any(body, cluster.deadline(), at_least=2)
    except BrokerError:
        raise
    except ClientError as error:
        raise ClientError(f"where the controllers listen: {error}: {advice}") from error
    parts = [one for topic in answer.topics for one in topic.partitions]
    code = answer.error_code or next((one.error_code for one in parts if one.error_code), 0)
    if code:
        raise BrokerError.answering("DescribeQuorum", code, "where the controllers listen")
    leader = parts[0].leader_id if parts else -1
    nodes = sorted(answer.nodes, key=lambda node: node.node_id != leader)
    found = tuple((one.host, one.port) for node in nodes for one in node.listeners)
    if not found:
        raise ClientError(f"where the controllers listen: the broker does not list them: {advice}")
    return found
