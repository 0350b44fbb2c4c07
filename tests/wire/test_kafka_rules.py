"""What Kafka's own classes accept, rule by rule, on bytes that were put together by hand.

The rules are those that the schemas do not say: what `ByteBufferAccessor`, `ByteUtils`, `MessageGenerator`'s `read()`
and `RawTaggedFieldWriter` do. Every case runs through the generated decoder and the interpreter.
"""

from __future__ import annotations

import pytest

from kafkawire.errors import DecodeError, EncodeError
from kafkawire.messages import (
    ApiVersionsRequest,
    ConsumerGroupMemberMetadataValue,
    DescribeTopicPartitionsRequest,
    EndTxnRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    MetadataRequest,
    ProduceRequest,
    SaslHandshakeRequest,
    TransactionLogValue,
    UnregisterBrokerRequest,
    UpdateRaftVoterResponse,
)
from kafkawire.messages.consumer_group_member_metadata_value import ClassicMemberMetadata
from kafkawire.messages.describe_topic_partitions_request import Cursor
from kafkawire.messages.update_raft_voter_response import CurrentLeader
from kafkawire.wire.values import TaggedField
from tests.engines import accepts, refuses

ZERO = "00000000"


def encoded(text: str) -> bytes:
    return bytes.fromhex(text)


# Rule 1: nullable structs -------------------------------------------------------------------------------------------

CURSOR = "0261 00000005 00"  # "a", 5, no tags


def test_a_nullable_struct_is_marked_by_an_int8() -> None:
    null = accepts(DescribeTopicPartitionsRequest, 0, "01 000007d0 ff 00", strict=True)
    assert null == DescribeTopicPartitionsRequest(cursor=None)
    there = accepts(DescribeTopicPartitionsRequest, 0, f"01 000007d0 01 {CURSOR} 00", strict=True)
    assert there == DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="a", partition_index=5))


@pytest.mark.parametrize("mark", ["80", "fe"])
def test_any_negative_mark_of_a_struct_is_null(mark: str) -> None:
    assert accepts(DescribeTopicPartitionsRequest, 0, f"01 000007d0 {mark} 00").cursor is None


@pytest.mark.parametrize("mark", ["00", "02", "7f"])
def test_any_other_mark_of_a_struct_is_present(mark: str) -> None:
    value = accepts(DescribeTopicPartitionsRequest, 0, f"01 000007d0 {mark} {CURSOR} 00")
    assert value.cursor == Cursor(topic_name="a", partition_index=5)


# InstanceId, RackId null; ClientId, ClientHost ""; no topics; regex null; timeout -1; assignor null.
MEMBER = "00 00 01 01 01 00 ffffffff 00"
PROTOCOLS = "0000000a 02 0272 0301ff 00 00"  # 10 ms; one protocol "r" with 2 bytes; no tags


def test_a_tagged_nullable_struct_is_marked_by_an_unsigned_varint() -> None:
    cls = ConsumerGroupMemberMetadataValue
    null = accepts(cls, 0, f"{MEMBER} 01 00 01 00", strict=True)
    assert null.classic_member_metadata is None
    there = accepts(cls, 0, f"{MEMBER} 01 00 0d 01 {PROTOCOLS}", strict=True)
    assert there.classic_member_metadata.session_timeout_ms == 10
    assert there.classic_member_metadata.supported_protocols[0].metadata == b"\x01\xff"


def test_the_default_of_a_nullable_struct_is_an_empty_one_and_is_left_out() -> None:
    value = accepts(ConsumerGroupMemberMetadataValue, 0, f"{MEMBER} 00", strict=True)
    assert value.classic_member_metadata == ClassicMemberMetadata()
    # Written out it is read, but would not be written so again.
    assert accepts(ConsumerGroupMemberMetadataValue, 0, f"{MEMBER} 01 00 07 01 {ZERO} 01 00") == value


@pytest.mark.parametrize("mark", ["8000", "ffffffff0f", "8080808008"])
def test_a_tagged_struct_with_a_mark_of_0_or_less_is_null(mark: str) -> None:
    size = len(encoded(mark))
    value = accepts(ConsumerGroupMemberMetadataValue, 0, f"{MEMBER} 01 00 {size:02x} {mark}")
    assert value.classic_member_metadata is None


@pytest.mark.parametrize("mark", ["02", "7f", "8100"])
def test_a_tagged_struct_with_a_mark_above_0_is_present(mark: str) -> None:
    size = len(encoded(mark)) + 12
    value = accepts(ConsumerGroupMemberMetadataValue, 0, f"{MEMBER} 01 00 {size:02x} {mark} {PROTOCOLS}")
    assert value.classic_member_metadata.session_timeout_ms == 10


# Rules 2 to 5: tagged fields ----------------------------------------------------------------------------------------

# Producer id 1, epoch 2, timeout 3, status 4, no partitions (null), updated 5, started 6.
TRANSACTION = "0000000000000001 0002 00000003 04 00 0000000000000005 0000000000000006"


def test_tagged_fields_at_their_default_are_not_written() -> None:
    assert accepts(TransactionLogValue, 1, f"{TRANSACTION} 00", strict=True).previous_producer_id == -1
    assert accepts(TransactionLogValue, 1, f"{TRANSACTION} 01 00 08 ffffffffffffffff").previous_producer_id == -1


def test_known_and_unknown_tags_are_written_in_one_ascending_order() -> None:
    tags = "03 00 08 0000000000000009 02 02 0002 05 01 ff"
    value = accepts(TransactionLogValue, 1, f"{TRANSACTION} {tags}", strict=True)
    assert (value.previous_producer_id, value.client_transaction_version) == (9, 2)
    assert value.unknown_tagged_fields == (TaggedField(5, b"\xff"),)
    fetch = "00000000 00000000 7fffffff 00 00000000 ffffffff 01 01 01"
    fetched = accepts(FetchRequest, 18, f"{fetch} 03 00 02 0263 01 0d 00000001 0000000000000002 00 02 00", strict=True)
    assert fetched.cluster_id == "c"
    assert fetched.unknown_tagged_fields == (TaggedField(2, b""),)


@pytest.mark.parametrize("size", ["00", "07", "09", "7f", "ffffffff07", "ffffffff0f"])
def test_the_size_of_a_known_tagged_field_is_not_looked_at(size: str) -> None:
    value = accepts(TransactionLogValue, 1, f"{TRANSACTION} 02 00 {size} 0000000000000009 05 01 ff")
    assert (value.previous_producer_id, value.unknown_tagged_fields) == (9, (TaggedField(5, b"\xff"),))


def test_an_unknown_tagged_field_is_skipped_by_its_size() -> None:
    assert accepts(UnregisterBrokerRequest, 0, f"{ZERO} 01 00 02 beef", strict=True).unknown_tagged_fields == (
        TaggedField(0, b"\xbe\xef"),
    )
    error = refuses(UnregisterBrokerRequest, 0, f"{ZERO} 01 00 03 beef")
    assert (error.path, error.offset, error.found) == ("unknown_tagged_fields[0]", 7, "2 before the end")
    error = refuses(UnregisterBrokerRequest, 0, f"{ZERO} 01 00 ffffffff0f beef")
    assert (error.path, error.offset, error.found) == ("unknown_tagged_fields[0]", 6, "-1")


def test_a_tag_that_only_other_versions_know_is_refused() -> None:
    # FetchRequest: tag 1 is ReplicaState, from version 15 on.
    fetch = "ffffffff 00000000 00000000 7fffffff 00 00000000 ffffffff 01 01 01"
    error = refuses(FetchRequest, 13, f"{fetch} 01 01 0d 00000001 0000000000000002 00")
    assert (error.offset, error.expected) == (len(encoded(fetch)) + 1, "a tag of this version")
    assert error.found == "tag 1, which other versions have"
    fetch = "00000000 00000000 7fffffff 00 00000000 ffffffff 01 01 01"
    value = accepts(FetchRequest, 15, f"{fetch} 01 01 0d 00000001 0000000000000002 00", strict=True)
    assert (value.replica_state.replica_id, value.replica_state.replica_epoch) == (1, 2)


def test_tags_in_any_order_are_read_but_not_written_back() -> None:
    value = accepts(TransactionLogValue, 1, f"{TRANSACTION} 02 02 02 0002 00 08 0000000000000009")
    assert (value.previous_producer_id, value.client_transaction_version) == (9, 2)
    value = accepts(UnregisterBrokerRequest, 0, f"{ZERO} 02 07 00 05 00")
    assert value.unknown_tagged_fields == (TaggedField(7, b""), TaggedField(5, b""))
    with pytest.raises(EncodeError, match="tag 5 follows tag 7") as caught:
        value.encode(0)
    assert caught.value.path == "unknown_tagged_fields[1]"


def test_of_a_known_tag_given_twice_the_later_counts() -> None:
    value = accepts(TransactionLogValue, 1, f"{TRANSACTION} 02 00 08 0000000000000009 00 08 0000000000000007")
    assert value.previous_producer_id == 7


def test_an_unknown_tag_given_twice_is_read_and_cannot_be_written_back() -> None:
    value = accepts(UnregisterBrokerRequest, 0, f"{ZERO} 02 05 01 aa 05 01 bb")
    assert value.unknown_tagged_fields == (TaggedField(5, b"\xaa"), TaggedField(5, b"\xbb"))
    with pytest.raises(EncodeError, match="tag 5 follows tag 5"):
        value.encode(0)


def test_the_highest_tag_can_be_read_and_not_written() -> None:
    value = accepts(UnregisterBrokerRequest, 0, f"{ZERO} 01 feffffff07 00", strict=True)
    assert value.unknown_tagged_fields == (TaggedField((1 << 31) - 2, b""),)
    value = accepts(UnregisterBrokerRequest, 0, f"{ZERO} 01 ffffffff07 00")
    assert value.unknown_tagged_fields == (TaggedField((1 << 31) - 1, b""),)
    with pytest.raises(EncodeError, match="2147483647 is no tag"):
        value.encode(0)


def test_a_tag_known_in_other_versions_only_cannot_be_written_as_unknown() -> None:
    # It could not be read back.
    value = FetchRequest(unknown_tagged_fields=(TaggedField(1, b""),))
    with pytest.raises(EncodeError) as caught:
        value.encode(13)
    assert caught.value.path == "unknown_tagged_fields[0]"


# Rule 6: negative lengths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", ["ffff", "fffe", "8000"])
def test_any_negative_length_of_a_nullable_string_is_null(length: str) -> None:
    value = accepts(InitProducerIdRequest, 0, f"{length} 00000001", strict=length == "ffff")
    assert value == InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1)


@pytest.mark.parametrize("length", ["ffffffff", "fffffffe", "80000000"])
def test_any_negative_length_of_a_nullable_array_is_null(length: str) -> None:
    value = accepts(MetadataRequest, 1, length, strict=length == "ffffffff")
    assert value == MetadataRequest(topics=None)


@pytest.mark.parametrize("length", ["ffffffff", "fffffffe"])
def test_any_negative_length_of_nullable_bytes_is_null(length: str) -> None:
    # ProduceRequest 3: no transactional id, acks 0, timeout 0, one topic "t" with partition 0.
    text = f"ffff 0000 {ZERO} 00000001 0001 74 00000001 {ZERO} {length}"
    value = accepts(ProduceRequest, 3, text, strict=length == "ffffffff")
    assert value.topic_data[0].partition_data[0].records is None


@pytest.mark.parametrize(("length", "canonical"), [("00", True), ("8000", False), ("ffffffff0f", False)])
def test_a_compact_length_of_0_or_less_is_null(length: str, canonical: bool) -> None:
    value = accepts(ListTransactionsRequest, 2, f"01 01 ffffffffffffffff {length} 00", strict=canonical)
    assert value.transactional_id_pattern is None


@pytest.mark.parametrize(
    ("cls", "version", "text", "path", "offset"),
    [
        (SaslHandshakeRequest, 0, "ffff", "mechanism", 0),
        (SaslHandshakeRequest, 0, "8000", "mechanism", 0),
        (ApiVersionsRequest, 3, "00 01 00", "client_software_name", 0),
        (ApiVersionsRequest, 3, "01 ffffffff0f 00", "client_software_version", 1),
        (MetadataRequest, 0, "ffffffff", "topics", 0),
        (MetadataRequest, 0, "00000002 0001 61 ffff", "topics[1].name", 7),
        (ListTransactionsRequest, 0, "00 01 00", "state_filters", 0),
        (ListTransactionsRequest, 0, "02 00 01 00", "state_filters[0]", 1),
        (ListTransactionsRequest, 0, "01 00 00", "producer_id_filters", 1),
    ],
)
def test_a_negative_length_where_null_is_not_allowed_is_refused(
    cls: type, version: int, text: str, path: str, offset: int
) -> None:
    error = refuses(cls, version, text)
    assert (error.path, error.offset) == (path, offset)


# Rule 7: unsigned varints -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", ["8200", "828000", "82808000", "8280808000", "8280808010"])
def test_a_length_may_be_longer_than_needed_and_bits_above_32_are_dropped(length: str) -> None:
    value = accepts(ApiVersionsRequest, 3, f"{length} 61 0262 00")
    assert (value.client_software_name, value.client_software_version) == ("a", "b")


@pytest.mark.parametrize("length", ["8280808080", "82808080ff", "ffffffffff01", "808080808000"])
def test_a_varint_whose_fifth_byte_goes_on_is_refused(length: str) -> None:
    error = refuses(ApiVersionsRequest, 3, f"{length} 61 0262 00")
    assert (error.path, error.offset, error.found) == (
        "client_software_name",
        0,
        "a fifth byte with a continuation bit",
    )


def test_a_varint_of_2_to_the_31_is_negative() -> None:
    # The smallest int: less one it is the largest in Java, so it is a length that nothing can hold.
    error = refuses(ListTransactionsRequest, 2, "01 01 ffffffffffffffff 8080808008 00")
    assert (error.path, error.offset) == ("transactional_id_pattern", 10)
    # One more is negative still, and null.
    assert accepts(ListTransactionsRequest, 2, "01 01 ffffffffffffffff 8180808008 00").transactional_id_pattern is None


# Rule 8: counts -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "version", "text", "path", "offset"),
    [
        (MetadataRequest, 0, "7fffffff 0000", "topics", 0),
        (MetadataRequest, 0, "00000002 0000", "topics", 0),
        (ListTransactionsRequest, 0, "7e 01 00", "state_filters", 0),
        (ListTransactionsRequest, 0, "ffffffff07 01 00", "state_filters", 0),
        (ListTransactionsRequest, 0, "01 02 00", "producer_id_filters", 1),
        (ListTransactionsRequest, 0, "01 ffffffff07 00", "producer_id_filters", 1),
    ],
)
def test_more_elements_than_the_bytes_left_can_hold_are_refused(
    cls: type, version: int, text: str, path: str, offset: int
) -> None:
    error = refuses(cls, version, text)
    assert (error.path, error.offset) == (path, offset)
    assert error.expected.startswith("an array that fits")


@pytest.mark.parametrize("count", ["02", "7f", "ffffffff07", "ffffffff0f", "8080808008"])
def test_a_count_of_tagged_fields_that_is_negative_or_above_the_bytes_left_is_refused(count: str) -> None:
    error = refuses(UnregisterBrokerRequest, 0, f"{ZERO} {count} 00")
    assert (error.path, error.offset) == ("", 4)
    assert "tagged fields" in error.expected


@pytest.mark.slow
def test_a_struct_has_at_most_10000_tagged_fields() -> None:
    def tags(count: int) -> str:
        numbers = (bytes([tag & 127 | 128, tag >> 7]) if tag > 127 else bytes([tag]) for tag in range(count))
        return f"{ZERO} {bytes([count & 127 | 128, count >> 7]).hex()} {''.join(tag.hex() + '00' for tag in numbers)}"

    value = accepts(UnregisterBrokerRequest, 0, tags(10_000), strict=True)
    assert len(value.unknown_tagged_fields) == 10_000
    error = refuses(UnregisterBrokerRequest, 0, tags(10_001))
    assert (error.offset, error.expected, error.found) == (4, "at most 10000 tagged fields", "10001")


def test_more_than_10000_tagged_fields_are_not_written() -> None:
    value = UnregisterBrokerRequest(unknown_tagged_fields=tuple(TaggedField(tag, b"") for tag in range(10_001)))
    with pytest.raises(EncodeError) as caught:
        value.encode(0)
    assert caught.value.path == "unknown_tagged_fields"


# Rule 9: strings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raw", ["ff", "c0af", "eda080", "f8888080", "61c3", "e28261", "f09f98", "80", "f4908080"])
def test_bytes_that_are_no_utf8_are_kept_and_written_back(raw: str) -> None:
    data = f"{len(encoded(raw)):04x} {raw}"
    value = accepts(SaslHandshakeRequest, 0, data, strict=True)
    assert value.encode(0) == encoded(data)
    assert value.mechanism.encode("utf-8", "surrogateescape") == encoded(raw)
    compact = f"{len(encoded(raw)) + 1:02x} {raw} 01 00"
    assert accepts(ApiVersionsRequest, 3, compact, strict=True).encode(3) == encoded(compact)


def test_a_string_has_at_most_32767_bytes() -> None:
    longest = "61" * 32767
    assert accepts(SaslHandshakeRequest, 0, f"7fff {longest}", strict=True).mechanism == "a" * 32767
    value = accepts(ApiVersionsRequest, 3, f"808002 {longest} 01 00", strict=True)
    assert value.client_software_name == "a" * 32767
    error = refuses(ApiVersionsRequest, 3, f"818002 {longest} 61 01 00")
    assert (error.path, error.offset, error.found) == ("client_software_name", 0, "a length of 32768")


@pytest.mark.parametrize("text", ["a" * 32768, "é" * 16384, "\udcff" * 32768])
def test_a_longer_string_is_not_written(text: str) -> None:
    for value, version, path in (
        (SaslHandshakeRequest(mechanism=text), 0, "mechanism"),
        (ApiVersionsRequest(client_software_version=text), 3, "client_software_version"),
        (ListTransactionsRequest(state_filters=("", text)), 0, "state_filters[1]"),
    ):
        with pytest.raises(EncodeError, match="32768 bytes of UTF-8") as caught:
            value.encode(version)
        assert caught.value.path == path


# Rules 10 and 11: bools, what follows, versions ---------------------------------------------------------------------


@pytest.mark.parametrize(("byte", "wanted"), [("00", False), ("01", True), ("02", True), ("80", True), ("ff", True)])
def test_any_byte_but_0_is_true(byte: str, wanted: bool) -> None:
    value = accepts(EndTxnRequest, 0, f"0001 74 0000000000000001 0000 {byte}", strict=byte in ("00", "01"))
    assert value.committed is wanted


def test_bytes_behind_the_message_are_left_alone_by_decode_from_and_refused_by_decode() -> None:
    data = encoded("0001 74 0000000000000001 0000 01") + b"rest"
    value, end = EndTxnRequest.decode_from(data, 0)
    assert (value.committed, data[end:]) == (True, b"rest")
    for strict in (False, True):
        with pytest.raises(DecodeError) as caught:
            EndTxnRequest.decode(data, 0, strict=strict)
        assert (caught.value.offset, caught.value.found) == (end, "4 more bytes")
        assert (caught.value.message, caught.value.version) == ("EndTxnRequest", 0)


def test_a_struct_that_must_be_there_has_no_mark() -> None:
    # UpdateRaftVoterResponse: throttle time, error code, tag 0: CurrentLeader, a struct that is never null.
    leader = "00000001 00000002 0268 00000003 00"
    value = accepts(UpdateRaftVoterResponse, 0, f"{ZERO} 0000 01 00 0f {leader}", strict=True)
    assert value.current_leader == CurrentLeader(leader_id=1, leader_epoch=2, host="h", port=3)
