"""Keys and values of the internal topics."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.messages import (
    ConfigRecord,
    ConsumerGroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    ProducerIdsRecord,
    TransactionLogKey,
    TransactionLogValue,
)
from kafkawire.records import INTERNAL_TOPICS, Decoded, decode_key, decode_value, decoded
from kafkawire.records.internal_topics import CLUSTER_METADATA, COORDINATOR_TOPICS

TRANSACTIONS, OFFSETS = "__transaction_state", "__consumer_offsets"


def test_transaction_state() -> None:
    key = TransactionLogKey(transactional_id="orders-1")
    value = TransactionLogValue(producer_id=4001, producer_epoch=3, transaction_status=1)
    key_bytes, value_bytes = key.encode_prefixed(version=0), value.encode_prefixed(version=1)
    assert decode_key(TRANSACTIONS, key_bytes) == Decoded("TransactionLogKey", 0, key)
    assert decode_value(TRANSACTIONS, key_bytes, value_bytes) == Decoded("TransactionLogValue", 1, value)


def test_keys_distinguish_messages_of_consumer_offsets() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=7, commit_timestamp=9)
    key_bytes = key.encode_prefixed(version=0)
    assert key_bytes[:2] == b"\0\1"
    assert decode_key(OFFSETS, key_bytes) == Decoded("OffsetCommitKey", 0, key)
    assert decode_value(OFFSETS, key_bytes, value.encode_prefixed(version=3)) == Decoded("OffsetCommitValue", 3, value)
    other = ConsumerGroupMetadataKey(group_id="g").encode_prefixed(version=0)
    assert decode_key(OFFSETS, other).name == "ConsumerGroupMetadataKey"  # type: ignore[union-attr]
    assert decode_value(OFFSETS, other, b"\0\0\0\0\0\1\0").name == "ConsumerGroupMetadataValue"  # type: ignore[union-attr]


def test_cluster_metadata() -> None:
    record = ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=4000)
    assert record.spec.api_key is not None
    data = bytes([1, record.spec.api_key, 0]) + record.encode(version=0)
    assert decode_value(CLUSTER_METADATA, None, data) == Decoded("ProducerIdsRecord", 0, record)
    assert decode_key(CLUSTER_METADATA, None) is None


def test_tombstones_and_other_topics() -> None:
    assert decode_value(TRANSACTIONS, b"\0\0\0\1x", None) is None
    assert decode_key("orders", b"\0\0") is None
    assert decode_value("orders", b"\0\0", b"\0\0") is None


def test_key_and_value_as_json() -> None:
    key = TransactionLogKey(transactional_id="orders-1").encode_prefixed(version=0)
    value = TransactionLogValue(producer_id=4001).encode_prefixed(version=1)
    found = decoded(TRANSACTIONS, key, value)
    assert found is not None
    assert found["key"] == {"name": "TransactionLogKey", "version": 0, "data": {"transactionalId": "orders-1"}}
    assert (found["value"]["name"], found["value"]["version"]) == ("TransactionLogValue", 1)
    assert found["value"]["data"]["producerId"] == 4001
    tombstone = decoded(TRANSACTIONS, key, None)
    assert tombstone == {"key": found["key"], "value": None}
    assert decoded(CLUSTER_METADATA, b"ignored", None) == {"key": None, "value": None}


def test_secrets_are_hidden_unless_they_are_asked_for() -> None:
    record = ConfigRecord(resource_type=4, resource_name="1", name="ssl.key.password", value="hunter2")
    assert record.spec.api_key is not None
    data = bytes([1, record.spec.api_key, 0]) + record.encode(version=0)
    hidden, shown = (decoded(CLUSTER_METADATA, None, data, show_secrets=show) for show in (False, True))
    assert hidden is not None
    assert shown is not None
    assert (hidden["value"]["data"]["value"], shown["value"]["data"]["value"]) == ("[redacted]", "hunter2")


@pytest.mark.parametrize("topic", [None, "orders", "__transaction_state2"])
def test_other_topics_hold_no_messages(topic: str | None) -> None:
    assert decoded(topic, b"\0\0", b"\0\1") is None
    assert topic not in INTERNAL_TOPICS


@pytest.mark.parametrize(
    ("topic", "key", "value", "expected"),
    [
        (TRANSACTIONS, b"\0\x09", b"\0\1", Decoded(version=1, problem="unknown key type 9")),
        (TRANSACTIONS, b"\0", b"\0\1", Decoded(version=1, problem="no key type at its beginning")),
        (TRANSACTIONS, None, b"\0\1", Decoded(version=1, problem="no key type at its beginning")),
        (CLUSTER_METADATA, None, b"\1\x7f\0", Decoded(version=0, problem="unknown record type 127")),
        (CLUSTER_METADATA, None, b"\2\0\0", Decoded(problem="frame version 2; 1 is known")),
        (
            CLUSTER_METADATA,
            None,
            b"\1",
            Decoded(problem="no frame version, api key and version in front"),
        ),
    ],
)
def test_reports_unknown_types(topic: str, key: bytes | None, value: bytes, expected: Decoded) -> None:
    assert decode_value(topic, key, value) == expected


def test_unknown_versions_and_malformed_values() -> None:
    key = TransactionLogKey(transactional_id="t").encode_prefixed(version=0)
    newer = decode_value(TRANSACTIONS, key, b"\0\x63rest")
    assert newer == Decoded("TransactionLogValue", 99, None, "TransactionLogValue has no version 99; it has 0-1")
    short = decode_value(TRANSACTIONS, key, b"\0\0\0")
    assert short is not None
    assert short.message is None
    assert "producer_id" in str(short.problem)


@given(st.sampled_from([*COORDINATOR_TOPICS, CLUSTER_METADATA]), st.integers(0, 20), st.binary(max_size=60))
def test_any_bytes_are_described(topic: str, number: int, data: bytes) -> None:
    key = number.to_bytes(2, "big") + data
    for found in (decode_key(topic, key), decode_value(topic, key, data)):
        assert found is None or (found.message is None) != (found.problem is None)
