"""One ABORT marker for one transaction in one partition (WriteTxnMarkers), sent once to the partition's leader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkawire.client.deadline import Deadline
from kafkawire.client.driver import drive
from kafkawire.client.errors import BrokerError, ClientError, ConnectError
from kafkawire.client.results import Marked, TopicPartition
from kafkawire.client.rights import missing_right
from kafkawire.client.routing import leaders
from kafkawire.messages import WriteTxnMarkersRequest
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker, WritableTxnMarkerTopic

if TYPE_CHECKING:
    from kafkawire.client.cluster import Cluster


def abort_request(
    partition: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> WriteTxnMarkersRequest:
    """The request. Transaction version 0: an administrator's marker carries the epoch that the producer has, and
    version 2 would have it be higher (KIP-1228)."""
    return WriteTxnMarkersRequest(
        markers=(
            WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                transaction_result=False,
                topics=(WritableTxnMarkerTopic(name=partition.topic, partition_indexes=(partition.partition,)),),
                coordinator_epoch=coordinator_epoch,
                transaction_version=0,
            ),
        )
    )


async def write_abort(
    cluster: Cluster,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    deadline: Deadline,
) -> Marked:
    """Writes the marker.

    Raises:
        ClientError: it was not written; or no answer came, and then the text says that the outcome is not known.
    """
    request = abort_request(partition, producer_id, producer_epoch, coordinator_epoch)

    async def ask(broker: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, Marked | ClientError]:
        try:
            answer = await cluster.ask(broker, request, deadline)
        except ConnectError as error:
            unknown = "whether the marker was written is not known: look at the partition again"
            raise ClientError(f"{partition}: {error}; {unknown}") from None
        code = next((one.error_code for m in answer.markers for t in m.topics for one in t.partitions), -1)
        if code:
            right = missing_right("WriteTxnMarkers", code)
            return {partition: BrokerError(code, f"{partition}: no marker was written", right=right)}
        return {
            partition: Marked(
                topic_partition=partition,
                broker_id=broker,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
            )
        }

    done = await drive(cluster, [partition], leaders(cluster, deadline), ask, deadline, again=False)
    return done[partition]
