"""The checksum in the header of LZ4 frames: xxHash32, and Kafka's wrong one of magic 0 (KAFKA-3160)."""

from __future__ import annotations

import cramjam
import pytest

from kafkawire.records import lz4_header
from kafkawire.records.compression import compress

#: Of the specification's own test program (xxhash's sanity check, seed 0): bytes of its generator -> xxHash32.
HASHES = {
    0: 0x02CC5D05,
    1: 0xCF65B03E,
    14: 0x1208E7E2,
    222: 0x5BD11DBD,
}


def generated(size: int) -> bytes:
    """The bytes that xxHash's sanity check hashes."""
    number, out = 2654435761, bytearray()
    for _ in range(size):
        out.append(number >> 56)
        number = number * 11400714785074694797 & (1 << 64) - 1
    return bytes(out)


@pytest.mark.parametrize("size", HASHES)
def test_xxhash32(size: int) -> None:
    assert lz4_header.xxh32(generated(size)) == HASHES[size]


#: The second byte of a frame's flags (how large blocks may be) -> the checksum, as lz4's own library writes it.
CHECKSUMS = {0x40: 0x82, 0x50: 0xFB, 0x60: 0x51, 0x70: 0x73}


@pytest.mark.parametrize("size", CHECKSUMS)
def test_the_checksum_is_the_librarys(size: int) -> None:
    head = b"\x04\x22\x4d\x18\x60" + bytes((size,))
    for found in (0, 0x81, 0xFF):
        assert lz4_header.mended(head + bytes((found,)) + b"rest") == head + bytes((CHECKSUMS[size],)) + b"rest"


@pytest.mark.parametrize(("flags", "end"), [(0x60, 6), (0x68, 14), (0x61, 10), (0x69, 18)])
def test_where_the_checksum_stands(flags: int, end: int) -> None:
    """Behind the flags, the content's size (8 bytes) where there is one, and a dictionary's id (4 bytes)."""
    frame = b"\x04\x22\x4d\x18" + bytes((flags, 0x40)) + bytes(range(1, 20))
    right = lz4_header.mended(frame)
    wrong = lz4_header.broken(right)
    assert [i for i in range(len(frame)) if right[i] != frame[i]] == [end]
    assert [i for i in range(len(frame)) if wrong[i] != right[i]] == [end]
    assert wrong[end] == lz4_header.xxh32(frame[:end]) >> 8 & 0xFF
    assert right[end] == lz4_header.xxh32(frame[4:end]) >> 8 & 0xFF
    assert lz4_header.mended(wrong) == right
    assert lz4_header.mended(right) is right
    assert bytes(lz4_header.mended(memoryview(wrong))) == right
    for cut in range(end + 1):
        assert lz4_header.mended(frame[:cut]) == lz4_header.broken(frame[:cut]) == frame[:cut]


def test_leaves_what_is_no_frame_unchanged() -> None:
    for data in (b"", b"\x04\x22\x4d\x19\x60\x40\0\0\0\0", b"anything at all"):
        assert lz4_header.mended(data) is data
        assert lz4_header.broken(data) is data


def test_a_content_size_is_read_by_the_library_again() -> None:
    """What other clients write: cramjam's frames state their content's size or not; mended, they are as they were."""
    frame = bytes(cramjam.lz4.compress(b"some bytes, some bytes"))
    assert lz4_header.mended(lz4_header.broken(frame)) == frame
    assert lz4_header.mended(compress("lz4", b"data", broken_header_checksum=True)) == compress("lz4", b"data")
