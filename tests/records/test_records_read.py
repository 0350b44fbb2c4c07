"""Reading and writing batches: known bytes, round trips, what the header says, damage and hostile bytes."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress
from itertools import pairwise
from typing import Any

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_strategies import builds, headers

from kafkawire.errors import EncodeError, RecordError
from kafkawire.records import Batch, Damage, Header, Memory, Record, build, find_batch, read

SIMPLE = [Record(b"k", b"v1", (Header("h", b"x"), Header("n", None)), timestamp=1000), Record(None, None)]

# Written out by hand from Kafka's DefaultRecordBatch and DefaultRecord.
RECORDS = bytes.fromhex(
    "20 00 00 00 02 6b 04 7631 04 02 68 02 78 02 6e 01"  # length 16; key k, value v1, headers h: x, n: null
    "0e 00 d10f 02 01 01 00"  # length 7; timestamp 1000 - 1001, offset + 1, nulls
)
HEADER_FIELDS = ["base_offset", "length", "epoch", "magic", "crc", "attributes", "delta", "base", "max"]
HEADER_FIELDS += ["producer_id", "producer_epoch", "sequence", "count"]


def fixed(data: bytes, **fields: int) -> bytes:
    """`data`, a batch, with header fields changed and the checksum set right."""
    layout = struct.Struct(">qiibIhiqqqhii")
    values = dict(zip(HEADER_FIELDS, layout.unpack_from(data), strict=True)) | fields
    out = layout.pack(*values.values()) + data[61:]
    if "crc" in fields:
        return out
    return out[:17] + crc32c.crc32c(out[21:]).to_bytes(4, "big") + out[21:]


def one(data: bytes) -> Batch:
    (item,) = read(data)
    assert isinstance(item, Batch)
    return item


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


@given(builds())
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


@given(headers)
def test_headers_survive(given_headers: tuple[Header, ...]) -> None:
    (record,) = one(build([Record(headers=given_headers)])).records
    assert record.headers == given_headers


def test_a_header_key_that_is_no_utf8_is_kept() -> None:
    data = build([Record(headers=(Header(b"\xff\xfe".decode("utf-8", "surrogateescape"), b""),))])
    (record,) = one(data).records
    assert build([record]) == data


def test_sequences_wrap() -> None:
    batch = one(build([Record(), Record(), Record()], base_sequence=2**31 - 2))
    assert [record.sequence for record in batch.records] == [2**31 - 2, 2**31 - 1, 0]
    assert batch.last_sequence == 0


def test_a_batch_without_records_keeps_its_producer() -> None:
    batch = one(build([], base_offset=5, last_offset=9, producer_id=4, producer_epoch=1, base_sequence=3))
    assert list(batch.records) == []
    assert (batch.last_offset, batch.last_sequence, batch.record_count) == (9, 7, 0)


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({"codec": "brotli"}, "codec"),
        ({"base_offset": 10, "last_offset": 8}, "last_offset"),
        ({"producer_epoch": 1 << 15}, ""),
    ],
)
def test_what_cannot_be_built(options: dict[str, object], path: str) -> None:
    with pytest.raises(EncodeError) as caught:
        build([Record()], **options)  # type: ignore[arg-type]
    assert caught.value.path == path


def test_offsets_must_ascend() -> None:
    with pytest.raises(EncodeError, match="offset 4 after 4"):
        build([Record(offset=4), Record(offset=4)])
    with pytest.raises(EncodeError, match="needs its last_offset"):
        build([])


# Damage --------------------------------------------------------------------------------------------------------------

FIRST, SECOND, THIRD = (build([Record(value=b"x" * 30)] * 3, base_offset=10 * i) for i in range(3))
SIZE = len(FIRST)


def offsets(data: bytes) -> list[int | str]:
    """What `read` yields, in short: base offsets, and reasons of damage."""
    return [item.base_offset if isinstance(item, Batch) else item.reason for item in read(data)]


def test_whole_batches_are_no_damage() -> None:
    assert offsets(b"") == []
    assert offsets(FIRST + SECOND + THIRD) == [0, 10, 20]


@pytest.mark.parametrize("data", [FIRST, bytearray(FIRST), memoryview(FIRST), Memory(FIRST)])
def test_kinds_of_input(data: bytes) -> None:
    assert offsets(data) == [0]


@pytest.mark.parametrize("cut", range(1, SIZE))
def test_a_torn_tail(cut: int) -> None:
    *whole, damage = read(FIRST + SECOND[:cut])
    assert [b.base_offset for b in whole] == [0]  # type: ignore[union-attr]
    assert isinstance(damage, Damage)
    # 10 bytes of base offset 10 and a length that begins with zeros: the first 7 cannot be told from preallocation.
    assert damage.reason == ("truncated" if cut > 7 else "preallocated")
    assert (damage.position, damage.resumed_at) == (SIZE, None)


@pytest.mark.parametrize("size", [1, 17, 61, 4096, 3 << 20])
def test_a_preallocated_tail_is_harmless(size: int) -> None:
    _, damage = read(FIRST + bytes(size))
    assert damage == Damage(SIZE, "preallocated", f"{size} zero bytes up to the end")
    assert damage.harmless


def test_a_hole_of_zeros_is_damage() -> None:
    items = list(read(FIRST + bytes(5000) + SECOND))
    assert items[1] == Damage(SIZE, "zeros", "a batch header of zeros", SIZE + 5000)
    assert offsets(FIRST + bytes(5000) + SECOND) == [0, "zeros", 10]


def test_a_flipped_bit_costs_its_batch_only() -> None:
    middle = bytearray(SECOND)
    middle[70] ^= 1
    items = list(read(FIRST + bytes(middle) + THIRD))
    assert offsets(FIRST + bytes(middle) + THIRD) == [0, "crc_mismatch", 20]
    assert isinstance(items[1], Damage)
    assert (items[1].position, items[1].resumed_at) == (SIZE, 2 * SIZE)
    assert f"{int.from_bytes(SECOND[17:21], 'big'):#010x}" in items[1].detail


def test_without_checksums_a_flipped_bit_goes_unseen() -> None:
    middle = bytearray(FIRST)
    middle[-2] ^= 1
    (item,) = read(bytes(middle), check_crc=False)
    assert isinstance(item, Batch)
    assert not item.crc_ok


@pytest.mark.parametrize(
    ("length", "reason"),
    [(0, "bad_length"), (48, "bad_length"), (-1, "bad_length"), (SIZE * 9, "bad_length"), (2**31 - 1, "too_large")],
)
def test_a_wrong_length_costs_its_batch_only(length: int, reason: str) -> None:
    data = FIRST + fixed(SECOND, length=length) + THIRD
    assert offsets(data) == [0, reason, 20]
    assert [i.resumed_at for i in read(data) if isinstance(i, Damage)] == [2 * SIZE]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"magic": 3}, "unknown_magic"),
        ({"magic": -1}, "unknown_magic"),
        ({"count": -1}, "bad_header"),
        ({"delta": -5}, "bad_header"),
        ({"base_offset": -1}, "bad_header"),
        ({"base_offset": 2**63 - 1}, "bad_header"),
        ({"crc": 0}, "crc_mismatch"),
    ],
)
def test_a_wrong_header(fields: dict[str, int], reason: str) -> None:
    data = FIRST + fixed(SECOND, **fields) + THIRD
    assert offsets(data) == [0, reason, 20]


def test_asking_damage_for_records_raises_it() -> None:
    (damage,) = read(FIRST[:-1])
    with pytest.raises(RecordError, match="at byte 0: expected a record batch, found truncated") as caught:
        list(damage.records)
    assert caught.value.offset == 0
    with pytest.raises(RecordError):
        _ = damage.control


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_what_is_whole_is_read_whatever_surrounds_it(before: bytes, after: bytes) -> None:
    items = list(read(before + FIRST + SECOND + after))
    assert [i.base_offset for i in items if isinstance(i, Batch)][:2] == [0, 10]
    assert items == list(read(Memory(before + FIRST + SECOND + after)))


@given(st.data())
def test_mutations(data: st.DataObject) -> None:
    """One changed byte: never an exception, and every batch that it does not touch is read."""
    whole = FIRST + SECOND + THIRD
    place = data.draw(st.integers(0, len(whole) - 1))
    changed = bytearray(whole)
    changed[place] ^= data.draw(st.integers(1, 255))
    items = list(read(bytes(changed)))
    found = [i.position for i in items if isinstance(i, Batch)]
    assert {0, SIZE, 2 * SIZE} - {place // SIZE * SIZE} <= set(found)
    # Offset and leader epoch lie outside the checksum; everything else is noticed.
    outside = place % SIZE in {*range(8), *range(12, 16)}
    assert any(isinstance(i, Damage) for i in items) or outside
    for item in items:
        if isinstance(item, Batch):
            list(item.records)


def test_a_batch_that_is_longer_than_the_limit_is_damage() -> None:
    big = build([Record(value=bytes(5000))], base_offset=100)
    items = list(read(FIRST + big + SECOND, max_batch_bytes=4000))
    assert [getattr(i, "reason", "batch") for i in items] == ["batch", "too_large", "batch"]
    assert items[1].resumed_at == SIZE + len(big)  # type: ignore[union-attr]


# Ranges --------------------------------------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 3 * SIZE), max_size=6))
def test_ranges_that_cover_a_file_read_each_batch_once(cuts: list[int]) -> None:
    data = FIRST + SECOND + THIRD
    edges = [0, *sorted(cuts), len(data)]
    found = []
    for low, high in pairwise(edges):
        start = find_batch(data, low, high)
        if start is not None:
            found += [b.position for b in read(data, start=start, end=high)]
    assert found == [0, SIZE, 2 * SIZE]


def test_find_batch_over_windows() -> None:
    data = bytes(3_000_000) + FIRST
    assert find_batch(data) == 3_000_000
    assert find_batch(data, 3_000_001) is None
    assert find_batch(data, 0, 3_000_000) is None
    for before in range((1 << 20) - 100, (1 << 20) + 20, 7):
        assert find_batch(bytes(before) + FIRST) == before


# Hostile bytes -------------------------------------------------------------------------------------------------------


def test_searching_is_linear_in_what_crafted_headers_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 30,000 headers claims to reach the end of 4 MB: proving them all would checksum 60 GB."""
    header = FIRST[:61]
    total = 4 << 20
    crafted = b"".join(fixed(header, length=total - 61 * i - 12, crc=1, delta=0, count=0) for i in range(30_000))
    data = crafted + bytes(total - len(crafted) - SIZE) + FIRST
    checksummed = 0
    checksum = crc32c.crc32c

    def counting(chunk: memoryview) -> int:
        nonlocal checksummed
        checksummed += len(chunk)
        return checksum(chunk)

    monkeypatch.setattr(crc32c, "crc32c", counting)
    items = list(read(data, max_batch_bytes=8 << 20))
    assert total < checksummed < 20 * total
    assert isinstance(items[-1], Batch)


@pytest.mark.parametrize("count", [1000, 2**31 - 1])
def test_a_count_that_the_bytes_cannot_hold(count: int) -> None:
    batch = one(fixed(FIRST, count=count, delta=2**31 - 1))
    tracemalloc.start()
    with pytest.raises(RecordError) as caught:
        list(batch.records)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * SIZE + (64 << 10)
    assert caught.value.expected == f"{count} records"


def payload_batch(payload: bytes, count: int = 1, attributes: int = 0) -> Batch:
    """A batch whose checksum is right and whose records are these bytes."""
    head = build([], last_offset=count - 1 if count else 0)
    return one(fixed(head + payload, length=49 + len(payload), count=count, attributes=attributes))


@pytest.mark.parametrize(
    ("payload", "found"),
    [
        ("ffffffff0f 000000010100", "length"),  # a length of -2147483648
        ("7e 00 00 00 01 01 00", "a length of 63"),  # longer than the batch
        ("0c 00 00 00 7e 01 00", "a length of 63"),  # a key longer than the record
        ("0c 00 00 00 01 01 7e", "63"),  # more headers than bytes
        ("0c 00 00 00 01 01 01", "-1"),  # a negative header count
        ("10 00 00 00 01 01 02 01 01", "null"),  # a header key of null
        ("0e 00 00 00 01 01 00 00", "fields of 6"),  # bytes behind the headers
        ("16 00 00 ffffffffffff 01 01 00", "a longer one"),  # a varint of 6 bytes
        ("0c 00 00 00 01 01 80", "the end"),
        ("0c 00 00 00 01 01 00 0c 00 00 00 01 01 00", "7 more bytes"),  # two records, one counted
    ],
)
def test_malformed_records(payload: str, found: str) -> None:
    batch = payload_batch(bytes.fromhex(payload))
    with pytest.raises(RecordError) as caught:
        list(batch.records)
    assert found in caught.value.found
    assert caught.value.path.startswith("records[")
    assert caught.value.offset >= 61


def test_records_before_a_malformed_one_are_read() -> None:
    batch = payload_batch(bytes.fromhex("0c0000000101000c000000010102"), count=2)
    got: list[Record] = []
    with pytest.raises(RecordError) as caught:
        got.extend(batch.records)
    assert caught.value.path == "records[1]"
    assert next(batch.records).offset == 0


@given(st.binary(max_size=120), st.integers(0, 20), st.integers(0, 7))
def test_any_payload_raises_nothing_else(payload: bytes, count: int, codec: int) -> None:
    batch = payload_batch(payload, count, codec)
    with suppress(RecordError):
        assert len(list(batch.records)) == count
