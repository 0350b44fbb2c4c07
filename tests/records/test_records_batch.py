"""A batch: bytes written by hand, every field, what its header holds without its records."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import crc32c
import pytest
from msgspec.structs import replace

from kafkawire.errors import EncodeError, RecordError
from kafkawire.records import Batch, Header, Record, build, build_marker, read
from kafkawire.records import record as record_reader
from tests.records.record_bytes import FIRST, SIZE, fixed, one, payload_batch

SIMPLE = [Record(b"k", b"v1", (Header("h", b"x"), Header("n", None)), timestamp=1000), Record(None, None)]

# Written out by hand from Kafka's DefaultRecordBatch and DefaultRecord.
RECORDS = bytes.fromhex(
    "20 00 00 00 02 6b 04 7631 04 02 68 02 78 02 6e 01"  # length 16; key k, value v1, headers h: x, n: null
    "0e 00 d10f 02 01 01 00"  # length 7; timestamp 1000 - 1001, offset + 1, nulls
)


def test_bytes_written_by_hand() -> None:
    attributes = bytes.fromhex("0010 00000001") + struct.pack(">qqqhii", 1000, 1000, 7, 3, 5, 2)
    crc = crc32c.crc32c(attributes + RECORDS).to_bytes(4, "big")
    length = 4 + 1 + 4 + len(attributes) + len(RECORDS)
    data = struct.pack(">qiib", 42, length, 9, 2) + crc + attributes + RECORDS

    batch = one(data)
    assert (batch.base_offset, batch.last_offset, batch.size, batch.partition_leader_epoch) == (42, 43, len(data), 9)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (7, 3, 5, 6)
    assert (batch.base_timestamp, batch.max_timestamp, batch.timestamp_type) == (1000, 1000, "CreateTime")
    assert (batch.codec, batch.transactional, batch.is_control, batch.delete_horizon) == ("none", True, False, None)
    assert batch.control is None
    assert list(batch.records) == [
        Record(b"k", b"v1", (Header("h", b"x"), Header("n", None)), 42, 1000, 5),
        Record(None, None, (), 43, -1, 6),
    ]
    assert batch.record_count == 2
    options: dict[str, Any] = {"producer_id": 7, "producer_epoch": 3, "base_sequence": 5, "partition_leader_epoch": 9}
    assert build(SIMPLE, base_offset=42, transactional=True, **options) == data


def test_sequences_wrap() -> None:
    batch = one(build([Record(), Record(), Record()], base_sequence=2**31 - 2))
    assert [record.sequence for record in batch.records] == [2**31 - 2, 2**31 - 1, 0]
    assert batch.last_sequence == 0


def test_a_batch_without_records_keeps_its_producer() -> None:
    batch = one(build([], base_offset=5, last_offset=9, producer_id=4, producer_epoch=1, base_sequence=3))
    assert list(batch.records) == []
    assert (batch.last_offset, batch.last_sequence, batch.record_count) == (9, 7, 0)


def test_a_control_batch_that_counts_no_record_and_holds_bytes_is_malformed() -> None:
    marker = build_marker("ABORT", offset=5, timestamp=9, producer_id=4, producer_epoch=1, coordinator_epoch=2)
    with pytest.raises(RecordError, match="no record, as the header counts") as caught:
        one(fixed(marker, count=0)).control  # noqa: B018
    assert caught.value.found == f"{len(marker) - 61} bytes"
    emptied = one(fixed(marker[:61], count=0, length=49)).control
    assert emptied is not None
    assert emptied.name == "EMPTY"


@pytest.mark.parametrize("count", [1000, 2**31 - 1])
def test_rejects_a_count_that_the_bytes_cannot_contain(count: int) -> None:
    batch = one(fixed(FIRST, count=count, delta=2**31 - 1))
    tracemalloc.start()
    with pytest.raises(RecordError) as caught:
        list(batch.records)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * SIZE + (64 << 10)
    assert caught.value.expected == f"{count} records"


def test_checksums_are_computed_at_access() -> None:
    changed = FIRST[:-1] + bytes([FIRST[-1] ^ 1])
    for data, right in ((FIRST, True), (changed, False), (fixed(FIRST, crc=0), False)):
        (batch,) = read(data, check_crc=False)
        assert isinstance(batch, Batch)
        assert batch.crc_ok is right


def test_errors_of_records_have_the_position_in_the_file() -> None:
    for before in (b"", FIRST, FIRST * 3):
        *_, batch = read(before + payload_batch(b"\x0e\0\0\0\1\1\0\0").data)
        assert isinstance(batch, Batch)
        with pytest.raises(RecordError) as caught:
            list(batch.records)
        assert (caught.value.offset, caught.value.path) == (len(before) + 61, "records[0]")


def test_a_batch_whose_header_has_its_count_is_not_measured() -> None:
    batch = one(FIRST)
    assert batch.measured() is batch
    unknown = replace(batch, record_count=-1)
    assert unknown.measured() is unknown


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_rebased_batch_is_what_a_broker_writes(codec: str) -> None:
    sent = one(build(SIMPLE, codec=codec, producer_id=7, producer_epoch=3, base_sequence=5, transactional=True))
    written = sent.rebased(1_000_000, 9)
    batch = one(written)
    assert batch.crc_ok
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (1_000_000, 1_000_001, 9)
    assert [record.offset for record in batch.records] == [1_000_000, 1_000_001]
    again = build(
        list(batch.records), codec=codec, producer_id=7, producer_epoch=3, base_sequence=5, transactional=True,
        base_offset=1_000_000, partition_leader_epoch=9,
    )  # fmt: skip
    assert written == again
    assert one(batch.rebased(0, -1)).data == sent.data


def test_rebasing_keeps_a_wrong_checksum_wrong() -> None:
    data = bytearray(build(SIMPLE))
    data[-1] ^= 1
    (damaged,) = (item for item in read(data, check_crc=False))
    assert isinstance(damaged, Batch)
    assert not one_unchecked(damaged.rebased(5, 1)).crc_ok


def one_unchecked(data: bytes) -> Batch:
    (batch,) = read(data, check_crc=False)
    assert isinstance(batch, Batch)
    return batch


@pytest.mark.parametrize(
    ("magic", "base_offset", "leader_epoch", "path"),
    [(1, 0, 0, "magic"), (0, 0, 0, "magic"), (2, -1, 0, "base_offset"), (2, 1 << 63, 0, "base_offset"),
     (2, 0, -2, "leader_epoch"), (2, 0, 1 << 31, "leader_epoch")],
)  # fmt: skip
def test_refuses_to_rebase(magic: int, base_offset: int, leader_epoch: int, path: str) -> None:
    batch = one(build([Record(b"k", b"v", timestamp=-1 if magic == 0 else 5)], magic=magic))
    with pytest.raises(EncodeError) as caught:
        batch.rebased(base_offset, leader_epoch)
    assert caught.value.path == path


def test_offsets_that_no_log_has_go_on_as_in_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer may send any base offset; the broker assigns another one."""
    data = bytearray(build([Record(b"a"), Record(b"b")]))
    data[:8] = (2**63 - 1).to_bytes(8, "big")
    for reader in (record_reader._READER, None):
        monkeypatch.setattr(record_reader, "_READER", reader)
        (found,) = read(bytes(data), check_offsets=False)
        assert isinstance(found, Batch)
        assert (found.base_offset, found.last_offset) == (2**63 - 1, -(2**63))
        assert [each.offset for each in found.records] == [2**63 - 1, -(2**63)]
