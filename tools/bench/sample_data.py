"""The bytes that are measured: messages, record sets, log segments. Every contestant gets the same.

They are made by the pure-Python engine's public functions; that they are what Kafka writes is checked by every case,
whose Java contestant must write the same bytes back.
"""

from __future__ import annotations

import random
import struct
import uuid
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from kafkawire import records
from kafkawire.messages import (
    ApiVersionsResponse,
    DescribeProducersResponse,
    FetchResponse,
    MetadataResponse,
    ProduceRequest,
    TransactionLogValue,
)
from kafkawire.messages.api_versions_response import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.metadata_response import (
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.wire.message import Message

#: Bytes of one record's key and value together.
RECORD_BYTES = 200
BATCH_RECORDS = 80
#: Of a record set with transactions.
_PRODUCERS = 5
_NOW = 1_700_000_000_000
_FEATURES = ("kraft.version", "metadata.version", "transaction.version", "group.version")
_WORDS = ("leave", "parcel", "at", "the", "door", "ring", "twice", "call", "before", "delivery", "no", "signature")
_BASE_OFFSET = struct.Struct(">q")


def describe_producers() -> Message:
    producers = tuple(ProducerState(4000 + i, 3, i, _NOW + i, 7, -1) for i in range(1000))
    partition = PartitionResponse(active_producers=producers)
    return DescribeProducersResponse(topics=(TopicResponse("topic", (partition,)),))


def metadata() -> Message:
    rng = random.Random(1)
    return MetadataResponse(
        brokers=tuple(
            MetadataResponseBroker(i, f"broker-{i}.kafka.example.org", 9092, f"rack-{i % 3}") for i in range(6)
        ),
        cluster_id="abcdefghijklmnopqrstuv",
        controller_id=1,
        topics=tuple(
            MetadataResponseTopic(
                name=f"topic-name-{topic:04}",
                topic_id=uuid.UUID(int=rng.getrandbits(128)),
                partitions=tuple(
                    MetadataResponsePartition(
                        partition_index=i,
                        leader_id=i % 6,
                        leader_epoch=7,
                        replica_nodes=(i % 6, (i + 1) % 6, (i + 2) % 6),
                        isr_nodes=(i % 6, (i + 1) % 6, (i + 2) % 6),
                    )
                    for i in range(12)
                ),
            )
            for topic in range(100)
        ),
    )


def fetch() -> Message:
    batches = record_set("none", 10 * 500)
    size = len(batches) // 10
    return FetchResponse(
        session_id=17,
        responses=(
            FetchableTopicResponse(
                topic_id=uuid.UUID(int=1 << 100 | 7),
                partitions=tuple(
                    PartitionData(
                        partition_index=i,
                        high_watermark=500,
                        last_stable_offset=500,
                        log_start_offset=0,
                        # Kafka itself sends pieces of batches: a fetch ends where the size limit falls.
                        records=batches[i * size : (i + 1) * size],
                    )
                    for i in range(10)
                ),
            ),
        ),
    )


def produce() -> Message:
    batch = record_set("none", BATCH_RECORDS)
    return ProduceRequest(
        transactional_id="payments-1",
        acks=-1,
        timeout_ms=30_000,
        topic_data=(
            TopicProduceData(name="orders", partition_data=tuple(PartitionProduceData(i, batch) for i in range(3))),
        ),
    )


def transaction_log_value() -> Message:
    return TransactionLogValue(
        producer_id=134132,
        producer_epoch=23,
        transaction_timeout_ms=60_000,
        transaction_status=1,
        transaction_partitions=tuple(
            PartitionsSchema(topic, (0, 7)) for topic in ("orders", "payments-eu-west-1", "__consumer_offsets")
        ),
        transaction_last_update_timestamp_ms=_NOW,
        transaction_start_timestamp_ms=_NOW - 1000,
        client_transaction_version=2,
    )


def api_versions() -> Message:
    return ApiVersionsResponse(
        api_keys=tuple(ApiVersion(i, 0, i % 14) for i in range(80)),
        supported_features=tuple(SupportedFeatureKey(name, 0, 3) for name in _FEATURES),
        finalized_features_epoch=1234,
        finalized_features=tuple(FinalizedFeatureKey(name, 25, 1) for name in _FEATURES),
    )


#: Name of a message -> what makes it.
MESSAGES: dict[str, Callable[[], Message]] = {
    "DescribeProducersResponse": describe_producers,
    "MetadataResponse": metadata,
    "FetchResponse": fetch,
    "ProduceRequest": produce,
    "TransactionLogValue": transaction_log_value,
    "ApiVersionsResponse": api_versions,
}


def transaction_log_values(count: int) -> list[bytes]:
    """Values of `__transaction_state`, version 1, without their prefix: no two alike."""
    rng = random.Random(2)
    topics = ("orders", "payments-eu-west-1", "__consumer_offsets")
    return [
        TransactionLogValue(
            producer_id=4000 + i,
            producer_epoch=i % 1000,
            transaction_timeout_ms=60_000,
            transaction_status=i % 6,
            transaction_partitions=tuple(
                PartitionsSchema(topic, (rng.randrange(50), rng.randrange(50, 100))) for topic in topics
            ),
            transaction_last_update_timestamp_ms=_NOW + i,
            transaction_start_timestamp_ms=_NOW + i - 1000,
            client_transaction_version=2,
        ).encode(1)
        for i in range(count)
    ]


def _payloads(count: int) -> Iterator[records.Record]:
    """Records with a key of 10 bytes and a value of 190: orders as JSON, which compress like real ones."""
    rng = random.Random(3)
    for i in range(count):
        value = (
            f'{{"order":{10_000_000 + i},"customer":"c-{rng.randrange(10**6):06}","currency":"EUR",'
            f'"amount":{rng.randrange(10**6) / 100:.2f},"status":"{rng.choice(("paid", "open", "void"))}",'
            f'"token":"{rng.getrandbits(128):032x}","note":"'
        )
        note = " ".join(rng.choices(_WORDS, k=20))
        value += note[: RECORD_BYTES - 12 - len(value)] + '"}'
        yield records.Record(key=b"%010d" % i, value=value.encode(), timestamp=_NOW + i // 10)


def record_set(codec: str, count: int, *, batch: int = BATCH_RECORDS, transaction: int = 0) -> bytes:
    """Batches of `batch` records.

    Args:
        codec: of the batches. `count`: records in all.
        transaction: how many batches a producer has in each of its transactions, which are committed; 0: none are in
            transactions. Five producers take turns.
    """
    rows = _payloads(count)
    out, offset = [], 0
    for number in range(-(-count // batch)):
        turn, producer_id = divmod(number, _PRODUCERS)
        size = min(batch, count - number * batch)
        data = records.build(
            islice(rows, size),
            base_offset=offset,
            codec=codec,
            producer_id=7 + producer_id if transaction else 7,
            producer_epoch=1,
            base_sequence=offset,
            transactional=transaction > 0,
        )
        out.append(data)
        offset += size
        if transaction and turn % transaction == transaction - 1:
            marker = records.build_marker(
                "COMMIT", offset=offset, timestamp=_NOW, producer_id=7 + producer_id, producer_epoch=1,
                coordinator_epoch=0,
            )  # fmt: skip
            out.append(marker)
            offset += 1
    return b"".join(out)


def write_segment(path: Path, batches: bytes, times: int) -> None:
    """A segment with a record set `times` over, its offsets counted on (they are no part of a batch's checksum)."""
    listed = [(batch.position, batch.base_offset, batch.last_offset) for batch in map(_sound, records.read(batches))]
    count = listed[-1][-1] + 1
    again = bytearray(batches)
    with path.open("wb") as file:
        for time in range(times):
            for position, offset, _ in listed:
                _BASE_OFFSET.pack_into(again, position, offset + time * count)
            file.write(again)


def _sound(item: records.Batch | records.Damage) -> records.Batch:
    assert isinstance(item, records.Batch)
    return item
