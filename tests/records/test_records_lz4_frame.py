"""LZ4 frames as Kafka's Java reads them: headers, checksums, what follows a frame."""

from __future__ import annotations

import cramjam
import pytest

from kafkawire.records import lz4_frame
from kafkawire.records.compression import CompressionError, TooLargeError, compress, decompress

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
    assert lz4_frame.xxh32(generated(size)) == HASHES[size]


#: The second byte of a frame's flags (how large blocks may be) -> the checksum, as lz4's own library writes it.
CHECKSUMS = {0x40: 0x82, 0x50: 0xFB, 0x60: 0x51, 0x70: 0x73}
CONTENT = b"some bytes, some bytes, some bytes"
FRAME = compress("lz4", CONTENT)


def framed(flags: int, sizes: int = 0x40, *, content: bytes = CONTENT, changed: bytes = b"") -> bytes:
    """A frame with these flags and one block. `changed`: the checksum of the block, in place of the right one."""
    descriptor = bytes((flags, sizes)) + (len(content).to_bytes(8, "little") if flags & 0x08 else b"")
    checksum = lz4_frame.xxh32(descriptor) >> 8 & 0xFF
    block = bytes(cramjam.lz4.compress_block(content, store_size=False))
    of_block = (changed or lz4_frame.xxh32(block).to_bytes(4, "little")) if flags & 0x10 else b""
    of_content = b"\xee" * 4 if flags & 0x04 else b""  # of which Kafka passes over
    length = len(block).to_bytes(4, "little")
    return b"\x04\x22\x4d\x18" + descriptor + bytes((checksum,)) + length + block + of_block + bytes(4) + of_content


def read(data: bytes, limit: int = 1 << 20) -> bytes:
    return bytes(decompress("lz4", data, limit))


@pytest.mark.parametrize(("sizes", "checksum"), CHECKSUMS.items())
def test_the_checksum_of_a_header_is_the_librarys(sizes: int, checksum: int) -> None:
    frame = framed(0x60, sizes)
    assert frame[6] == checksum
    assert read(frame) == CONTENT
    with pytest.raises(CompressionError, match=r"^a header with a wrong checksum$"):
        read(frame[:6] + bytes((checksum ^ 1,)) + frame[7:])


@pytest.mark.parametrize("flags", [0x60, 0x64, 0x68, 0x6C, 0x70, 0x74, 0x7C])
def test_frames_with_any_checksums_and_a_content_size_are_read(flags: int) -> None:
    frame = framed(flags)
    assert read(frame) == CONTENT
    assert read(frame, len(CONTENT)) == CONTENT
    with pytest.raises(TooLargeError):
        read(frame, len(CONTENT) - 1)
    for cut in range(len(frame)):
        with pytest.raises(CompressionError):
            read(frame[:cut])


def test_a_block_with_a_wrong_checksum_is_refused() -> None:
    with pytest.raises(CompressionError, match=r"^a block with a wrong checksum$"):
        read(framed(0x70, changed=b"\0\0\0\0"))


@pytest.mark.parametrize(
    ("flags", "sizes"), [(0x40, 0x40), (0x61, 0x40), (0x62, 0x40), (0xA0, 0x40), (0x60, 0x30), (0x60, 0x41)]
)
def test_frames_that_kafka_does_not_read_are_refused(flags: int, sizes: int) -> None:
    with pytest.raises(CompressionError):
        read(framed(flags, sizes))


@pytest.mark.parametrize("behind", [FRAME, b"\x50\x2a\x4d\x18\x04\0\0\0skip", b"\0", b"anything"])
def test_what_follows_the_first_frame_is_passed_over(behind: bytes) -> None:
    assert read(FRAME + behind) == CONTENT
    with pytest.raises(CompressionError, match=r"^no magic number of a frame$"):
        read(b"\x50\x2a\x4d\x18\x04\0\0\0skip" + FRAME)


def test_the_header_of_magic_0_has_kafkas_checksum() -> None:
    wrong = compress("lz4", CONTENT, broken_header_checksum=True)
    assert wrong[6] == lz4_frame.xxh32(wrong[:6]) >> 8 & 0xFF
    assert bytes(decompress("lz4", wrong, any_header_checksum=True)) == CONTENT
    with pytest.raises(CompressionError):
        read(wrong)
    for data in (b"", b"\x04\x22\x4d\x19\x60\x40\0\0\0\0", b"anything at all"):
        assert lz4_frame.broken(data) is data


def test_blocks_are_at_most_as_long_as_the_header_states() -> None:
    with pytest.raises(CompressionError):
        read(framed(0x60, 0x40, content=bytes((64 << 10) + 1)))
    assert read(framed(0x60, 0x50, content=bytes((64 << 10) + 1))) == bytes((64 << 10) + 1)


def test_an_empty_block_that_is_not_compressed_ends_a_frame() -> None:
    """As the four zeros do: `Lz4BlockInputStream.readBlock` looks at the size without its highest bit."""
    frame = compress("lz4", b"some bytes")
    ended = frame[:-4] + (1 << 31).to_bytes(4, "little")
    assert bytes(decompress("lz4", ended + b"more")) == b"some bytes"
