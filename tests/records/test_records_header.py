"""A batch's header: its fields' places, in bytes written by hand, and the checksum of each magic."""

from __future__ import annotations

import struct
import zlib

import pytest

from kafkawire.records import header
from tests.records.record_bytes import FIRST, message


def test_the_places_of_the_fields() -> None:
    """Kafka's DefaultRecordBatch: the offsets of its fields, and their sizes."""
    places = [0, 8, 12, 16, 17, 21, 23, 27, 35, 43, 51, 53, 57]
    sizes = [8, 4, 4, 1, 4, 2, 4, 8, 8, 8, 2, 4, 4]
    raw = b"".join(number.to_bytes(size, "big") for number, size in enumerate(sizes, 1))
    assert header.HEADER.unpack(raw) == tuple(range(1, 14))
    assert [sum(sizes[:i]) for i in range(13)] == places
    assert (header.MAGIC_AT, header.CHECKSUMMED, header.HEADER.size) == (places[3], places[5], 61)
    assert header.length_of(memoryview(raw)) == 2


def test_the_least_lengths() -> None:
    assert {0: len(message(0, b"")) - 12, 1: len(message(1, b"")) - 12, 2: 49} == header.SHORTEST


def test_bits_of_the_attributes() -> None:
    """Kafka's DefaultRecordBatch: COMPRESSION_CODEC_MASK, TIMESTAMP_TYPE_MASK, TRANSACTIONAL_FLAG_MASK, ..."""
    bits = [header.LOG_APPEND_TIME, header.TRANSACTIONAL, header.CONTROL, header.DELETE_HORIZON]
    assert bits == [1 << 3, 1 << 4, 1 << 5, 1 << 6]
    assert (0b111, 0b111 + sum(bits)) == (header.CODEC_MASK, header.KNOWN_ATTRIBUTES)


@pytest.mark.parametrize("batch", [FIRST, message(0, b"x"), message(1, b"x")])
def test_checksums(batch: bytes) -> None:
    view = memoryview(batch)
    assert header.checksum(view) == header.stored_checksum(view)
    for place in range(header.MAGIC_AT + 1, len(batch)):
        changed = bytearray(batch)
        changed[place] ^= 0x80
        assert header.checksum(memoryview(changed)) != header.stored_checksum(memoryview(changed)), place


def test_the_checksum_of_a_message_is_crc_32() -> None:
    data = message(1, b"x")
    assert struct.unpack_from(">I", data, 12)[0] == zlib.crc32(data[16:]) == header.checksum(memoryview(data))
