"""Writing batches: what is written is read; what no format can carry is refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from kafkawire.errors import EncodeError
from kafkawire.messages import EndTxnMarker, KRaftVersionRecord, LeaderChangeMessage, SnapshotHeaderRecord
from kafkawire.records import Batch, Header, Record, build, build_control, build_marker, read
from kafkawire.testing.strategies import batches
from tests.records.record_bytes import one


@given(batches())
def test_round_trip(built: tuple[list[Record], dict[str, object]]) -> None:
    listed, options = built
    batch = one(build(listed, **options))  # type: ignore[arg-type]
    for name in ("base_offset", "last_offset", "codec", "producer_id", "producer_epoch", "base_sequence"):
        assert getattr(batch, name) == options[name]
    for name in ("partition_leader_epoch", "transactional", "delete_horizon"):
        assert getattr(batch, name) == options[name]
    stamped = options["append_time"]
    assert batch.timestamp_type == ("CreateTime" if stamped is None else "LogAppendTime")
    assert batch.max_timestamp == (max((r.timestamp for r in listed), default=-1) if stamped is None else stamped)
    got = list(batch.records)
    assert [(r.key, r.value, r.headers, r.offset) for r in got] == [
        (r.key, r.value, r.headers, r.offset) for r in listed
    ]
    assert [r.timestamp for r in got] == [r.timestamp if stamped is None else stamped for r in listed]


def test_a_header_key_that_is_no_utf8_is_kept() -> None:
    data = build([Record(headers=(Header(b"\xff\xfe".decode("utf-8", "surrogateescape"), b""),))])
    (record,) = one(data).records
    assert build([record]) == data


LONE = "a\ud800"

REFUSED = [
    ([Record()], {"codec": "brotli"}, "codec", "no known codec: brotli; known are none, gzip, snappy, lz4, zstd"),
    ([Record()], {"base_offset": 10, "last_offset": 8}, "last_offset", "8 lies below"),
    ([Record(), Record()], {"last_offset": 0}, "last_offset", "0 lies below"),
    ([], {"base_offset": 10, "last_offset": 9}, "last_offset", "9 lies below"),
    ([], {}, "last_offset", "needs its last_offset"),
    ([Record()], {"producer_epoch": 1 << 15}, "", "a header field does not fit"),
    ([Record()], {"last_offset": 1 << 31}, "", "a header field does not fit"),
    ([Record(offset=4), Record(offset=4)], {}, "records[1].offset", "offset 4 after 4"),
    ([Record(offset=3)], {"base_offset": 4}, "records[0].offset", "offset 3 after 3"),
    (
        [Record(), Record(timestamp=1 << 63)],
        {"append_time": 5},
        "records[1].timestamp",
        "a timestamp of 9223372036854775808",
    ),
    ([Record(), Record(timestamp=-(1 << 63) - 1)], {}, "records[1].timestamp", "a timestamp of -9223372036854775809"),
    (
        [Record(headers=(Header("ok"), Header(LONE)))],
        {},
        "records[0].headers[1].key",
        "character 1 is a lone surrogate",
    ),
    ([Record()], {"magic": 3}, "magic", "no known magic: 3; known are 0, 1 and 2"),
]


@pytest.mark.parametrize(("listed", "options", "path", "reason"), REFUSED, ids=[reason for *_, reason in REFUSED])
def test_rejects_what_the_format_cannot_carry(
    listed: list[Record], options: dict[str, Any], path: str, reason: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        build(listed, **options)
    assert caught.value.path == path
    assert reason in str(caught.value)


def test_offsets_that_are_not_given_count_on() -> None:
    listed = [Record(b"a"), Record(b"b", offset=9), Record(b"c")]
    (batch,) = read(build(listed, base_offset=4))
    assert isinstance(batch, Batch)
    assert [(record.key, record.offset) for record in batch.records] == [(b"a", 4), (b"b", 9), (b"c", 10)]
    assert (batch.base_offset, batch.last_offset) == (4, 10)


def test_records_without_a_timestamp_get_that_of_the_call() -> None:
    listed = [Record(value=b"a"), Record(value=b"b", timestamp=7), Record(value=b"c", timestamp=0)]
    (batch,) = read(build(listed, timestamp=5))
    assert [record.timestamp for record in batch.records] == [5, 7, 0]
    (batch,) = read(build(listed))
    assert [record.timestamp for record in batch.records] == [-1, 7, 0]
    first, *_ = read(build(listed, magic=1, timestamp=5))
    assert next(iter(first.records)).timestamp == 5


def test_what_timestamps_are_counted_from() -> None:
    """The first record's, as producers do; what is given; KIP-534's delete horizon."""
    listed = [Record(timestamp=50), Record(timestamp=70), Record(timestamp=60)]
    for options, base, latest in (
        ({}, 50, 70),
        ({"base_timestamp": 10}, 10, 70),
        ({"append_time": 99}, 50, 99),
        ({"delete_horizon": 20, "base_timestamp": 10}, 20, 70),
    ):
        batch = one(build(listed, **options))  # type: ignore[arg-type]
        assert (batch.base_timestamp, batch.max_timestamp) == (base, latest)
    assert (one(build([], last_offset=0)).base_timestamp, one(build([], last_offset=0)).max_timestamp) == (-1, -1)


# Control batches -----------------------------------------------------------------------------------------------------


def test_the_very_bytes_of_a_marker() -> None:
    """As a broker of 4.4.0 wrote it (Kafka's EndTransactionMarker, MemoryRecords.writeEndTransactionalMarker)."""
    options: dict[str, Any] = {"offset": 7, "timestamp": 1000, "producer_id": 4001, "producer_epoch": 3}
    data = build_marker("COMMIT", coordinator_epoch=9, partition_leader_epoch=5, **options)
    head = "0000000000000007 00000042 00000005 02"
    rest = "0030 00000000 00000000000003e8 00000000000003e8 0000000000000fa1 0003 ffffffff 00000001"
    record = "20 00 00 00 08 00000001 0c 000000000009 00"
    assert data[:17] + data[21:] == bytes.fromhex(head + rest + record)
    message = EndTxnMarker(coordinator_epoch=9)
    assert build_control("COMMIT", message, transactional=True, partition_leader_epoch=5, **options) == data


@pytest.mark.parametrize(
    ("name", "message", "path", "reason"),
    [
        ("PREPARE", EndTxnMarker(), "name", "no control type PREPARE; there are ABORT, COMMIT, LEADER_CHANGE"),
        ("COMMIT", LeaderChangeMessage(), "message", "a COMMIT record holds a EndTxnMarker, not a LeaderChangeMessage"),
        ("LEADER_CHANGE", LeaderChangeMessage(version=1), "message.version", "Kafka reads version 0, not 1"),
        ("SNAPSHOT_HEADER", SnapshotHeaderRecord(version=1), "message.version", "Kafka reads version 0, not 1"),
    ],
)
def test_rejects_what_is_no_control_record(name: str, message: Any, path: str, reason: str) -> None:
    with pytest.raises(EncodeError, match=reason) as caught:
        build_control(name, message, offset=0, timestamp=0)
    assert caught.value.path == path


@pytest.mark.parametrize("name", ["PREPARE", "LEADER_CHANGE", "commit"])
def test_a_marker_commits_or_aborts(name: str) -> None:
    with pytest.raises(EncodeError, match=f"a transaction ends with COMMIT or ABORT, not {name}") as caught:
        build_marker(name, offset=0, timestamp=0, producer_id=1, producer_epoch=0, coordinator_epoch=0)
    assert caught.value.path == "name"


def test_what_controllers_write_has_no_producer() -> None:
    batch = one(build_control("KRAFT_VERSION", KRaftVersionRecord(), offset=3, timestamp=5, partition_leader_epoch=2))
    assert (batch.is_control, batch.transactional, batch.producer_id, batch.producer_epoch) == (True, False, -1, -1)
    assert (batch.base_offset, batch.partition_leader_epoch, batch.max_timestamp) == (3, 2, 5)
