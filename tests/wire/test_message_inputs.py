"""`message`: what `decode` reads from: every kind of buffer, a place inside one, with and without copying."""

from __future__ import annotations

import random
from functools import partial
from mmap import mmap
from typing import Any

import pytest
from hypothesis import given

import kafkawire
from kafkawire.errors import DecodeError
from kafkawire.messages import DescribeProducersResponse, EndTxnMarker, FetchResponse, ProduceRequest
from kafkawire.testing.comparison import carried, same
from kafkawire.testing.strategies import SCALARS, messages
from kafkawire.wire.message import Message, Struct
from tests.every import for_each
from tests.random_messages import for_random
from tests.strategies import structs_of


def mapped(data: bytes) -> mmap:
    out = mmap(-1, max(1, len(data)))
    out[: len(data)] = data
    return out


def blobs_of(value: Any) -> list[Any]:
    """All values of bytes and records fields."""
    found: list[Any] = []
    for field in value.spec.fields:
        item = getattr(value, field.attribute)
        parts = item if field.is_array else () if item is None else (item,)
        for part in parts or ():
            if isinstance(part, Struct):
                found += blobs_of(part)
            elif field.type.removeprefix("[]") in ("bytes", "records"):
                found.append(part)
    return found


@pytest.mark.slow
@for_each(kafkawire.messages.__all__)
def test_every_kind_of_buffer(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    for version in sorted({cls.spec.valid_versions[0], cls.spec.valid_versions[-1]}):
        for_random(cls, version, 0.05, f"{name} {version}", partial(read_from_everything, cls, version))


def read_from_everything(cls: type[Message], version: int, value: Any, numbers: random.Random) -> None:
    before, after = (numbers.randbytes(numbers.randint(0, 5)) for _ in range(2))
    data = value.encode(version)
    expected = carried(value, version)
    for buffer in (data, bytearray(data), memoryview(data), memoryview(bytearray(data)), mapped(data)):
        if len(buffer) == len(data):  # a map cannot be empty
            for copy in (True, False):
                decoded = cls.decode(buffer, version, copy=copy)
                assert same(decoded, expected)
                wanted = bytes if copy else memoryview
                assert all(type(blob) is wanted for blob in blobs_of(decoded))
                assert all(type(tag.data) is bytes for tag in decoded.unknown_tagged_fields)
            assert same(cls.decode(buffer, version, strict=True), expected)
    whole, at = before + data + after, len(before)
    for buffer in (whole, bytearray(whole), memoryview(whole), mapped(whole)):
        if len(buffer) == len(whole):
            for copy in (True, False):
                for strict in (True, False):
                    decoded, end = cls.decode_from(buffer, version, offset=at, copy=copy, strict=strict)
                    assert (same(decoded, expected), end) == (True, at + len(data))


@given(messages(FetchResponse, 11))
def test_uncopied_bytes_are_views_of_the_input_and_encode_again(value: Any) -> None:
    buffer = bytearray(value.encode(11))
    decoded = FetchResponse.decode(buffer, 11, copy=False)
    data = bytes(buffer)
    assert decoded.encode(11) == data
    for blob in blobs_of(decoded):
        assert blob.obj is buffer


def test_copied_values_leave_a_map_free_to_close() -> None:
    for copied in (ProduceRequest(transactional_id="t"), DescribeProducersResponse(throttle_time_ms=5)):
        version = copied.spec.valid_versions[-1]
        data = mapped(copied.encode(version))
        assert type(copied).decode(data, version) == copied
        data.close()  # BufferError, were any part of the value a view of it


def test_a_prefix_of_the_input_is_read_and_its_end_returned() -> None:
    assert EndTxnMarker.decode_from(b"\xaa\xbb\0\0\0\7rest", 0, offset=2) == (EndTxnMarker(coordinator_epoch=7), 6)


@pytest.mark.parametrize("offset", [-1, 7, 1 << 40])
def test_an_offset_outside_the_input_is_refused(offset: int) -> None:
    with pytest.raises(ValueError, match="outside the 6 bytes"):
        EndTxnMarker.decode_from(b"\0\0\0\0\0\0", 0, offset=offset)


def test_an_error_names_the_offset_in_the_whole_buffer() -> None:
    for buffer in (b"....\0\0", bytearray(b"....\0\0"), memoryview(b"....\0\0"), mapped(b"....\0\0")):
        for strict in (False, True):
            with pytest.raises(DecodeError) as caught:
                EndTxnMarker.decode_from(buffer, 0, offset=4, strict=strict)
            assert (caught.value.offset, caught.value.path) == (4, "coordinator_epoch")


@pytest.mark.parametrize("name", ["ProduceRequest", "FetchResponse"])
def test_an_error_behind_bytes_names_the_offset_in_the_whole_buffer(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    version = cls.spec.valid_versions[-1]
    data = b"...." + cls().encode(version)[:-1] + b"\x7f"  # 127 tagged fields and no byte
    errors = set()
    for buffer in (data, bytearray(data), memoryview(data), mapped(data)):
        with pytest.raises(DecodeError) as caught:
            cls.decode_from(buffer, version, offset=4)
        errors.add((caught.value.offset, caught.value.path, caught.value.expected, caught.value.found))
    assert errors == {(len(data) - 1, "", "at most 0 tagged fields", "127")}


@pytest.mark.parametrize(
    ("more", "trailing"), [(1, "1 more byte"), (2, "2 more bytes"), (9, "9 more bytes"), (300, "300 more bytes")]
)
def test_error_counts_the_bytes_that_follow(more: int, trailing: str) -> None:
    for before in (0, 3):
        with pytest.raises(DecodeError) as caught:
            EndTxnMarker.decode(bytes(before + 6 + more), 0, offset=before + 2)
        assert (caught.value.found, caught.value.offset) == (trailing, before + 6)
        assert caught.value.expected == "the end of the message"


def test_views_of_wider_items_are_read_as_their_bytes() -> None:
    assert EndTxnMarker.decode(memoryview(b"\0\0\0\7").cast("i"), 0) == EndTxnMarker(coordinator_epoch=7)


def test_every_scalar_type_has_a_strategy() -> None:
    used = {
        field.type.removeprefix("[]")
        for name in kafkawire.messages.__all__
        for struct in structs_of(getattr(kafkawire.messages, name))
        for field in struct.spec.fields
        if field.struct is None
    }
    assert used == set(SCALARS)
