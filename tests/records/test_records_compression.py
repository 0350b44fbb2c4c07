"""The codecs: both snappy framings, what Kafka's Java writes, bombs and damage."""

from __future__ import annotations

import random
import struct
import tracemalloc
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire.errors import RecordError
from kafkawire.records import CODECS, MAX_BATCH_BYTES, Batch, Record, build, read
from kafkawire.records.compression import CompressionError, TooLargeError, codec_name, compress, decompress
from kafkawire.records.lz4_frame import FRAME

COMPRESSING = CODECS[1:]


@given(st.binary(max_size=2000), st.integers(0, 100), st.sampled_from(CODECS))
def test_round_trip(piece: bytes, times: int, codec: str) -> None:
    data = piece * times
    assert bytes(decompress(codec, compress(codec, data))) == data


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("size", [0, 1, 1 << 15, (1 << 15) + 1, 1 << 20])
def test_sizes(codec: str, size: int) -> None:
    data = (b"0123456789abcdef" * (size // 16 + 1))[:size]
    packed = compress(codec, data)
    assert bytes(decompress(codec, packed)) == data
    assert bytes(decompress(codec, memoryview(packed), limit=size)) == data
    if size:
        with pytest.raises(TooLargeError, match=f"more than {size - 1} bytes"):
            decompress(codec, packed, limit=size - 1)


def test_lz4_blocks_stand_alone() -> None:
    """Kafka's Lz4BlockInputStream refuses linked blocks: bit 5 of the frame's flags means that they are independent."""
    packed = compress("lz4", bytes(range(256)) * 2000)
    assert packed[:4] == bytes.fromhex("04224d18")
    assert packed[4] >> 6 == 1
    assert packed[4] & 0x20


def lz4_blocks(packed: bytes) -> list[int]:
    """The blocks' sizes as a frame states them; the highest bit is for one that is not compressed."""
    sizes, at = [], len(FRAME)
    while size := int.from_bytes(packed[at : at + 4], "little"):
        sizes.append(size)
        at += 4 + (size & 0x7FFFFFFF)
    assert at + 4 == len(packed)
    return sizes


def test_lz4_blocks_hold_64_kib() -> None:
    noise = random.Random(1).randbytes(3 << 16)
    assert lz4_blocks(compress("lz4", noise[:1])) == [1 | 1 << 31]
    assert lz4_blocks(compress("lz4", noise + b"x")) == [1 << 16 | 1 << 31] * 3 + [1 | 1 << 31]
    zeros = lz4_blocks(compress("lz4", bytes(3 << 16)))
    assert len(zeros) == 3
    assert max(zeros) < 1000


def test_an_lz4_header_as_kafka_wrote_it_with_magic_0() -> None:
    packed = compress("lz4", b"data", broken_header_checksum=True)
    assert packed != compress("lz4", b"data")
    with pytest.raises(CompressionError):
        decompress("lz4", packed)
    assert bytes(decompress("lz4", packed, any_header_checksum=True)) == b"data"
    for codec in COMPRESSING:
        assert bytes(decompress(codec, compress(codec, b"data"), any_header_checksum=True)) == b"data"


def xerial_blocks(packed: bytes) -> list[int]:
    """How many bytes each block holds."""
    held, at = [], 16
    while at < len(packed):
        end = at + 4 + int.from_bytes(packed[at : at + 4], "big")
        held.append(cramjam.snappy.decompress_raw_len(packed[at + 4 : end]))
        at = end
    return held


def test_xerial_blocks_hold_32_kib() -> None:
    for size, held in ((0, []), (1, [1]), (1 << 15, [1 << 15]), (70_000, [1 << 15, 1 << 15, 70_000 - (2 << 15)])):
        assert xerial_blocks(compress("snappy", bytes(size))) == held


def test_snappy_framings() -> None:
    data = b"0123456789" * 7000
    xerial = compress("snappy", data)
    assert xerial[:16] == bytes.fromhex("82534e41505059 00 00000001 00000001")
    assert bytes(decompress("snappy", bytes(cramjam.snappy.compress_raw(data)))) == data
    assert bytes(decompress("snappy", xerial + xerial)) == data * 2
    chunks = [bytes(cramjam.snappy.compress_raw(bytes([i]))) for i in range(256)]
    many = xerial[:16] + b"".join(struct.pack(">i", len(c)) + c for c in chunks)
    assert bytes(decompress("snappy", many)) == bytes(range(256))


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (b"\0", "^a xerial snappy block's length is cut off$"),
        (b"\0\0\0", "^a xerial snappy block's length is cut off$"),
        (b"\0\0\0\x09abc", "^a xerial snappy block of 9 bytes, with 3 left$"),
        (b"\0\0\1\0" + bytes(200), "^a xerial snappy block of 256 bytes, with 200 left$"),
        (b"\xff\xff\xff\xff", "^a xerial snappy block of -1 bytes, with 0 left$"),
        (b"\0\0\0\x03abc", "snappy"),
    ],
)
def test_rejects_damaged_xerial_blocks(tail: bytes, message: str) -> None:
    with pytest.raises(CompressionError, match=message):
        decompress("snappy", compress("snappy", b"data") + tail)


@pytest.mark.slow
@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.data())
def test_rejects_cut_or_changed_blocks(codec: str, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, b"some bytes that compress, some bytes that compress" * 3))
    cut = data.draw(st.integers(0, len(packed)))
    for i in data.draw(st.lists(st.integers(0, len(packed) - 1), max_size=3)):
        packed[i] ^= data.draw(st.integers(1, 255))
    with suppress(CompressionError):
        assert len(decompress(codec, bytes(packed[:cut]), limit=10_000)) <= 10_000


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_costs_no_more_than_the_limit(codec: str) -> None:
    packed = compress(codec, bytes(16 << 20))
    limit = 1 << 20
    tracemalloc.start()
    with pytest.raises(TooLargeError):
        decompress(codec, packed, limit)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * limit + 16 * len(packed)


@pytest.mark.parametrize("codec", ["zstd"])
@pytest.mark.parametrize(("size", "noise", "steps"), [(1 << 16, 0, 1), ((1 << 16) + 1, 0, 2), (1 << 20, 1 << 16, 1)])
def test_output_grows_by_large_steps(
    codec: str, size: int, noise: int, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    into = getattr(cramjam, codec).decompress_into

    def decompress_into(data: bytes, out: bytearray) -> int:
        sizes.append(len(out))
        return int(into(data, out))

    monkeypatch.setattr(getattr(cramjam, codec), "decompress_into", decompress_into)
    data = random.Random(1).randbytes(noise) + bytes(size - noise)
    packed = compress(codec, data)
    assert bytes(decompress(codec, packed)) == data
    first = max(1 << 16, 16 * len(packed))
    assert sizes == [first * 8**i for i in range(steps)]


@pytest.mark.parametrize("more", [0, 1, 100])
def test_a_snappy_size_is_not_believed(more: int) -> None:
    claim = bytes.fromhex("ffffff7f") + b"\0a" + bytes(more)  # 256 MiB, then one byte
    tracemalloc.start()
    with pytest.raises(CompressionError, match="claim to hold 268435455"):
        decompress("snappy", claim)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_rejects_unknown_codecs() -> None:
    assert [codec_name(n) for n in range(6)] == [*CODECS, "UNKNOWN_5"]
    with pytest.raises(CompressionError, match="UNKNOWN_6"):
        decompress("UNKNOWN_6", b"")
    with pytest.raises(ValueError, match="brotli"):
        compress("brotli", b"")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_batches(codec: str) -> None:
    listed = [Record(key=b"%d" % i, value=b"value" * 20, timestamp=i) for i in range(500)]
    data = build(listed, codec=codec)
    (batch,) = read(data)
    assert isinstance(batch, Batch)
    assert batch.codec == codec
    assert [(r.key, r.value, r.timestamp) for r in batch.records] == [(r.key, r.value, r.timestamp) for r in listed]

    (small,) = read(data, max_batch_bytes=len(data))
    with pytest.raises(RecordError) as caught:
        list(small.records)
    assert caught.value.expected == f"records compressed with {codec}"
    assert caught.value.found == f"more than {len(data)} bytes"
    assert MAX_BATCH_BYTES == 256 << 20


MEMBER = compress("gzip", b"data")


@pytest.mark.parametrize("behind", [bytes(100), b"\x1f\x8b", b"\x1f\x8b\x07" + bytes(30), b"x" * 18, MEMBER[:18]])
def test_bytes_behind_a_gzip_member_are_passed_over(behind: bytes) -> None:
    assert bytes(decompress("gzip", MEMBER + behind)) == b"data"


def test_gzip_members_that_are_joined_are_read_one_after_the_other() -> None:
    assert bytes(decompress("gzip", MEMBER * 3 + bytes(7))) == b"data" * 3
    with pytest.raises(TooLargeError):
        decompress("gzip", MEMBER * 3, limit=11)
    with pytest.raises(CompressionError):
        decompress("gzip", MEMBER + MEMBER[:-1])
    many = compress("gzip", b"") * 20_000
    assert not decompress("gzip", many)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_batch_that_states_no_record_has_none_whatever_follows(codec: str) -> None:
    (batch,) = read(build([Record(value=b"v")], codec=codec))
    assert isinstance(batch, Batch)
    emptied = replace(batch, record_count=0)
    assert list(emptied.records) == []


@pytest.mark.parametrize("version", [0, -1])
def test_the_version_of_a_joined_xerial_stream_is_looked_at(version: int) -> None:
    """Not that of the first one: `SnappyInputStream.hasNextChunk`."""
    stream = compress("snappy", b"text")
    old = stream[:8] + struct.pack(">i", version) + stream[12:]
    assert bytes(decompress("snappy", old + stream)) == b"texttext"
    with pytest.raises(CompressionError, match=f"a xerial snappy stream of version {version}"):
        decompress("snappy", stream + old)
