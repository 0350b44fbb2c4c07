"""Columns of batches and records: both engines equal to each other, and to the objects that `records.read` gives."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import RecordError
from kafkawire.records import CODECS, Batch, Damage, Header, Memory, Record, build, build_marker, columns, read, record
from kafkawire.records.compression import compress
from kafkawire.testing.strategies import batches
from kafkawire.wire.backend import native
from tests.records.record_bytes import FIRST, SECOND, THIRD, fixed, message
from tests.records.record_engines import ENGINES

pytestmark = pytest.mark.slow

FIELDS = ("position", "base_offset", "size", "partition_leader_epoch", "crc", "attributes", "last_offset_delta")
FIELDS += ("base_timestamp", "max_timestamp", "producer_id", "producer_epoch", "base_sequence", "record_count")


def objects(data: Any, **options: Any) -> list[Any]:
    """What columns must come to: batches (with what is wrong with their records), records, damage."""
    out: list[Any] = []
    for item in read(data, **options):
        if isinstance(item, Damage) or item.magic != 2:
            out.append(item)
            continue
        out.append(tuple(getattr(item, name) for name in FIELDS))
        try:
            out.extend(item.records)
        except RecordError as error:
            out.append(Damage(item.position, "bad_records", str(error), item.position + item.size))
    return out


def from_columns(data: Any, *, piece: int = columns.PIECE, **options: Any) -> list[Any]:
    """The same out of columns."""
    out: list[Any] = []
    for item in columns.batches(data, **options):
        if not isinstance(item, columns.Batches):
            out.append(item)
            continue
        listed: list[list[Any]] = [[] for _ in item.start]
        for place, batch in enumerate(listed):
            row = [item.position, *(getattr(item, n) for n in item.__struct_fields__[4:])]
            batch.append(tuple(int(column[place]) for column in row))
        for part in columns.records(item, piece=piece):
            for batch_index, found in records_of(part):
                listed[batch_index].append(found)
            for damage in part.damage:
                listed[item.position.tolist().index(damage.position)].append(damage)
        for batch in listed:
            out += batch
    return out


def records_of(part: columns.Records) -> list[tuple[int, Record]]:
    def span(start: int, length: int) -> bytes | None:
        return None if length < 0 else part.data[start : start + length].tobytes()

    header = zip(
        part.header_key_start.tolist(),
        part.header_key_length.tolist(),
        part.header_value_start.tolist(),
        part.header_value_length.tolist(),
        strict=True,
    )
    out = []
    for i, (batch, count) in enumerate(zip(part.batch.tolist(), part.header_count.tolist(), strict=True)):
        headers = []
        for _ in range(count):
            key_start, key_length, value_start, value_length = next(header)
            key = (span(key_start, key_length) or b"").decode("utf-8", "surrogateescape")
            headers.append(Header(key, span(value_start, value_length)))
        key_value = [
            span(int(part.key_start[i]), int(part.key_length[i])),
            span(int(part.value_start[i]), int(part.value_length[i])),
        ]
        numbers = int(part.offset[i]), int(part.timestamp[i]), int(part.sequence[i])
        out.append((batch, Record(*key_value, tuple(headers), *numbers)))
    assert next(header, None) is None
    return out


def agree(data: bytes, **options: Any) -> list[Any]:
    """Every engine says of `data` what the objects say, which are the same with the native engine and without."""
    natively = objects(data, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(record, "_READER", None)
        expected = objects(data, **options)
        assert natively == expected
        for (engine,) in (parameter.values for parameter in ENGINES):
            patch.setattr(columns, "engine", engine)
            for piece in (1, columns.PIECE):
                assert from_columns(data, piece=piece, **options) == expected, engine
    return expected


@given(st.lists(batches(), max_size=3))
def test_equal_to_objects(built: list[tuple[list[Record], dict[str, Any]]]) -> None:
    agree(b"".join(build(listed, **options) for listed, options in built))


@given(st.lists(batches(), min_size=1, max_size=3), st.data())
def test_mutated_bytes_equal_objects(built: list[tuple[list[Record], dict[str, Any]]], data: st.DataObject) -> None:
    """Changed, cut off or doubled somewhere: the same verdict, with checksums and without."""
    changed = bytearray(b"".join(build(listed, **options) for listed, options in built))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        if not changed:
            break
    agree(bytes(changed))
    agree(bytes(changed), check_crc=False)
    agree(bytes(changed), check_crc=False, max_batch_bytes=100)


@given(st.binary(max_size=120), st.integers(0, 20), st.integers(0, 7), st.integers(-1, 3))
def test_any_payload(payload: bytes, count: int, codec: int, base_sequence: int) -> None:
    """Random bytes after a valid header."""
    head = fixed(build([], last_offset=max(count - 1, 0)), sequence=base_sequence)
    agree(fixed(head + payload, length=49 + len(payload), count=count, attributes=codec))


@pytest.mark.parametrize("codec", CODECS)
def test_damage_in_compressed_records(codec: str) -> None:
    """Every byte of a compressed payload changed, with a checksum that is right."""
    whole = build([Record(b"key" * i, b"value" * i, timestamp=i) for i in range(8)], codec=codec)
    limit = {"max_batch_bytes": 1 << 20}  # sizes that a changed byte claims are not tried out
    for place in range(61, len(whole), 1 if codec != "none" else 3):
        changed = bytearray(whole)
        changed[place] ^= 0x11
        agree(FIRST + fixed(bytes(changed)) + SECOND, **limit)
    for cut in range(0, len(whole) - 61, 3):
        agree(fixed(whole[: 61 + cut], length=49 + cut) + THIRD, **limit)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_streams_that_are_joined_or_followed_by_more(codec: str) -> None:
    """What Kafka does not write: each engine accepts of it what the objects' reader accepts, and no more."""
    payload = build([Record(b"k", b"v")] * 2, codec=codec)[61:]
    for more in (payload, payload * 2, payload + b"\0", b"\0" + payload, payload[:-1]):
        head = fixed(build([], last_offset=3), attributes=CODECS.index(codec), count=4)
        agree(fixed(head + payload + more, length=49 + len(payload + more)))


def test_what_a_codec_permits_and_java_never_writes() -> None:
    """A frame of lz4 that a block without bytes ends, joined xerial streams of other versions, and blocks of zstd that
    are larger than the window: readers of streams refuse these."""
    records = build([Record(b"k", b"v" * 1500)])[61:]
    block = (len(records) << 3 | 1).to_bytes(3, "little")
    xerial = compress("snappy", records[:700])
    second = compress("snappy", records[700:])
    payloads = {
        "lz4": [compress("lz4", records)[:-4] + b"\0\0\0\x80"],
        "snappy": [xerial + second, xerial + second[:11] + b"\0" + second[12:]],
        "zstd": [b"\x28\xb5\x2f\xfd\0" + window + block + records for window in (b"\0", b"\x08", b"\x58")],
    }
    read_whole = []
    for codec, framed in payloads.items():
        for payload in framed:
            head = fixed(build([], last_offset=0), attributes=CODECS.index(codec), count=1)
            found = agree(fixed(head + payload, length=49 + len(payload)))
            read_whole.append(not isinstance(found[-1], Damage))
    assert read_whole == [True, True, False, False, True, True]


def test_mixed_codecs_control_and_empty_batches() -> None:
    data = b"".join(
        build(
            [Record(codec.encode(), None, (Header("h", b"x" * 300), Header("", None)))] * 3, base_offset=i, codec=codec
        )
        for i, codec in enumerate(CODECS)
    )
    data += build_marker("COMMIT", offset=9, timestamp=5, producer_id=1, producer_epoch=0, coordinator_epoch=3)
    data += build([], base_offset=20, last_offset=30, append_time=7, producer_id=4, producer_epoch=1, base_sequence=3)
    assert len(agree(data)) == 5 * 4 + 2 + 1


def test_numbers_that_wrap_and_long_varints() -> None:
    extremes = [Record(timestamp=t) for t in (2**63 - 1, -(2**63), 0, -1, 2**62)]
    agree(build(extremes, base_sequence=2**31 - 2))
    padded = bytes.fromhex("20 00 8080808080808080 8000 8200 80808000 8100 8000 00".replace(" ", ""))
    payload = bytes([2 * len(padded) - 2]) + padded[1:]
    head = build([], last_offset=0)
    agree(fixed(head + payload, length=49 + len(payload), count=1))


def test_other_magics_and_damage_between() -> None:
    agree(message(1, b"old") + FIRST + bytes(100) + SECOND + message(0, b"x") + b"torn" + THIRD + b"\1" * 70)


@pytest.mark.parametrize("window", [61, 100, 500, 1 << 20])
def test_windows(engine: Any, window: int) -> None:
    """Batches longer than the window, and batches across its end."""
    data = FIRST + build([Record(value=bytes(1000))], base_offset=5) + SECOND + b"\0\1" + THIRD
    found = from_columns(Memory(data), window=window)
    assert found == objects(data)


@given(st.lists(st.integers(0, 3 * len(FIRST)), max_size=4))
def test_ranges(cuts: list[int]) -> None:
    data = FIRST + SECOND + THIRD
    for end in cuts:
        agree(data, end=end)
        agree(data, start=len(FIRST), end=end)


def test_flags_and_checksums(engine: Any) -> None:
    broken = bytearray(SECOND)
    broken[-1] ^= 1
    marker = build_marker("ABORT", offset=40, timestamp=5, producer_id=1, producer_epoch=0, coordinator_epoch=3)
    kept = build([Record()], base_offset=50, codec="lz4", append_time=3, delete_horizon=8)
    (found,) = columns.batches(FIRST + bytes(broken) + marker + kept, check_crc=False)
    assert isinstance(found, columns.Batches)
    assert found.crc_ok.tolist() == [True, False, True, True]
    assert found.is_control.tolist() == [False, False, True, False]
    assert found.transactional.tolist() == [False, False, True, False]
    assert found.log_append_time.tolist() == [False, False, False, True]
    assert found.delete_horizon.tolist() == [False, False, False, True]
    assert found.codec.tolist() == [0, 0, 0, 3]
    assert found.last_offset.tolist() == [2, 12, 40, 50]
    batch = found.batch(2)
    assert isinstance(batch, Batch)
    assert (batch.position, str(batch.control)) == (2 * len(FIRST), "ABORT")


@pytest.mark.skipif(native is None, reason="the native engine is not installed")
def test_nothing_of_an_uncompressed_payload_is_copied() -> None:
    data = FIRST + SECOND
    (part,) = columns.read(data)
    assert isinstance(part, columns.Records)
    assert np.shares_memory(part.data, np.frombuffer(data, np.uint8))


@pytest.mark.parametrize("codec", CODECS[1:])
def test_decompression_stops_at_the_limit(engine: Any, codec: str) -> None:
    """Each holds 16 MB, above the limit: damage, and none of it is ever there."""
    bomb = build([Record(value=bytes(16 << 20))], codec=codec)
    tracemalloc.start()
    found = [item for item in columns.read(bomb * 3, max_batch_bytes=1 << 20) if isinstance(item, columns.Records)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [damage.reason for part in found for damage in part.damage] == ["bad_records"] * 3
    assert sum(map(len, found)) == 0
    assert peak < 8 << 20


def test_pieces_stay_small(engine: Any) -> None:
    """Forty batches of 1 MB that are a few hundred bytes each: never all of them at once."""
    data = build([Record(value=bytes(1 << 20))], codec="zstd") * 40
    sizes = [len(item.data) for item in columns.read(data) if isinstance(item, columns.Records)]
    assert sum(sizes) >= 40 << 20
    assert max(sizes) < columns.PIECE + (2 << 20)


def test_rejects_counts_that_the_bytes_cannot_contain(engine: Any) -> None:
    """Hundreds of empty batches that each claim 2^31 - 1 records: nothing is set aside for those."""
    liar = fixed(build([], last_offset=2**31 - 2), count=2**31 - 1)
    packed = fixed(build([Record()], codec="lz4"), count=2**31 - 1, delta=2**31 - 2)
    tracemalloc.start()
    for data in (liar * 500, packed * 500):
        parts = [item for item in columns.read(data) if isinstance(item, columns.Records)]
        assert sum(len(part.damage) for part in parts) == 500
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * len(packed) * 500


def test_some_of_the_batches(engine: Any) -> None:
    (found,) = columns.batches(FIRST + SECOND + THIRD)
    assert isinstance(found, columns.Batches)
    some = found.where(np.array([True, False, True]))
    assert (some.base_offset.tolist(), some.position.tolist()) == ([0, 20], [0, 2 * len(FIRST)])
    assert some.batch(1) == list(read(FIRST + SECOND + THIRD))[2]
    assert [offset for part in columns.records(some) for offset in part.offset.tolist()] == [0, 1, 2, 20, 21, 22]


def test_batches_of_other_magics_are_objects(engine: Any) -> None:
    data = FIRST + message(1, b"old") + SECOND + b"torn"
    one, old, other, damage = columns.read(data)
    assert isinstance(one, columns.Records)
    assert isinstance(other, columns.Records)
    assert [*one.offset.tolist(), *other.offset.tolist()] == [0, 1, 2, 10, 11, 12]
    found = list(read(data))
    assert [old, damage] == [found[1], found[3]]


@pytest.mark.parametrize("headers", ["02 6b", "02 6b 80", "02 6b 8080808080 01", "80", "02", "0a 6b", "01 01"])
def test_rejects_malformed_headers(headers: str) -> None:
    body = bytes.fromhex("00 00 00 01 01 02" + headers)
    payload = bytes([2 * len(body)]) + body
    data = fixed(build([], last_offset=0) + payload, length=49 + len(payload), count=1)
    *_, damage = agree(data)
    assert isinstance(damage, Damage)
    assert damage.reason == "bad_records"


@pytest.mark.parametrize("length", ["80", "808080808080", "01", "06 00", "ffffffff0f"])
def test_rejects_malformed_record_lengths(length: str) -> None:
    """Cut off, of too many bytes, negative, longer than what is left."""
    payload = bytes.fromhex(length) + bytes(7 - len(bytes.fromhex(length)))
    payload = bytes.fromhex(length) if length == "80" else payload
    data = fixed(build([], last_offset=0) + payload, length=49 + len(payload), count=1)
    *_, damage = agree(FIRST + data)
    assert isinstance(damage, Damage)
    assert (damage.reason, damage.position) == ("bad_records", len(FIRST))


def test_pieces_are_equal_to_themselves_alone() -> None:
    """Comparing arrays gives an array, not one truth value."""
    (found,), (other,) = columns.batches(FIRST), columns.batches(FIRST)
    assert isinstance(found, columns.Batches)
    assert isinstance(other, columns.Batches)
    (part,), (another,) = columns.records(found), columns.records(other)
    assert len({found, other}) == len({part, another}) == 2
    assert found != other
    assert part != another
