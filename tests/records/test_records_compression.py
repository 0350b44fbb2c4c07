"""The codecs: both snappy framings, what Kafka's Java writes, bombs and damage."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import suppress

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.errors import RecordError
from kafkawire.records import CODECS, MAX_BATCH_BYTES, Batch, Record, build, read
from kafkawire.records.compression import CompressionError, TooLargeError, codec_name, compress, decompress

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
    """Kafka's Lz4BlockInputStream refuses linked blocks: bit 5 of the frame's flags says that they are independent."""
    packed = compress("lz4", bytes(range(256)) * 2000)
    assert packed[:4] == bytes.fromhex("04224d18")
    assert packed[4] >> 6 == 1
    assert packed[4] & 0x20


def test_snappy_framings() -> None:
    data = b"0123456789" * 7000
    xerial = compress("snappy", data)
    assert xerial[:16] == bytes.fromhex("82534e41505059 00 00000001 00000001")
    assert bytes(decompress("snappy", bytes(cramjam.snappy.compress_raw(data)))) == data
    assert bytes(decompress("snappy", xerial + xerial)) == data * 2
    chunks = [bytes(cramjam.snappy.compress_raw(bytes([i]))) for i in range(256)]
    many = xerial[:16] + b"".join(struct.pack(">i", len(c)) + c for c in chunks)
    assert bytes(decompress("snappy", many)) == bytes(range(256))


@pytest.mark.parametrize("tail", [b"\0", b"\0\0\0\x09abc", b"\xff\xff\xff\xff", b"\0\0\0\x03abc"])
def test_damaged_xerial_blocks(tail: bytes) -> None:
    with pytest.raises(CompressionError):
        decompress("snappy", compress("snappy", b"data") + tail)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.data())
def test_cut_or_changed_blocks(codec: str, data: st.DataObject) -> None:
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


def test_a_snappy_size_is_not_believed() -> None:
    claim = bytes.fromhex("ffffff7f") + b"\0a"  # 256 MiB, then one byte
    tracemalloc.start()
    with pytest.raises(CompressionError, match="claim to hold 268435455"):
        decompress("snappy", claim)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_unknown_codecs() -> None:
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
