"""The checksum of an LZ4 frame's header, right and as Kafka got it wrong (KAFKA-3160).

The frame descriptor is followed by the second byte of its xxHash32. With magic 0, Kafka hashed the frame's magic
number too, and its readers came to ignore the byte there.
"""

from __future__ import annotations

from kafkawire.wire.values import Buffer

_FRAME_MAGIC = b"\x04\x22\x4d\x18"
#: The header of frames that Kafka's Java writes: version 1, independent blocks of at most 64 KiB, no other checksums.
FRAME = _FRAME_MAGIC + b"\x60\x40\x82"
_CONTENT_SIZE, _DICTIONARY = 0x08, 0x01
_PRIMES = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_MASK = 0xFFFFFFFF


def mended(data: Buffer) -> Buffer:
    """`data` with the right checksum in its first frame's header; itself if that is no frame."""
    end = _descriptor_end(data)
    if end is None or data[end] == (right := _second_byte(bytes(data[4:end]))):
        return data
    return bytes(data[:end]) + bytes((right,)) + bytes(data[end + 1 :])


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
