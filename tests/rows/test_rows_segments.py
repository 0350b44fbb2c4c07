"""Rows of batches, records and damage: their fields, which of them are optional, and redacted secrets."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from kafkawire import records, rows
from kafkawire.messages import ConfigRecord, TransactionLogKey, TransactionLogValue

PLACE = {"file": "0.log", "topic": "orders", "partition": 3}


def batch_of(data: bytes) -> records.Batch:
    (batch,) = records.read(data)
    assert isinstance(batch, records.Batch)
    return batch


def row_of(record: records.Record, topic: str = "orders", **options: Any) -> rows.RecordRow:
    batch = batch_of(records.build([record]))
    (read,) = batch.records
    return rows.RecordRow.of(read, batch, None, file="0.log", topic=topic, partition=3, **options)


def test_batch_row_has_the_fields_of_its_batch() -> None:
    options: dict[str, Any] = {"base_offset": 7, "producer_id": 5, "producer_epoch": 2, "base_sequence": 9}
    data = records.build([records.Record(b"k", timestamp=50)] * 2, codec="gzip", delete_horizon=40, **options)
    batch = batch_of(data)
    row = rows.BatchRow.of(batch, None, file="0.log", topic="orders", partition=3)
    assert rows.to_dict(row) == PLACE | {
        "kind": "batch",
        "position": 0,
        "base_offset": 7,
        "last_offset": 8,
        "records": 2,
        "magic": 2,
        "codec": "gzip",
        "crc": batch.crc,
        "size": len(data),
        "timestamp": 50,
        "timestamp_type": "CreateTime",
        "producer_id": 5,
        "producer_epoch": 2,
        "sequence": 9,
        "last_sequence": 10,
        "leader_epoch": -1,
        "transactional": False,
        "control": None,
        "coordinator_epoch": None,
        "delete_horizon": 40,
    }


def marker() -> records.Batch:
    options: dict[str, Any] = {"timestamp": 5, "producer_id": 1, "producer_epoch": 0}
    return batch_of(records.build_marker("ABORT", offset=4, coordinator_epoch=9, **options))


def test_marker_rows_have_control_type_and_coordinator_epoch() -> None:
    batch = marker()
    (record,) = batch.records
    row = rows.BatchRow.of(batch, batch.control)
    assert (row.control, row.coordinator_epoch, row.transactional) == ("ABORT", 9, True)
    shown = rows.RecordRow.of(record, batch, batch.control, payload=True)
    assert (shown.control, shown.coordinator_epoch) == ("ABORT", 9)
    assert isinstance(shown.decoded, dict)
    assert shown.decoded["key"]["data"] == {"type": 0}
    assert shown.decoded["value"]["data"] == {"coordinatorEpoch": 9}


def test_record_row_has_only_the_requested_fields() -> None:
    record = records.Record(b"k", b"\xff\xfe", (records.Header("h", b"v"), records.Header("i", b"\xff")), timestamp=50)
    bare = rows.to_dict(row_of(record, metadata=False))
    assert bare == PLACE | {"kind": "record", "position": 0, "offset": 0}
    metadata = rows.to_dict(row_of(record))
    assert metadata == bare | {
        "timestamp": 50,
        "timestamp_type": "CreateTime",
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
        "transactional": False,
        "control": None,
        "coordinator_epoch": None,
        "key_size": 1,
        "value_size": 2,
    }
    everything = rows.to_dict(row_of(record, payload=True))
    assert everything == metadata | {
        "key": "k",
        "key_base64": None,
        "value": None,
        "value_base64": "//4=",
        "headers": (
            {"key": "h", "value": "v", "value_base64": None},
            {"key": "i", "value": None, "value_base64": "/w=="},
        ),
        "decoded": None,
    }
    nulls = row_of(records.Record())
    assert (nulls.key_size, nulls.value_size) == (None, None)


def test_record_row_decodes_internal_topics() -> None:
    key = TransactionLogKey(transactional_id="t").encode_prefixed(version=0)
    record = records.Record(key, TransactionLogValue(producer_id=5).encode_prefixed(version=0))
    for row in (
        row_of(record, "__transaction_state", payload=True),
        row_of(record, "orders", payload=True, decode_as="__transaction_state"),
    ):
        assert isinstance(row.decoded, dict)
        assert row.decoded["key"]["data"] == {"transactionalId": "t"}
        assert row.decoded["value"]["data"]["producerId"] == 5
    assert row_of(record, payload=True).decoded is None


@pytest.mark.parametrize("name", ["ssl.key.password", "retention.ms"])
@pytest.mark.parametrize(
    ("topic", "options"), [("__cluster_metadata", {}), ("copied", {"decode_as": "__cluster_metadata"})]
)
def test_record_row_redacts_secrets_unless_they_are_requested(name: str, topic: str, options: dict[str, Any]) -> None:
    config = ConfigRecord(resource_type=4, resource_name="1", name=name, value="hunter2")
    assert config.spec.api_key is not None
    record = records.Record(None, bytes([1, config.spec.api_key, 0]) + config.encode(version=0))
    row = row_of(record, topic, payload=True, **options)
    shown = row_of(record, topic, payload=True, show_secrets=True, **options)
    assert "hunter2" in str(rows.to_dict(shown))
    if name == "retention.ms":
        assert row == shown
    else:
        assert (row.value, row.value_base64) == ("[redacted]", None)
        assert "hunter2" not in str(rows.to_dict(row))
        assert row.value_size == len(record.value or b"")


def test_damage_row_has_the_fields_of_its_damage() -> None:
    found = records.Damage(9, "preallocated", "5 zero bytes up to the end")
    row = rows.DamageRow.of(found, file="0.log", topic="orders", partition=3)
    assert rows.to_dict(row) == PLACE | {
        "kind": "damage",
        "position": 9,
        "reason": "preallocated",
        "detail": "5 zero bytes up to the end",
        "resumed_at": None,
        "harmless": True,
    }


@pytest.mark.parametrize("payload", [False, True])
@pytest.mark.parametrize("metadata", [False, True])
def test_fields_lists_the_set_fields_of_a_row(payload: bool, metadata: bool) -> None:
    row = row_of(records.Record(b"k", b"v"), payload=payload, metadata=metadata)
    there = [name for name in rows.field_names(rows.RecordRow) if getattr(row, name) is not UNSET]
    assert list(rows.RecordRow.fields(payload=payload, metadata=metadata)) == there
