"""`interpreter`: the whole text of its errors for bytes and for values that it refuses."""
# ruff: noqa: E501

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kafkawire.errors import EncodeError
from kafkawire.messages import (
    AlterClientQuotasRequest,
    ApiVersionsRequest,
    DescribeProducersResponse,
    DescribeTopicPartitionsRequest,
    EndTxnRequest,
    FetchRequest,
    ListTransactionsRequest,
    MetadataRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    TransactionLogValue,
)
from kafkawire.messages.alter_client_quotas_request import EntryData, OpData
from kafkawire.messages.metadata_request import MetadataRequestTopic
from kafkawire.wire.interpreter import Decoder
from kafkawire.wire.interpreter_encoder import Encoder
from kafkawire.wire.layout import COMPACT, INT64, Layout, Op, Table
from kafkawire.wire.message import Message
from kafkawire.wire.values import TaggedField
from tests.engines import refused, written

TRANSACTION = "00" * 15 + "01" + "00" * 16

#: Message, version, bytes; whether only a strict decode refuses them; the error behind "Name vN, ".
BYTES: list[tuple[type[Message], int, str, bool, str]] = [
    (SaslHandshakeRequest, 0, "", False, "mechanism: at byte 0: expected 2 bytes of a string's length, found 0 before the end"),
    (SaslHandshakeRequest, 0, "0003 61", False, "mechanism: at byte 2: expected 3 bytes of string, found 1 before the end"),
    (SaslHandshakeRequest, 0, "ffff", False, "mechanism: at byte 0: expected a string's length, found null (-1)"),
    (SaslHandshakeRequest, 0, "fffe", False, "mechanism: at byte 0: expected a string's length, found -2"),
    (ApiVersionsRequest, 3, "80", False, "client_software_name: at byte 1: expected 1 byte of a string's length, found 0 before the end"),
    (ApiVersionsRequest, 3, "8080808080", False, "client_software_name: at byte 0: expected a string's length (an unsigned varint of at most 5 bytes), found a fifth byte with a continuation bit"),
    (ApiVersionsRequest, 3, "8080808008", False, "client_software_name: at byte 0: expected a string of at most 32767 bytes, found a length of 2147483647"),
    (ApiVersionsRequest, 3, "818002", False, "client_software_name: at byte 0: expected a string of at most 32767 bytes, found a length of 32768"),
    (ApiVersionsRequest, 3, "8100 01 00", True, "client_software_name: at byte 0: expected a string's length in its shortest form, found 8100"),
    (ApiVersionsRequest, 3, "00 01 00", False, "client_software_name: at byte 0: expected a string's length, found null (-1)"),
    (MetadataRequest, 1, "fffffffe", True, "topics: at byte 0: expected an array's length, or -1 for null, found -2"),
    (MetadataRequest, 0, "00000003 0000", False, "topics: at byte 0: expected an array that fits into the 2 bytes left, found a length of 3"),
    (MetadataRequest, 12, "02 00", False, "topics: at byte 0: expected an array that fits into the 1 bytes left, found a length of 1"),
    (ListTransactionsRequest, 0, "03 02 61 00 01 00", False, "state_filters[1]: at byte 3: expected a string's length, found null (-1)"),
    (ListTransactionsRequest, 0, "01 02 00", False, "producer_id_filters: at byte 1: expected an array that fits into the 1 bytes left, found a length of 1"),
    (SaslAuthenticateRequest, 0, "00000002 00", False, "auth_bytes: at byte 4: expected 2 bytes of bytes, found 1 before the end"),
    (SaslAuthenticateRequest, 0, "ffffffff", False, "auth_bytes: at byte 0: expected the length of bytes, found null (-1)"),
    (EndTxnRequest, 0, "0000 0000000000000000 0000", False, "committed: at byte 12: expected 1 byte of a bool, found 0 before the end"),
    (EndTxnRequest, 0, "0000 0000000000000000 0000 02", True, "committed: at byte 12: expected a bool of 0 or 1, found 2"),
    (EndTxnRequest, 0, "0000 00000000", False, "producer_id: at byte 2: expected 8 bytes of int64, found 4 before the end"),
    (MetadataRequest, 12, "02" + "00" * 15, False, "topics: at byte 0: expected an array that fits into the 15 bytes left, found a length of 1"),
    (DescribeTopicPartitionsRequest, 0, "01 00000000 fe 00", True, "cursor: at byte 5: expected -1 (null) or 1, found -2"),
    (DescribeTopicPartitionsRequest, 0, "01 00000000 00 01 00000000 00 00", True, "cursor: at byte 5: expected -1 (null) or 1, found 0"),
    (DescribeTopicPartitionsRequest, 0, "01 00000000", False, "cursor: at byte 5: expected 1 byte of the mark of a nullable struct, found 0 before the end"),
    (TransactionLogValue, 1, TRANSACTION + "02", False, "at byte 32: expected at most 0 tagged fields, found 2"),
    (TransactionLogValue, 1, TRANSACTION + "ffffffff0f 00", False, "at byte 32: expected at most 1 tagged fields, found -1"),
    (TransactionLogValue, 1, TRANSACTION + "02 05 00 05 00", True, "at byte 35: expected a tag from 6 to 2147483646, found 5"),
    (TransactionLogValue, 1, TRANSACTION + "01 ffffffff07 00", True, "at byte 33: expected a tag from 0 to 2147483646, found 2147483647"),
    (TransactionLogValue, 1, TRANSACTION + "02 07 01 aa 08 02 bb", False, "unknown_tagged_fields[1]: at byte 38: expected 2 bytes of tag 8, found 1 before the end"),
    (TransactionLogValue, 1, TRANSACTION + "01 07 ffffffff0f", False, "unknown_tagged_fields[0]: at byte 34: expected a tagged field's size, found -1"),
    (TransactionLogValue, 1, TRANSACTION + "01 00 07 0000000000000009", True, "previous_producer_id: at byte 35: expected a tagged field of 7 bytes, found one of 8"),
    (TransactionLogValue, 1, TRANSACTION + "01 00 08 ffffffffffffffff", True, "previous_producer_id: at byte 35: expected no tagged field at its default, found one"),
    (FetchRequest, 13, "ffffffff 00000000 00000000 7fffffff 00 00000000 ffffffff 01 01 01 01 01 00", False, "at byte 29: expected a tag of this version, found tag 1, which other versions have"),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "version", "text", "strict", "expected"), BYTES, ids=[case[4][:60] for case in BYTES])
def test_error_describes_the_bytes(cls: type[Message], version: int, text: str, strict: bool, expected: str) -> None:
    data = bytes.fromhex(text)
    assert strict == (refused(cls, version, data) is None)
    error = refused(cls, version, data, strict=strict)
    comma = ": " if expected.startswith("at byte") else ", "
    assert str(error) == f"{cls.spec.name} v{version}{comma}{expected}"


def quota(value: Any) -> Message:
    return AlterClientQuotasRequest(entries=(EntryData(ops=(OpData(key="k", value=value),)),))


def tags(*tags: Any) -> Message:
    return TransactionLogValue(unknown_tagged_fields=tags)


#: Message, version, the error behind "Name vN, ".
VALUES: list[tuple[Any, int, str]] = [
    (EndTxnRequest(producer_id="1"), 0, "producer_id: expected int64, got str"),  # type: ignore[arg-type]
    (EndTxnRequest(producer_id=None), 0, "producer_id: null where int64 must be"),  # type: ignore[arg-type]
    (EndTxnRequest(producer_epoch=1 << 15), 0, "producer_epoch: 32768 is out of the range of int16 (-32768 to 32767)"),
    (EndTxnRequest(producer_epoch=-32769), 0, "producer_epoch: -32769 is out of the range of int16 (-32768 to 32767)"),
    (EndTxnRequest(producer_id=1 << 20_000), 0, "producer_id: a number of 20001 bits is out of the range of int64 (-9223372036854775808 to 9223372036854775807)"),
    (EndTxnRequest(producer_id=-(1 << 20_000)), 0, "producer_id: a number of 20001 bits is out of the range of int64 (-9223372036854775808 to 9223372036854775807)"),
    (EndTxnRequest(committed=1 << 20_000), 0, "committed: expected bool, got int a number of 20001 bits"),  # type: ignore[arg-type]
    (tags(TaggedField(1 << 20_000, b"")), 1, "unknown_tagged_fields[0]: a number of 20001 bits is no tag (0 to 2147483646)"),
    (EndTxnRequest(committed="x"), 0, "committed: expected bool, got str"),  # type: ignore[arg-type]
    (EndTxnRequest(committed=2), 0, "committed: expected bool, got int 2"),  # type: ignore[arg-type]
    (EndTxnRequest(transactional_id=b"t"), 0, "transactional_id: expected str, got bytes"),  # type: ignore[arg-type]
    (EndTxnRequest(transactional_id="a\ud800"), 0, "transactional_id: character 1 is a lone surrogate, which UTF-8 cannot carry"),
    (EndTxnRequest(transactional_id="é" * 16384), 0, "transactional_id: 32768 bytes of UTF-8, and the format carries at most 32767"),
    (quota("1"), 0, "entries[0].ops[0].value: expected float, got str"),
    (quota(1 << 2000), 0, "entries[0].ops[0].value: a number of 2001 bits is out of the range of float64"),
    (MetadataRequest(topics=(MetadataRequestTopic(topic_id="x"),)), 12, "topics[0].topic_id: expected uuid.UUID, got str"),  # type: ignore[arg-type]
    (MetadataRequest(topics={1}), 12, "topics: expected tuple, got set"),  # type: ignore[arg-type]
    (MetadataRequest(topics=(MetadataRequestTopic(), None)), 12, "topics[1]: null where struct must be"),  # type: ignore[arg-type]
    (MetadataRequest(topics=None), 0, "topics: null where an array must be"),
    (DescribeProducersResponse(topics=(5,)), 0, "topics[0]: expected TopicResponse of kafkawire.messages.describe_producers_response, got int"),  # type: ignore[arg-type]
    (SaslAuthenticateRequest(auth_bytes="a"), 0, "auth_bytes: expected bytes, got str"),  # type: ignore[arg-type]
    (SaslAuthenticateRequest(auth_bytes=memoryview(b"abcd")[::2]), 0, "auth_bytes: expected a memoryview of bytes in a row"),  # type: ignore[arg-type]
    (ListTransactionsRequest(duration_filter=5), 0, "duration_filter: version 0 does not carry this field, and its value is not the default"),
    (TransactionLogValue(unknown_tagged_fields=(TaggedField(9, b""),)), 0, "unknown_tagged_fields: version 0 carries no tagged fields"),
    (tags(5), 1, "unknown_tagged_fields[0]: expected TaggedField, got int"),
    (tags(TaggedField(9, b""), TaggedField(9, b"")), 1, "unknown_tagged_fields[1]: tag 9 follows tag 9; unknown tags must ascend"),
    (tags(TaggedField(-1, b"")), 1, "unknown_tagged_fields[0]: -1 is no tag (0 to 2147483646)"),
    (tags(TaggedField((1 << 31) - 1, b"")), 1, "unknown_tagged_fields[0]: 2147483647 is no tag (0 to 2147483646)"),
    (tags(TaggedField(1, b"")), 1, "unknown_tagged_fields[0]: tag 1 is a field of version 1, not an unknown tag"),
    (tags(*(TaggedField(i, b"") for i in range(4, 10_005))), 1, "unknown_tagged_fields: 10001 tagged fields, and a reader takes at most 10000"),
    (FetchRequest(unknown_tagged_fields=(TaggedField(1, b""),)), 13, "unknown_tagged_fields[0]: tag 1 is a field of other versions, which a reader of this one refuses"),
    (FetchRequest(unknown_tagged_fields="ab"), 13, "unknown_tagged_fields: expected tuple, got str"),  # type: ignore[arg-type]
]  # fmt: skip


@pytest.mark.parametrize(("value", "version", "expected"), VALUES, ids=[case[2][:60] for case in VALUES])
def test_error_describes_the_value(value: Any, version: int, expected: str) -> None:
    with pytest.raises(EncodeError) as caught:
        value.codec.interpret_encode(value, version)
    assert str(caught.value) == f"{value.spec.name} v{version}, {expected}"
    assert written(value, version) is None


class Wide:
    """A struct of one slot that costs more than its bytes."""

    __struct_fields__ = ("number", "unknown_tagged_fields")
    __struct_defaults__ = (0, ())

    def __init__(self, number: int) -> None:
        self.number = number


@pytest.mark.parametrize(("budget", "left"), [(85, 1), (84, 0), (83, -1)])
def test_the_budget_of_memory(budget: int, left: int) -> None:
    # 16 of the object, 2 slots of 8, 20 of its places in a list and a tuple, 32 of the number.
    table = Table(("Wide",), (Layout(0, False, 8, (Op(INT64, 0),)),), 0, (0,))
    decoder = Decoder(table, (Wide,), bytes(8), 0, message="Wide", version=0, budget=budget)
    if left >= 0:
        assert decoder.struct(table.layouts[0]).number == 0
        assert decoder.budget == left
    else:
        with pytest.raises(
            ValueError, match="expected a struct within the decoder's allocation limit, found none of it"
        ):
            decoder.struct(table.layouts[0])


def test_the_longest_length_that_the_format_counts_to() -> None:
    longest = (1 << 31) - 2
    encoder = Encoder(Table((), (), 0, ()), (), message="M", version=5)
    encoder.length(COMPACT, longest, False)
    assert bytes(encoder.out) == b"\xff\xff\xff\xff\x07"
    with pytest.raises(EncodeError, match=r"^M v5: 2147483647 is too long: the format counts to 2147483646$"):
        encoder.length(COMPACT, longest + 1, False)


def test_a_uuid_is_read_from_16_bytes() -> None:
    value = MetadataRequest.codec.interpret(bytes.fromhex("02" + "00" * 15 + "07" + "0261 00 00 00 00"), 12)[0]
    assert value.topics[0].topic_id == UUID(int=7)
