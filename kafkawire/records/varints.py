"""Zigzag varints, which records are written in (Kafka's `ByteUtils.readVarint`, `readVarlong`)."""

from __future__ import annotations

from kafkawire.errors import RecordError
from kafkawire.wire.values import Buffer

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1


def wrap64(number: int) -> int:
    """A sum as a Java long, which overflows."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """An int of at most 5 bytes, and the position after it. IndexError at the end of the data."""
    first = data[position]
    if first >= 128 and (second := data[position + 1]) < 128:  # two bytes: the lengths of most records
        number = (first & 127) | (second << 7)
        return (number >> 1) ^ -(number & 1), position + 2
    return _read(data, position, 5, 0xFFFFFFFF)


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """A long of at most 10 bytes, and the position after it. IndexError at the end of the data."""
    return _read(data, position, 10, 0xFFFFFFFFFFFFFFFF)


def _read(data: Buffer, position: int, most: int, mask: int) -> tuple[int, int]:
    number = 0
    for i in range(most):
        byte = data[position + i]
        number |= (byte & 127) << (7 * i)
        if byte < 128:
            number &= mask  # Java drops the bits that its type cannot hold
            return (number >> 1) ^ -(number & 1), position + i + 1
    raise RecordError(expected=f"a varint of at most {most} bytes", found="a longer one", offset=position)


def varint(number: int) -> bytes:
    """The bytes of an int or a long."""
    number = (number << 1) ^ (number >> 63)
    if number < 128:
        return bytes((number,))
    out = bytearray()
    while number >= 128:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)
