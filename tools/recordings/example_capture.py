"""examples/capture: the traffic of real clients, an operator and a broker, recorded with tcpdump."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from kafkawire.messages.describe_producers_request import TopicRequest
from tools.broker import cluster

from . import RecordingError, broker_answers, clients
from .clients import Service, order
from .raw_client import RawCluster, RawProducer, expect
from .tcpdump import recorded
from .transaction_recipes import CONFIG, HOUR, INVALID_TXN_STATE, MINUTE

PORT = 9092  # where Wireshark looks for Kafka
TOPICS = {"orders": 2, "payments": 1}
_TRANSACTIONAL_ID_NOT_FOUND = 105
_UNKNOWN_TOPIC_OR_PARTITION = 3


class RecordedAbort(msgspec.Struct, frozen=True, kw_only=True):
    """A hanging transaction that was made and aborted while the capture ran."""

    by: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    last_stable_offset_before: int
    last_stable_offset_after: int


def make(path: Path, *, cache: Path | None = None) -> dict[str, Any]:
    """Records one capture; the truth about it, as JSON values. Port 9092 has to be free."""
    with cluster(1, config=CONFIG, port=PORT, cache=cache) as running, recorded(path, PORT):
        bootstrap = running.bootstrap
        with RawCluster(bootstrap) as wire:
            now = clients.now()
            clients.create_topics(bootstrap, TOPICS)
            _applications(bootstrap, now)
            aborts = [_abort_with_kafka_transactions(wire, now), _abort_by_hand(wire, now)]
            _questions(wire)
            truth = broker_answers.ask_until(
                wire, TOPICS, lambda truth: not any(state.open for state in truth.producers)
            )
        if any(state.open for state in truth.producers):
            raise RecordingError(f"a transaction is still open: {truth.producers}")
    return {
        "port": PORT,
        "topics": dict(TOPICS),
        "aborts": broker_answers.as_json(aborts),
        "exchanges_by_hand": broker_answers.as_json(wire.exchanges),
        **broker_answers.as_json(truth),
    }


def _applications(bootstrap: str, now: int) -> None:
    orders = Service(bootstrap, "orders-service")
    invoices = Service(bootstrap, "invoices-service", codec="lz4")
    orders.transaction({("orders", 0): range(4), ("orders", 1): range(4, 8)}, timestamp=now - 10 * MINUTE)
    orders.transaction({("orders", 0): range(8, 10)}, timestamp=now - 9 * MINUTE, committed=False)
    orders.transaction({("orders", 1): range(10, 12)}, timestamp=now - 8 * MINUTE)
    invoices.transaction({("payments", 0): range(100, 120)}, timestamp=now - 7 * MINUTE)
    invoices.transaction({("payments", 0): range(120, 125)}, timestamp=now - 6 * MINUTE, committed=False)

    reader = clients.consumer(bootstrap, "shipments")
    shipments = Service(bootstrap, "shipments-service")
    clients.copy_exactly_once(shipments, reader, [("orders", 0), ("orders", 1)], ("payments", 0), bytes.upper)
    reader.close()

    auditor = clients.consumer(bootstrap, "auditors")
    auditor.subscribe(["payments"])
    clients.consume(auditor, [("payments", 0)])
    auditor.close()

    clients.java_transactions(bootstrap, "payments", "java-service", records=60, per_second=150, duration_ms=100)
    clients.java_consumer(bootstrap, "payments", "java-auditors", records=60)


def _hang(
    wire: RawCluster, transactional_id: str, topic: str, partition: int, timestamp: int
) -> tuple[RawProducer, int]:
    producer = wire.init_producer(transactional_id)
    start = wire.produce(topic, partition, [order(n) for n in range(900, 903)], producer, timestamp=timestamp)
    expect(wire.end(producer, committed=True), INVALID_TXN_STATE, "EndTxn of a transaction that no coordinator knows")
    return producer, start


def _blocked(wire: RawCluster, topic: str, partition: int, start: int) -> int:
    """The last stable offset, once nothing but the transaction from `start` on holds it back."""

    def stops_there(found: broker_answers.Truth) -> bool:
        return found.offsets_of(topic, partition).last_stable_offset == start

    return broker_answers.ask_until(wire, [topic], stops_there).offsets_of(topic, partition).last_stable_offset


def _abort(
    wire: RawCluster, by: str, topic: str, partition: int, producer: RawProducer, start: int, before: int
) -> RecordedAbort:
    truth = broker_answers.ask_until(
        wire, [topic], lambda truth: truth.offsets_of(topic, partition).last_stable_offset not in (before, start)
    )
    state = truth.producer(topic, partition, producer.producer_id)
    after = truth.offsets_of(topic, partition).last_stable_offset
    if state.open or not before == start < after:
        raise RecordingError(f"the abort has not freed {topic}-{partition}: {state}, {before} -> {after}")
    return RecordedAbort(
        by=by,
        topic=topic,
        partition=partition,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        start_offset=start,
        last_stable_offset_before=before,
        last_stable_offset_after=after,
    )


def _abort_with_kafka_transactions(wire: RawCluster, now: int) -> RecordedAbort:
    """An operator finds a hanging transaction with kafka-transactions.sh and aborts it."""
    topic, partition = "orders", 1
    producer, start = _hang(wire, "orders-archiver", topic, partition, now - 3 * HOUR)
    before = _blocked(wire, topic, partition, start)
    place = ["--topic", topic, "--partition", str(partition)]
    clients.kafka_transactions(wire.bootstrap, "list")
    clients.kafka_transactions(wire.bootstrap, "describe", "--transactional-id", "orders-service")
    clients.kafka_transactions(wire.bootstrap, "describe-producers", *place)
    found = clients.kafka_transactions(wire.bootstrap, "find-hanging", "--topic", topic)
    if str(producer.producer_id) not in found.split():
        raise RecordingError(f"kafka-transactions.sh does not find producer id {producer.producer_id}:\n{found}")
    clients.kafka_transactions(wire.bootstrap, "abort", *place, "--start-offset", str(start))
    return _abort(wire, "kafka-transactions.sh abort", topic, partition, producer, start, before)


def _abort_by_hand(wire: RawCluster, now: int) -> RecordedAbort:
    """The same with single requests: WriteTxnMarkers v1 over the client's listener."""
    topic, partition = "payments", 0
    producer, start = _hang(wire, "payments-archiver", topic, partition, now - 2 * HOUR)
    before = _blocked(wire, topic, partition, start)
    state = broker_answers.ask(wire, [topic]).producer(topic, partition, producer.producer_id)
    wire.write_marker(topic, partition, producer, coordinator_epoch=max(state.coordinator_epoch, 0))
    return _abort(wire, "WriteTxnMarkers v1", topic, partition, producer, start, before)


def _questions(wire: RawCluster) -> None:
    """Every version of what operators ask, and answers with errors in them."""
    peer = wire.connection(-1)
    peer.ask_api_versions_of_the_future(99)
    software = ApiVersionsRequest(client_software_name="kafkawire", client_software_version="examples")
    for version in ApiVersionsRequest.spec.valid_versions:
        peer.ask(software, version, ApiVersionsResponse)
    for version in ListTransactionsRequest.spec.valid_versions:
        peer.ask(ListTransactionsRequest(), version, ListTransactionsResponse)
    some = ListTransactionsRequest(state_filters=("CompleteCommit", "NoSuchState"), producer_id_filters=(0, 1, 2))
    peer.ask(some, 0, ListTransactionsResponse)
    unknown = DescribeTransactionsRequest(transactional_ids=("orders-service", "nobody"))
    described = peer.ask(unknown, 0, DescribeTransactionsResponse)
    codes_of_ids = [state.error_code for state in described.transaction_states]
    expect(codes_of_ids, [0, _TRANSACTIONAL_ID_NOT_FOUND], "DescribeTransactions")
    asked = tuple(TopicRequest(name=name, partition_indexes=(0, 1)) for name in TOPICS)
    producers = peer.ask(DescribeProducersRequest(topics=asked), 0, DescribeProducersResponse)
    codes = {(t.name, p.partition_index): p.error_code for t in producers.topics for p in t.partitions}
    known = dict.fromkeys((("orders", 0), ("orders", 1), ("payments", 0)), 0)
    expect(codes, {**known, ("payments", 1): _UNKNOWN_TOPIC_OR_PARTITION}, "DescribeProducers")
