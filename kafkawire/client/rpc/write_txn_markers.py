"""One ABORT marker for one transaction in one partition (WriteTxnMarkers), sent once to the partition's leader."""

from __future__ import annotations

from collections.abc import Sequence

from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.cluster.deadline import Deadline
from kafkawire.client.cluster.request_driver import drive
from kafkawire.client.cluster.routing import leaders
from kafkawire.client.errors import BrokerError, ClientError, ConfigError, ConnectError, OutcomeUnknownError
from kafkawire.client.results import Marked, TopicPartition
from kafkawire.client.rpc.producer_states import describe_producers
from kafkawire.messages import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker, WritableTxnMarkerTopic
from kafkawire.transactions.verdict.abort_rules import Marker

_MOST_EPOCH = 2**15 - 1


def abort_request(marker: Marker) -> WriteTxnMarkersRequest:
    """The request, with transaction version 0: an administrator's marker carries the producer's current epoch, and
    version 2 requires a higher one (KIP-1228). Raises ClientError: the epoch is too large for a marker
    (DescribeProducers has 32 bits for it)."""
    if not 0 <= marker.producer_epoch <= _MOST_EPOCH:
        place = TopicPartition(marker.topic, marker.partition)
        raise ClientError(f"{place}: no marker can be written for producer epoch {marker.producer_epoch}")
    topic = WritableTxnMarkerTopic(name=marker.topic, partition_indexes=(marker.partition,))
    return WriteTxnMarkersRequest(
        markers=(
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=False,
                topics=(topic,),
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=0,
            ),
        )
    )


def marker_refusal(answer: WriteTxnMarkersResponse, partition: TopicPartition) -> BrokerError | None:
    """The error in the response to one marker for one partition; None where it was written."""
    code = next((one.error_code for m in answer.markers for t in m.topics for one in t.partitions), -1)
    if not code:
        return None
    return BrokerError.answering("WriteTxnMarkers", code, f"{partition}: no marker was written")


async def named_marker(
    cluster: Cluster,
    partition: TopicPartition,
    start_offset: int | None,
    epochs: tuple[int | None, int | None, int | None],
    deadline: Deadline,
) -> Marker:
    """The marker that ends a transaction, which is named by its start offset or by `epochs`. `epochs`: producer id,
    producer epoch and coordinator epoch."""
    if start_offset is not None:
        if epochs != (None, None, None):
            raise ConfigError("a transaction is named by a start offset or by a coordinator epoch, never by both")
        states = (await describe_producers(cluster, [partition], deadline))[partition]
        state = next((one for one in states if one.transaction_start_offset == start_offset), None)
        if state is None:
            raise ClientError(f"{partition}: no transaction is open there that began at offset {start_offset}")
        # None: no coordinator has ended a transaction of this producer here. Kafka's tool sends 0 then.
        epochs = state.producer_id, state.producer_epoch, max(state.coordinator_epoch or 0, 0)
    producer_id, producer_epoch, coordinator_epoch = epochs
    if producer_id is None or producer_epoch is None or coordinator_epoch is None:
        raise ConfigError(
            "a transaction is named by a start offset, or by producer id, producer epoch and coordinator epoch"
        )
    return Marker(
        topic=partition.topic,
        partition=partition.partition,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
    )


async def write_abort(cluster: Cluster, marker: Marker, deadline: Deadline) -> Marked:
    """Writes one ABORT marker into one partition. `deadline`: for the leader, and for its response. The request is sent
    once. Raises OutcomeUnknownError: no response came, it may have been written. ClientError: it was not written."""
    request = abort_request(marker)
    partition = TopicPartition(marker.topic, marker.partition)

    async def ask(broker: int, keys: Sequence[TopicPartition]) -> dict[TopicPartition, Marked | ClientError]:
        try:
            answer = await cluster.ask_broker(broker, request, deadline)
        except ConnectError as error:
            unknown = "whether the marker was written is not known: look at the partition again"
            raise OutcomeUnknownError(f"{partition}: {error}; {unknown}") from None
        refusal = marker_refusal(answer, partition)
        if refusal is not None:
            return {partition: refusal}
        return {
            partition: Marked(
                topic_partition=partition,
                broker_id=broker,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
            )
        }

    done = await drive(cluster, [partition], leaders(cluster, deadline), ask, deadline, again=False)
    return done[partition]
