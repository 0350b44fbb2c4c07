"""The four schemas that Kafka tests its own generator with, compiled at run time: known bytes, rules and round trips.

They hold what no shipped message does: tagged fields of every type with defaults of their own, nullable structs in and
out of tags, a common struct, a field that only one version has. The bytes are what Kafka's generated classes write.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import kafkawire
from kafkawire.errors import EncodeError
from kafkawire.testing.comparison import carried, same
from kafkawire.testing.strategies import messages
from kafkawire.wire.message import Message
from kafkawire.wire.values import TaggedField
from tests.engines import accepts, refuses, round_trip
from tests.strategies import for_all, structs_of

FOLDER = Path(__file__).parent.parent / "schemas_kafka"
KAFKA = kafkawire.load_schemas(FOLDER)
Simple: Any = KAFKA["SimpleExampleMessage"]
Nullable: Any = KAFKA["NullableStructMessage"]
Arrays: Any = KAFKA["SimpleArraysMessage"]
Records: Any = KAFKA["SimpleRecordsMessage"]

SIMPLE_0 = "0000007b 0000007b 0000007b 0000007b"
SIMPLE_2 = "00000000000000000000000000000000 00000000 01 00 0000007b0000007b00 0000007b0000007b00 80e8 0012d687 00"


def test_the_folder_is_a_namespace() -> None:
    assert list(KAFKA) == [
        "NullableStructMessage",
        "SimpleArraysMessage",
        "SimpleExampleMessage",
        "SimpleRecordsMessage",
    ]
    assert len(KAFKA) == 4
    assert KAFKA.SimpleArraysMessage is Arrays
    with pytest.raises(AttributeError, match="SimpleArraysMessage"):
        _ = KAFKA.SimpleArrayMessage
    with pytest.raises(LookupError):
        kafkawire.lookup("SimpleArraysMessage")


@pytest.mark.slow
@pytest.mark.parametrize("name", KAFKA.__all__)
def test_every_version_round_trips(name: str) -> None:
    cls: type[Message] = KAFKA[name]
    for version in cls.spec.valid_versions:

        def check(value: Any, version: int = version) -> None:
            expected = carried(value, version)
            round_trip(value, version, expected)
            text = json.dumps(kafkawire.to_json(value, version, unknown_tags=True))
            assert same(kafkawire.from_json(cls, json.loads(text), version), expected)

        for_all(messages(cls, version), 0.35, f"{name} {version}", check)


def test_the_default_message_of_kafkas_classes() -> None:
    assert Simple().encode(0) == bytes.fromhex(SIMPLE_0)
    assert Simple().encode(2) == bytes.fromhex(SIMPLE_2)
    assert accepts(Simple, 2, SIMPLE_2, strict=True) == Simple()
    assert Nullable().encode(0) == bytes.fromhex("ff 0000 00000000")
    assert Nullable().encode(2) == bytes.fromhex("ff 01 01 00000000 00 00")
    assert accepts(Nullable, 2, "ff 01 01 00000000 00 00", strict=True) == Nullable()


def test_defaults() -> None:
    value = Simple()
    assert value.my_tagged_int_array == ()
    assert value.my_nullable_string is None
    assert (value.my_int16, value.my_float64, value.my_uint16, value.my_uint32) == (123, 12.34, 33000, 1234567)
    assert (value.my_bytes, value.zero_copy_byte_buffer, value.nullable_zero_copy_byte_buffer) == (b"", b"", b"")
    assert value.tagged_uuid == UUID("1f728a3b-8353-44f6-825a-d1269b7bd6ec")
    assert value.tagged_long == 0xCAFCACAFCACAFCA
    assert (value.my_common_struct.foo, value.my_other_common_struct.bar) == (123, 123)
    assert type(value.my_common_struct) is type(value.my_other_common_struct)


def test_nullable_structs_are_null_only_where_the_version_allows_it() -> None:
    nothing = Nullable(nullable_struct=None, nullable_struct2=None, nullable_struct3=None, nullable_struct4=None)
    assert nothing.encode(2) == bytes.fromhex("ff ff 01 01 01 00")
    assert accepts(Nullable, 2, "ff ff 01 01 01 00", strict=True) == nothing
    # Its default is not null, and version 0 does not carry it.
    with pytest.raises(EncodeError, match="version 0 does not carry this field") as caught:
        nothing.encode(0)
    assert caught.value.path == "nullable_struct4"
    with pytest.raises(EncodeError, match="null where struct must be") as caught:
        Nullable(nullable_struct2=None).encode(0)
    assert caught.value.path == "nullable_struct2"


def test_structs_that_are_there() -> None:
    structs = {cls.spec.name: cls for cls in structs_of(Nullable)}
    value = Nullable(
        nullable_struct=structs["MyStruct"](my_string="1", my_int=1),
        nullable_struct2=structs["MyStruct2"](my_string="2", my_int=2),
        nullable_struct3=structs["MyStruct3"](my_string="3", my_int=3),
        nullable_struct4=structs["MyStruct4"](my_string="4", my_int=4),
    )
    first, second = "01 0231 00000001 00", "01 0232 00000002 00"
    tagged = "00 08 01 0233 00000003 00 01 08 01 0234 00000004 00"
    assert value.encode(2) == bytes.fromhex(f"{first} {second} 02 {tagged}")
    assert accepts(Nullable, 2, f"{first} {second} 02 {tagged}", strict=True) == value
    with pytest.raises(EncodeError) as caught:
        value.encode(0)
    assert caught.value.path == "nullable_struct3"
    # Without those that version 0 lacks: a mark before the first, none before the second, which is never null there.
    older = Nullable(nullable_struct=value.nullable_struct, nullable_struct2=value.nullable_struct2)
    assert older.encode(0) == bytes.fromhex("01 0001 31 00000001 0001 32 00000002")


def test_an_empty_tagged_struct_whose_default_is_null_is_written() -> None:
    structs = {cls.spec.name: cls for cls in structs_of(Nullable)}
    value = Nullable(nullable_struct3=structs["MyStruct3"](), nullable_struct4=structs["MyStruct4"]())
    assert value.encode(2) == bytes.fromhex("ff 01 01 00000000 00 01 00 07 01 01 00000000 00")


@pytest.mark.parametrize(
    ("field", "value", "tag", "text"),
    [
        ("my_tagged_int_array", (1, 2), 0, "03 00000001 00000002"),
        ("my_nullable_string", "foo", 1, "04 666f6f"),
        ("my_nullable_string", "", 1, "01"),
        ("my_int16", 456, 2, "01c8"),
        ("my_float64", 1.0, 3, "3ff0000000000000"),
        ("my_float64", -0.0, 3, "8000000000000000"),
        ("my_float64", float("nan"), 3, "7ff8000000000000"),
        ("my_float64", float("inf"), 3, "7ff0000000000000"),
        ("my_float64", 5e-324, 3, "0000000000000001"),
        ("my_string", "abc", 4, "04 616263"),
        ("my_bytes", b"\x43\x66", 5, "03 4366"),
        ("my_bytes", None, 5, "00"),
        ("tagged_uuid", UUID(int=0), 6, "00" * 16),
        ("tagged_long", 0x123443211234432, 7, "0123443211234432"),
        ("tagged_long_flexible_version_subset", -1, 9, "ffffffffffffffff"),
    ],
)
def test_each_tagged_field(field: str, value: Any, tag: int, text: str) -> None:
    message = Simple(**{field: value})
    body = bytes.fromhex(text)
    data = bytes.fromhex(SIMPLE_2)[:-1] + bytes([1, tag, len(body)]) + body
    assert round_trip(message, 2, message) == data
    assert same(accepts(Simple, 2, data.hex(), strict=True), message)


def test_the_payload_of_a_nan_is_kept() -> None:
    for body in ("7ff8000000000001", "fff8000000000000", "7ff0000000000001"):
        data = bytes.fromhex(SIMPLE_2)[:-1] + bytes.fromhex(f"01 03 08 {body}")
        assert Simple.decode(data, 2, strict=True).encode(2) == data


def test_all_tagged_fields_at_once_with_unknown_ones_among_them() -> None:
    struct = {cls.spec.name: cls for cls in structs_of(Simple)}["TaggedStruct"]
    unknown = (TaggedField(10, b"a"), TaggedField(300, b""))
    message = Simple(my_int16=1, my_tagged_struct=struct(struct_id="s"), tagged_long=2, unknown_tagged_fields=unknown)
    tags = "05 02 02 0001 07 08 0000000000000002 08 03 0273 00 0a 01 61 ac02 00"
    assert message.encode(2) == bytes.fromhex(SIMPLE_2)[:-1] + bytes.fromhex(tags)
    assert Simple.decode(message.encode(2), 2, strict=True) == message


def test_fields_that_a_version_lacks() -> None:
    for value, version, path in (
        (Simple(process_id=UUID(int=1)), 0, "process_id"),
        (Simple(my_int16=1), 0, "my_int16"),
        (Simple(zero_copy_byte_buffer=b"x"), 2, "zero_copy_byte_buffer"),
        (Simple(nullable_zero_copy_byte_buffer=None), 0, "nullable_zero_copy_byte_buffer"),
        (Simple(nullable_zero_copy_byte_buffer=None), 2, "nullable_zero_copy_byte_buffer"),
        (Simple(my_uint32=5), 0, "my_uint32"),
    ):
        with pytest.raises(EncodeError) as caught:
            value.encode(version)
        assert caught.value.path == path
    struct = {cls.spec.name: cls for cls in structs_of(Simple)}["MyStruct"]
    with pytest.raises(EncodeError) as caught:
        Simple(my_struct=struct(struct_id=10)).encode(1)
    assert caught.value.path == "my_struct"
    # It may be ignored.
    assert Simple(tagged_long_flexible_version_subset=5).encode(1) == Simple().encode(1)


@pytest.mark.parametrize("value", [-1, 1 << 16])
def test_unsigned_numbers_have_their_range(value: int) -> None:
    with pytest.raises(EncodeError, match="out of the range of uint16"):
        Simple(my_uint16=value).encode(2)
    with pytest.raises(EncodeError, match="out of the range of uint32"):
        Simple(my_uint32=value if value < 0 else 1 << 32).encode(2)
    assert Simple.decode(Simple(my_uint16=65535, my_uint32=(1 << 32) - 1).encode(2), 2).my_uint32 == 4294967295


def test_the_bounds_of_arrays() -> None:
    # A count of 125 with six bytes left, in either array (Kafka's SimpleArraysMessageTest).
    error = refuses(Arrays, 2, "7e 00 00 00 00 00 00 00")
    assert (error.path, error.offset) == ("goats", 0)
    error = refuses(Arrays, 2, "01 7e 00 00 00 00 00 00")
    assert (error.path, error.offset, error.found) == ("sheep", 1, "a length of 125")


def test_records_are_their_bytes() -> None:
    assert Records().encode(0) == bytes.fromhex("0000 ffffffff")
    value = Records(topic="t", record_set=b"\1\2")
    assert value.encode(0) == bytes.fromhex("0001 74 00000002 0102")
    assert value.encode(1) == bytes.fromhex("0274 03 0102 00")
    assert accepts(Records, 1, "0274 01 00", strict=True).record_set == b""
    assert accepts(Records, 1, "0274 00 00", strict=True).record_set is None


def test_run_time_classes_have_all_that_generated_ones_have() -> None:
    value = Simple(my_string="x")
    assert pickle.loads(pickle.dumps(value)) == value
    assert hash(value) == hash(Simple(my_string="x"))
    assert repr(value) == "SimpleExampleMessage(my_string='x')"
    assert Simple.spec.source == "SimpleExampleMessage.json"
    assert Simple.spec.kind == "header"
    assert Simple.spec.api_key is None
    assert Simple.spec.field("taggedUuid").tag == 6
    assert Simple.spec.flexible_versions == range(1, 3)
