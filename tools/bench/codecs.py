"""The messages that are measured, and the engines that read and write them."""

from __future__ import annotations

import io
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kafkawire.messages import (
    ApiVersionsResponse,
    DescribeProducersResponse,
    MetadataResponse,
    TransactionLogValue,
)
from kafkawire.messages.api_versions_response import ApiVersion
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.wire.message import Message


@dataclass(frozen=True)
class Case:
    """One message in one version; `module` is kio's name for its API, `response` whether it is a response."""

    title: str
    message: Message
    version: int
    module: str | None = None


@dataclass(frozen=True)
class Engine:
    """What reads the case's bytes and writes its value; `write` takes no argument, it holds the value."""

    name: str
    read: Callable[[], Any]
    write: Callable[[], Any]


def cases() -> list[Case]:
    producers = tuple(ProducerState(4000 + i, 3, i, 1_700_000_000_000 + i, 7, -1) for i in range(1000))
    partitions = tuple(
        MetadataResponsePartition(partition_index=i, leader_id=1, replica_nodes=(1, 2, 3), isr_nodes=(1, 2, 3))
        for i in range(12)
    )
    topics = tuple(
        MetadataResponseTopic(name=f"topic-{i:04}", topic_id=uuid.UUID(int=i + 1), partitions=partitions)
        for i in range(100)
    )
    brokers = tuple(MetadataResponseBroker(i, f"broker-{i}.example.org", 9092) for i in range(3))
    log_value = TransactionLogValue(
        producer_id=134132,
        producer_epoch=23,
        transaction_timeout_ms=60000,
        transaction_status=1,
        transaction_partitions=tuple(PartitionsSchema(f"topic-{i:04}", (0, 1)) for i in range(3)),
        transaction_last_update_timestamp_ms=1_700_000_000_000,
        transaction_start_timestamp_ms=1_700_000_000_000,
        client_transaction_version=2,
    )
    apis = tuple(ApiVersion(i, 0, 12) for i in range(80))
    producers_response = DescribeProducersResponse(
        topics=(TopicResponse("topic", (PartitionResponse(active_producers=producers),)),)
    )
    return [
        Case("DescribeProducersResponse v0, 1000 producers", producers_response, 0, "describe_producers"),
        Case(
            "MetadataResponse v12, 100 topics x 12 partitions",
            MetadataResponse(brokers=brokers, topics=topics, cluster_id="kafkawire"),
            12,
            "metadata",
        ),
        Case("ApiVersionsResponse v3, 80 APIs", ApiVersionsResponse(api_keys=apis), 3, "api_versions"),
        Case("TransactionLogValue v1, 3 topics x 2 partitions", log_value, 1),
    ]


def engines(case: Case) -> Iterator[Engine]:
    """kafkawire first, then its interpreter, then the peers that are installed and know the message.

    Every engine must give the case's bytes back before it is measured.
    """
    cls, version = type(case.message), case.version
    data = case.message.encode(version)
    yield Engine("kafkawire", lambda: cls.decode(data, version), lambda: case.message.encode(version))
    yield Engine(
        "kafkawire, strict", lambda: cls.decode(data, version, strict=True), lambda: case.message.encode(version)
    )
    yield Engine(
        "interpreter",
        lambda: cls.codec.interpret(data, version),
        lambda: cls.codec.interpret_encode(case.message, version),
    )
    if case.module:
        for make in (_kio, _kafka_python):
            engine = make(case, data)
            if engine is not None:
                assert engine.write() == data, f"{engine.name} writes other bytes of {case.title}"
                yield engine


def _kio(case: Case, data: bytes) -> Engine | None:
    try:
        from importlib import import_module

        from kio.serial import entity_reader, entity_writer
    except ImportError:
        return None
    module = import_module(f"kio.schema.{case.module}.v{case.version}.response")
    entity = getattr(module, case.message.spec.name)
    reader, writer = entity_reader(entity), entity_writer(entity)
    value = reader(data, 0)[0]

    def write() -> bytes:
        out = io.BytesIO()
        writer(out, value)
        return out.getvalue()

    return Engine("kio", lambda: reader(data, 0), write)


def _kafka_python(case: Case, data: bytes) -> Engine | None:
    try:
        from kafka.protocol import admin, metadata
    except ImportError:
        return None
    name = case.message.spec.name
    cls = getattr(metadata, name, None) or getattr(admin, name, None)
    if cls is None:
        return None
    value = cls.decode(data, version=case.version)
    value._header = None  # decoding without a header leaves it unset, and encoding asks for it
    return Engine(
        "kafka-python",
        lambda: cls.decode(data, version=case.version),
        lambda: bytes(value.encode(version=case.version)),
    )
