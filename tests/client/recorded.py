"""Recorded log directories, served by a mock broker as the leader of all their partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkawire import logdir
from kafkawire.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FetchRequest,
    FetchResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafkawire.messages.describe_transactions_response import TopicData
from kafkawire.messages.describe_transactions_response import TransactionState as Described
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.list_transactions_response import TransactionState as Listed
from kafkawire.records import Batch
from kafkawire.testing import MockBroker
from kafkawire.testing.state.stored_partition import PartitionLog, Stored
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, replica_facts
from kafkawire.transactions.coordinator.coordinator_log import coordinator_records, registration
from kafkawire.transactions.coordinator.coordinator_rules import state_name
from kafkawire.transactions.facts import CLUSTER_METADATA, TRANSACTION_STATE, CoordinatorRecord, Registration
from kafkawire.transactions.log.producer_append import append_of
from kafkawire.transactions.log.replay import Replay
from kafkawire.transactions.parts.replica_files import place_of, read_snapshot, replicas
from kafkawire.transactions.verdict.cluster_facts import choose_replicas

_NOT_FOUND, _DENIED = 105, 29


def denied(request: FetchRequest) -> FetchResponse:
    """TOPIC_AUTHORIZATION_FAILED for all partitions of the one topic that is fetched."""
    (topic,) = request.topics
    parts = tuple(
        PartitionData(partition_index=one.partition, error_code=_DENIED, high_watermark=-1, records=b"")
        for one in topic.partitions
    )
    return FetchResponse(responses=(FetchableTopicResponse(topic=topic.topic, partitions=parts),))


def serving(path: Path, hidden: str = "") -> MockBroker:
    """A broker with these logs. They stay as they are: its coordinator has the recorded ids, and no clock.

    Args:
        hidden: a topic that clients do not get.
    """
    chosen = leaders(path)
    topics: dict[str, int] = {}
    for one in chosen:
        if one.topic == hidden:
            continue
        topics[one.topic] = max(topics.get(one.topic, 0), one.partition + 1)
    broker = MockBroker(topics, auto_create_partitions=0)
    ids: dict[str, Registration] = {}
    for one in chosen:
        if one.topic != hidden:
            _fill(broker._log(one.topic, one.partition), one)
            if one.topic_id is not None:  # records have it
                broker._topics.identify(one.topic, one.topic_id)
        for found in _registrations(one):
            ids[found.transactional_id] = found
    broker.on(ListTransactionsRequest, lambda request: _listed(ids, request))
    broker.on(DescribeTransactionsRequest, lambda request: _described(ids, request))
    return broker


def leaders(path: Path) -> list[logdir.Partition]:
    """Of each partition the replica that reaches furthest; without the controllers' log, which no client reads."""
    found = {place_of(one): one for one in replicas(logdir.open(str(path))) if one.topic != CLUSTER_METADATA}
    facts = (replica_facts(AuditedReplica(one)).partition for one in found.values())
    return [found[fact.place] for fact in choose_replicas(facts)]


def _batches(partition: logdir.Partition) -> Iterator[Batch]:
    return (item for item in partition if isinstance(item, Batch))


def _fill(log: PartitionLog, partition: logdir.Partition) -> None:
    entries, _ = read_snapshot(partition)
    log.replay = Replay(entries)
    for batch in _batches(partition):
        data = bytes(batch.data)
        log.batches.append(Stored(batch.base_offset, batch.last_offset, batch.max_timestamp, data))
        append = append_of(batch)
        ended = None if append is None else log.replay.add(append)
        if ended is not None and ended.aborted is not None:
            log.aborted.append(ended.aborted)
    log.start = partition.log_start_offset or 0
    log.end = max(log.start, log.batches[-1].last_offset + 1 if log.batches else 0)


def _registrations(partition: logdir.Partition) -> Iterator[Registration]:
    if partition.topic != TRANSACTION_STATE:
        return
    for batch in _batches(partition):
        for record in coordinator_records(batch):
            assert isinstance(record, CoordinatorRecord)
            found = registration(place_of(partition), record)
            assert isinstance(found, Registration)
            yield found


def _listed(ids: dict[str, Registration], request: Any) -> ListTransactionsResponse:
    states = tuple(
        Listed(
            transactional_id=name,
            producer_id=found.value.producer_id,
            transaction_state=state_name(found.value.transaction_status),
        )
        for name, found in ids.items()
        if found.value is not None
        and (not request.producer_id_filters or found.value.producer_id in request.producer_id_filters)
    )
    return ListTransactionsResponse(transaction_states=states)


def _described(ids: dict[str, Registration], request: Any) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=tuple(_state(name, ids.get(name)) for name in request.transactional_ids)
    )


def _state(name: str, found: Registration | None) -> Described:
    value = None if found is None else found.value
    if value is None:
        return Described(error_code=_NOT_FOUND, transactional_id=name)
    return Described(
        transactional_id=name,
        transaction_state=state_name(value.transaction_status),
        transaction_timeout_ms=value.transaction_timeout_ms,
        transaction_start_time_ms=value.transaction_start_timestamp_ms,
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        topics=tuple(
            TopicData(topic=one.topic, partitions=one.partition_ids) for one in value.transaction_partitions or ()
        ),
    )
