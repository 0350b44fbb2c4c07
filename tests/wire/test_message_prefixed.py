"""`message`: the int16 before coordinator records, control records and AbortedTxn: `decode_prefixed` and its kin."""

from __future__ import annotations

import pytest

import kafkawire
from kafkawire.errors import DecodeError, UnsupportedVersionError
from kafkawire.messages import (
    AbortedTxn,
    ControlRecordTypeSchema,
    EndTxnMarker,
    GroupMetadataKey,
    OffsetCommitKey,
    TransactionLogKey,
    TransactionLogValue,
)
from kafkawire.wire.message import Message


def test_an_aborted_transaction_takes_34_bytes_with_its_version_and_32_without() -> None:
    data = bytes.fromhex("0000 0000000000000001 0000000000000002 0000000000000003 0000000000000004")
    value, version = AbortedTxn.decode_prefixed(data)
    assert version == 0
    assert (value.producer_id, value.first_offset, value.last_offset, value.last_stable_offset) == (1, 2, 3, 4)
    assert value.encode_prefixed(0) == data
    assert len(data) == 34
    assert value.encode(0) == data[2:]


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_an_end_marker(kind: type) -> None:
    value, version = EndTxnMarker.decode_prefixed(kind(bytes.fromhex("0000 00000007")), strict=True)
    assert (value, version) == (EndTxnMarker(coordinator_epoch=7), 0)


def test_a_coordinators_key_has_its_api_key_before_it() -> None:
    for cls, text in (
        (TransactionLogKey, "0000 0001 74"),
        (OffsetCommitKey, "0001 0001 67 0001 74 00000005"),
        (GroupMetadataKey, "0002 0001 67"),
    ):
        data = bytes.fromhex(text)
        value, version = cls.decode_prefixed(data)
        assert version == cls.spec.valid_versions[-1]
        assert value.encode_prefixed(version) == data
        other = bytes([0, data[1] + 1]) + data[2:]
        with pytest.raises(DecodeError) as caught:
            cls.decode_prefixed(other)
        assert (caught.value.offset, caught.value.expected) == (0, f"the api key {cls.spec.api_key} as int16")


def test_a_coordinators_value_has_its_version_before_it() -> None:
    for version in (0, 1):
        data = TransactionLogValue(producer_id=5).encode_prefixed(version)
        assert data[:2] == bytes([0, version])
        assert TransactionLogValue.decode_prefixed(data) == (TransactionLogValue(producer_id=5), version)


@pytest.mark.parametrize("prefix", ["0002", "ffff", "7fff", "8000"])
def test_a_version_that_the_message_does_not_have(prefix: str) -> None:
    with pytest.raises(DecodeError) as caught:
        TransactionLogValue.decode_prefixed(bytes.fromhex(prefix) + TransactionLogValue().encode(1))
    assert (caught.value.offset, caught.value.expected) == (0, "a version from 0 to 1 as int16")
    assert (caught.value.message, caught.value.path) == ("TransactionLogValue", "")


@pytest.mark.parametrize("data", [b"", b"\0"])
def test_less_than_a_prefix(data: bytes) -> None:
    for cls in (EndTxnMarker, TransactionLogKey):
        with pytest.raises(DecodeError) as caught:
            cls.decode_prefixed(data)
        assert (caught.value.offset, caught.value.found) == (0, f"{len(data)} of its 2 bytes")


def test_offsets_count_from_the_prefix() -> None:
    with pytest.raises(DecodeError) as caught:
        EndTxnMarker.decode_prefixed(bytes.fromhex("0000 0000"))
    assert (caught.value.offset, caught.value.path) == (2, "coordinator_epoch")
    with pytest.raises(DecodeError) as caught:
        EndTxnMarker.decode_prefixed(bytes.fromhex("0000 00000007 ff"))
    assert (caught.value.offset, caught.value.expected) == (6, "the end of the message")


def test_a_version_that_cannot_be_written() -> None:
    with pytest.raises(UnsupportedVersionError):
        EndTxnMarker().encode_prefixed(1)


@pytest.mark.parametrize(
    "name",
    [name for name in kafkawire.messages.__all__ if getattr(kafkawire.messages, name).spec.kind.startswith("coord")],
)
def test_every_record_of_a_coordinator(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    for version in cls.spec.valid_versions:
        data = cls().encode_prefixed(version)
        assert data[2:] == cls().encode(version)
        assert cls.decode_prefixed(data, strict=True) == (cls(), version)
        prefix = cls.spec.api_key if cls.spec.kind == "coordinator-key" else version
        assert int.from_bytes(data[:2], "big", signed=True) == prefix


def test_the_key_of_a_control_record() -> None:
    value, version = ControlRecordTypeSchema.decode_prefixed(bytes.fromhex("0000 0001"))
    assert (value.type, version) == (1, 0)
