"""LZ4 frames as Kafka's Java reads them (`Lz4BlockInputStream`): one frame of independent blocks.

Bytes after the frame are ignored. The checksums of its header and its blocks are verified, that of its content is not.
The header's checksum is the second byte of its descriptor's xxHash32. With magic 0, Kafka hashed the frame's magic
number, too (KAFKA-3160), and its readers came to ignore the byte there.
"""

from __future__ import annotations

import struct

import cramjam

from kafkawire.wire.values import Buffer

_FRAME_MAGIC = b"\x04\x22\x4d\x18"
#: The header of frames that Kafka's Java writes: version 1, independent blocks of at most 64 KiB, no other checksums.
FRAME = _FRAME_MAGIC + b"\x60\x40\x82"
_VERSION, _RESERVED, _INDEPENDENT = 0xC0, 0x03, 0x20
_BLOCK_CHECKSUM, _CONTENT_SIZE, _CONTENT_CHECKSUM, _DICTIONARY = 0x10, 0x08, 0x04, 0x01
_LARGEST = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}
_SIZES_RESERVED = 0x8F
_UNCOMPRESSED = 1 << 31
_WORD = struct.Struct("<I")
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK = 0xFFFFFFFF


class FrameError(ValueError):
    """Bytes that are no frame, or not one that Kafka's Java reads."""


class FrameTooLargeError(FrameError):
    """The frame holds more than the limit."""


def decompress(data: Buffer, limit: int, *, any_header_checksum: bool = False) -> bytearray:
    """The content of the frame with which `data` begins.

    Args:
        data: bytes of a frame, and what follows it.
        limit: most bytes of its content.
        any_header_checksum: do not verify the checksum of the header, as Kafka does with magic 0.

    Raises:
        FrameError: it is no frame that Kafka's Java reads. FrameTooLargeError: it holds more than `limit`.
    """
    flags, most, at = _header(data, any_header_checksum)
    checked = 4 if flags & _BLOCK_CHECKSUM else 0
    out, block = bytearray(), bytearray(most)
    while True:
        word = _word(data, at)
        at += 4
        if not word & ~_UNCOMPRESSED:  # an empty block that is not compressed ends the frame, too
            if flags & _CONTENT_CHECKSUM:
                _word(data, at)
            return out
        size = word & ~_UNCOMPRESSED
        if size > most:
            raise FrameError(f"a block of {size} bytes in a frame of blocks of at most {most}")
        if len(data) - at < size + checked:
            raise FrameError(f"a block of {size} bytes with {max(0, len(data) - at - checked)} left")
        packed = data[at : at + size]
        at += size
        if checked:
            if xxh32(bytes(packed)) != _word(data, at):
                raise FrameError("a block with a wrong checksum")
            at += 4
        if word & _UNCOMPRESSED:
            out += packed
        else:
            try:
                read = cramjam.lz4.decompress_block_into(packed, block, output_len=most)
            except cramjam.DecompressionError as error:
                raise FrameError(str(error)) from None
            out += memoryview(block)[:read]
        if len(out) > limit:
            raise FrameTooLargeError(f"more than {limit} bytes")


def _header(data: Buffer, any_checksum: bool) -> tuple[int, int, int]:
    """The flags of a frame, the most bytes of a block, and the position of the first one."""
    if bytes(data[:4]) != _FRAME_MAGIC:
        raise FrameError("no magic number of a frame")
    if len(data) < len(FRAME):
        raise FrameError("a frame's header that is cut off")
    flags, sizes = data[4], data[5]
    if flags & _VERSION != 0x40 or flags & _RESERVED or sizes & _SIZES_RESERVED or sizes >> 4 not in _LARGEST:
        raise FrameError(f"a frame's header that is not supported ({flags:#04x}, {sizes:#04x})")
    if not flags & _INDEPENDENT:
        raise FrameError("blocks that depend on each other, which Kafka does not read")
    end = _descriptor_end(data)
    if end is None:
        raise FrameError("a frame's header that is cut off")
    if not any_checksum and data[end] != _second_byte(bytes(data[4:end])):
        raise FrameError("a header with a wrong checksum")
    return flags, _LARGEST[sizes >> 4], end + 1


def _word(data: Buffer, at: int) -> int:
    if len(data) - at < 4:
        raise FrameError("a frame that is cut off")
    word: int = _WORD.unpack_from(data, at)[0]
    return word


def broken(data: bytes) -> bytes:
    """A frame with the checksum that Kafka writes with magic 0."""
    end = _descriptor_end(data)
    return data if end is None else data[:end] + bytes((_second_byte(data[:end]),)) + data[end + 1 :]


def _descriptor_end(data: Buffer) -> int | None:
    if bytes(data[:4]) != _FRAME_MAGIC or len(data) < 7:
        return None
    end = 6 + (8 if data[4] & _CONTENT_SIZE else 0) + (4 if data[4] & _DICTIONARY else 0)
    return end if end < len(data) else None


def _second_byte(data: bytes) -> int:
    return xxh32(data) >> 8 & 0xFF


def xxh32(data: bytes) -> int:
    """xxHash32 with seed 0, of any number of bytes."""
    first, second, third, fourth, fifth = _PRIMES
    at = 0
    if len(data) >= 16:
        lanes = [first + second & _MASK, second, 0, -first & _MASK]
        while len(data) - at >= 16:
            for i in range(4):
                word = int.from_bytes(data[at : at + 4], "little")
                lanes[i] = _rotate(lanes[i] + word * second & _MASK, 13) * first & _MASK
                at += 4
        number = sum(_rotate(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True))
    else:
        number = fifth
    number = number + len(data) & _MASK
    while len(data) - at >= 4:
        word = int.from_bytes(data[at : at + 4], "little")
        number = _rotate(number + word * third & _MASK, 17) * fourth & _MASK
        at += 4
    for byte in data[at:]:
        number = _rotate(number + byte * fifth & _MASK, 11) * first & _MASK
    number = (number ^ number >> 15) * second & _MASK
    number = (number ^ number >> 13) * third & _MASK
    return number ^ number >> 16


def _rotate(number: int, by: int) -> int:
    return (number << by | number >> 32 - by) & _MASK
