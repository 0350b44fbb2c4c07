"""Magic 0 and 1: messages and wrappers in bytes written by hand, and everything that can be wrong with them."""

from __future__ import annotations

import gzip
import struct
import zlib

import pytest
from hypothesis import given

from kafkawire.errors import RecordError
from kafkawire.records import Batch, Record, build, read
from kafkawire.testing.strategies import batches

NULL = struct.pack(">i", -1)


def sized(data: bytes | None) -> bytes:
    return NULL if data is None else struct.pack(">i", len(data)) + data


def message(
    magic: int, offset: int, key: bytes | None, value: bytes | None, *, attributes: int = 0, timestamp: int = 0
) -> bytes:
    """As Kafka's documentation of the old message format lays it out."""
    body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"")
    return framed(offset, body + sized(key) + sized(value))


def framed(offset: int, body: bytes) -> bytes:
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def wrapper(magic: int, offset: int, inside: bytes, *, attributes: int = 1, timestamp: int = 0) -> bytes:
    return message(magic, offset, None, gzip.compress(inside, mtime=0), attributes=attributes, timestamp=timestamp)


def one(data: bytes) -> Batch:
    (batch,) = read(data)
    assert isinstance(batch, Batch), batch
    return batch


@pytest.mark.parametrize(("key", "value"), [(b"k", b"value"), (None, b""), (b"", None), (None, None)])
def test_a_message_that_stands_alone(key: bytes | None, value: bytes | None) -> None:
    old, new = one(message(0, 7, key, value)), one(message(1, 7, key, value, timestamp=99))
    assert list(old.records) == [Record(key, value, (), 7, -1)]
    assert list(new.records) == [Record(key, value, (), 7, 99)]
    for batch in (old, new):
        assert (batch.base_offset, batch.last_offset, batch.record_count, batch.codec) == (7, 7, 1, "none")
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (-1, -1, -1, -1)
        assert (batch.partition_leader_epoch, batch.transactional, batch.is_control) == (-1, False, False)
        assert (batch.delete_horizon, batch.control, batch.crc_ok) == (None, None, True)
    assert (old.max_timestamp, old.base_timestamp, old.timestamp_type) == (-1, -1, "NoTimestampType")
    assert (new.max_timestamp, new.base_timestamp, new.timestamp_type) == (99, 99, "CreateTime")


def test_offsets_in_a_wrapper_of_magic_0_are_absolute() -> None:
    inside = b"".join(message(0, offset, b"k", b"%d" % offset) for offset in (3, 5, 9))
    batch = one(wrapper(0, 9, inside))
    assert [record.offset for record in batch.records] == [3, 5, 9]
    assert (batch.base_offset, batch.last_offset, batch.record_count, batch.codec) == (3, 9, 3, "gzip")


def test_offsets_in_a_wrapper_of_magic_1_are_relative() -> None:
    inside = b"".join(message(1, offset, b"k", b"v", timestamp=100 + offset) for offset in (0, 2, 6))
    batch = one(wrapper(1, 1006, inside, timestamp=106))
    assert [(record.offset, record.timestamp) for record in batch.records] == [(1000, 100), (1002, 102), (1006, 106)]
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (1000, 1006, 3)
    assert (batch.max_timestamp, batch.timestamp_type) == (106, "CreateTime")


def test_an_offset_of_0_leaves_those_inside_as_they_are() -> None:
    """Some versions of librdkafka produce so."""
    inside = message(1, 4, None, b"v") + message(1, 5, None, b"v")
    assert [record.offset for record in one(wrapper(1, 0, inside)).records] == [4, 5]


def test_log_append_time_is_the_wrappers() -> None:
    inside = message(1, 0, None, b"a", timestamp=1) + message(0, 1, None, b"b")
    batch = one(wrapper(1, 8, inside, attributes=1 | 8, timestamp=777))
    assert batch.timestamp_type == "LogAppendTime"
    # A message of magic 0 in it has no timestamp that could be another.
    assert [record.timestamp for record in batch.records] == [777, -1]
    assert one(message(1, 0, None, b"x", attributes=8, timestamp=5)).timestamp_type == "LogAppendTime"


def test_bits_without_meaning_are_ignored() -> None:
    """Magic 0 has no timestamp type, and neither magic has transactions or control batches."""
    old, new = one(message(0, 0, None, b"x", attributes=0x78)), one(message(1, 0, None, b"x", attributes=0x70))
    assert (old.attributes, new.attributes) == (0, 0)
    for batch in (old, new):
        assert (batch.transactional, batch.is_control, batch.delete_horizon) == (False, False, None)


def test_bytes_behind_the_value_are_ignored() -> None:
    body = b"\0\0" + sized(b"k") + sized(b"v") + b"more"
    assert list(one(framed(3, body)).records) == [Record(b"k", b"v", (), 3, -1)]


# What is wrong -------------------------------------------------------------------------------------------------------


def problem(data: bytes) -> RecordError:
    """What reading the records of a batch raises, which says so at the batch's place."""
    before = message(1, 0, None, b"first")
    _, batch = read(before + data)
    assert isinstance(batch, Batch), batch
    with pytest.raises(RecordError) as caught:
        list(batch.records)
    assert caught.value.offset == len(before)
    return caught.value


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"\0\0" + struct.pack(">i", 5) + b"abcd", "a key of 5 bytes with 4 left"),
        (b"\0\0" + sized(b"abcd"), "the end before the value's length"),
        (b"\0\0" + sized(b"ab") + b"\0\0\0", "the end before the value's length"),
        (b"\0\0" + NULL + struct.pack(">i", 1), "a value of 1 bytes with 0 left"),
        (b"\1\0" + bytes(8) + sized(None) + struct.pack(">i", 2**31 - 1), "a value of 2147483647 bytes with 0 left"),
    ],
)
def test_rejects_keys_and_values_that_do_not_fit(body: bytes, found: str) -> None:
    error = problem(framed(0, body))
    assert (error.expected, error.found, error.path) == ("a message's key and value", found, "records[0]")


INSIDE = message(1, 0, None, b"a") + message(1, 1, None, b"b")


WRONG = [
    (message(1, 9, None, None, attributes=1), "records", "a value of null"),
    (message(1, 9, None, b"zstd?", attributes=4), "records", "a codec that magic 1 does not have: zstd"),
    (message(0, 9, None, b"?", attributes=7), "records", "a codec that magic 0 does not have: UNKNOWN_7"),
    (wrapper(1, 9, b""), "records", "none"),
    (wrapper(1, 9, INSIDE[:5]), "records", "5 bytes"),
    (wrapper(1, 9, INSIDE[:30]), "records", "a size of 23 with 18 bytes left"),
    (wrapper(1, 9, struct.pack(">qi", 0, 13) + bytes(13)), "records", "a size of 13 with 13 bytes left"),
    (wrapper(1, 1, message(1, 2, None, b"a")), "records", "a wrapper's offset of 1 below that of the last"),
    (wrapper(1, 9, INSIDE + b"\0" * 11), "records[2]", "11 bytes"),
    (wrapper(1, 9, INSIDE + INSIDE[:-1]), "records[3]", "a size of 23 with 22 bytes left"),
    (wrapper(1, 9, INSIDE[:35] + wrapper(1, 1, INSIDE)), "records[1]", "gzip"),
    (wrapper(1, 9, INSIDE[:35] + framed(1, b"\2" + bytes(30))), "records[1]", "magic 2, size 35"),
    (wrapper(1, 9, INSIDE[:35] + framed(1, b"\1" + bytes(16))), "records[1]", "magic 1, size 21"),
    (wrapper(1, 9, INSIDE[:-1] + b"x"), "records[1]", f"{zlib.crc32(INSIDE[51:-1] + b'x'):#010x}"),
    (wrapper(1, 9, framed(0, b"\1\0" + bytes(8) + sized(b"abcd"))), "records[0]", "the end before the value's"),
]


@pytest.mark.parametrize(("data", "path", "found"), WRONG, ids=[found for *_, found in WRONG])
def test_wrappers(data: bytes, path: str, found: str) -> None:
    error = problem(data)
    assert (error.path, error.found[: len(found)]) == (path, found)


def test_messages_before_a_wrong_one_are_read() -> None:
    batch = one(wrapper(1, 9, INSIDE + b"torn"))
    records = batch.records
    assert [next(records).value, next(records).value] == [b"a", b"b"]
    with pytest.raises(RecordError, match="expected a whole message, found 4 bytes"):
        next(records)


def test_a_damaged_wrapper_keeps_its_header() -> None:
    """`read` looks into wrappers for their offsets; what it cannot look into stays as the header says."""
    batch = one(message(1, 9, None, b"no gzip", attributes=1))
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (9, 9, -1)
    descending = one(wrapper(0, 9, message(0, 5, None, b"a") + message(0, 4, None, b"b")))
    assert (descending.base_offset, descending.record_count) == (9, -1)
    below_zero = one(wrapper(0, 9, message(0, -5, None, b"a") + message(0, 4, None, b"b")))
    assert (below_zero.base_offset, below_zero.record_count) == (9, -1)


def test_wrappers_are_not_looked_into_without_checksums() -> None:
    (batch,) = read(wrapper(1, 9, INSIDE), check_crc=False)
    assert isinstance(batch, Batch)
    assert (batch.base_offset, batch.record_count) == (9, -1)
    measured = batch.measured()
    assert (measured.base_offset, measured.last_offset, measured.record_count) == (8, 9, 2)
    assert measured.measured() is measured


def test_the_limit_counts_what_is_inside() -> None:
    data = wrapper(1, 9, message(1, 0, None, bytes(100_000)))
    (batch,) = read(data, max_batch_bytes=50_000)
    with pytest.raises(RecordError, match="more than 50000 bytes"):
        list(batch.records)
    assert one(data).record_count == 1


@given(batches(0, 1))
def test_round_trip(built: tuple[list[Record], dict[str, object]]) -> None:
    listed, options = built
    data = build(listed, **options)  # type: ignore[arg-type]
    batches = [item for item in read(data) if isinstance(item, Batch)]
    assert len(batches) == (len(listed) if options["codec"] == "none" else 1)
    assert (batches[0].base_offset, batches[-1].last_offset) == (listed[0].offset, listed[-1].offset)
    stamped = options["append_time"]
    wanted = [r.timestamp if stamped is None else stamped for r in listed]
    got = [record for batch in batches for record in batch.records]
    assert [(r.key, r.value, r.offset, r.timestamp) for r in got] == [
        (r.key, r.value, r.offset, timestamp) for r, timestamp in zip(listed, wanted, strict=True)
    ]
    assert {batch.max_timestamp for batch in batches} >= {max(wanted)}  # type: ignore[type-var]
