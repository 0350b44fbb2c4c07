"""Values that no bytes can carry. Every field of every message answers EncodeError with its exact path."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

import msgspec
import pytest

import kafkawire
from kafkawire.errors import EncodeError, UnsupportedVersionError
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    EndTxnRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListTransactionsRequest,
    ProduceRequest,
    TransactionLogValue,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.describe_producers_request import TopicRequest
from kafkawire.messages.describe_producers_response import PartitionResponse, ProducerState, TopicResponse
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker, WritableTxnMarkerTopic
from kafkawire.testing.strategies import RANGES
from kafkawire.wire.layout import STRUCT
from kafkawire.wire.message import Message, Struct
from kafkawire.wire.spec import Field
from kafkawire.wire.values import TaggedField
from tests.engines import engines, written
from tests.every import for_each

TOO_LONG = "x" * 32768
LONE = "a\ud800"

#: Values that are wrong wherever a value of the type stands; null is added where it is not allowed.
WRONG: dict[str, tuple[Any, ...]] = {
    "bool": ("true", 2, 0.5, (), b"\1"),
    "float64": ("1.0", 1 << 2000, b"\0" * 8, ()),
    "uuid": ("3f3f3f3f-3f3f-3f3f-3f3f-3f3f3f3f3f3f", 5, b"?" * 16, ()),
    "string": (5, b"a", ("a",), TOO_LONG, "é" * 16384, LONE),
    "bytes": ("a", 5, (1, 2), [1]),
    "records": ("a", 5, (1, 2), [1]),
    **{name: (low - 1, high + 1, "1", 1.0, b"1", ()) for name, (low, high) in RANGES.items()},
}
#: Wrong where an array stands, whatever its elements.
NO_ARRAYS = (5, "ab", b"ab", {"a": 1}, {1}, iter(()))
NO_STRUCTS: tuple[Any, ...] = ("x", 5, (), {}, TaggedField(0, b""))


def full(cls: type[Struct], version: int, width: int = 2) -> Any:
    """A value in which nothing is null and no array empty: two elements at the top, one further down."""
    values: dict[str, Any] = {}
    for field in cls.spec.fields:
        if version in field.versions:
            one = full(field.struct, version, 1) if field.struct else filling(field.type.removeprefix("[]"))
            values[field.attribute] = (one,) * width if field.is_array else one
    return cls(**values)


def filling(kind: str) -> Any:
    return {"bool": True, "string": "x", "bytes": b"x", "records": b"x", "uuid": UUID(int=9), "float64": 0.5}.get(
        kind, 9
    )


def wrongs(value: Any, version: int, flexible: bool, seen: set[type]) -> Iterator[tuple[str, Any, object]]:
    """(path, the message with one value wrong, that value), for every field at every depth.

    A struct that stands in several places is gone through at the first of them.
    """
    seen.add(type(value))
    for field in value.spec.fields:
        name, item = field.attribute, getattr(value, field.attribute)
        if version not in field.versions:
            continue
        for bad in wrong_values(field, version):
            yield name, with_field(value, name, bad), bad
        if field.is_array:
            for bad in (None, *(NO_STRUCTS if field.kind == STRUCT else WRONG[field.type[2:]])):
                yield f"{name}[{len(item) - 1}]", with_field(value, name, (*item[:-1], bad)), bad
        if field.struct and field.struct not in seen:
            for path, inner, bad in wrongs(item[-1] if field.is_array else item, version, flexible, seen):
                whole = (*item[:-1], inner) if field.is_array else inner
                yield (
                    f"{name}[{len(item) - 1}].{path}" if field.is_array else f"{name}.{path}",
                    with_field(value, name, whole),
                    bad,
                )
    bad_tags: tuple[Any, ...] = (5, None, ("x",)) if flexible else ((TaggedField(1 << 20, b""),),)
    for bad in bad_tags:
        path = "unknown_tagged_fields[0]" if bad == ("x",) else "unknown_tagged_fields"
        yield path, with_field(value, "unknown_tagged_fields", bad), bad


def wrong_values(field: Field, version: int) -> tuple[Any, ...]:
    null = () if version in field.nullable_versions else (None,)
    if field.is_array:
        return (*null, *NO_ARRAYS)
    return (*null, *(NO_STRUCTS if field.kind == STRUCT else WRONG[field.type]))


def with_field(value: Any, name: str, item: Any) -> Any:
    return msgspec.structs.replace(value, **{name: item})


def refusal(value: Any, version: int) -> EncodeError:
    """The error of encoding, which all engines agree on."""
    errors = []
    for encode in (value.encode, partial(value.codec.interpret_encode, value)):
        with pytest.raises(EncodeError) as caught:
            encode(version)
        assert (caught.value.message, caught.value.version) == (value.spec.name, version)
        assert str(caught.value).startswith(f"{value.spec.name} v{version}, {caught.value.path}: {caught.value.reason}")
        errors.append(caught.value)
    assert str(errors[0]) == str(errors[1])
    assert all(engine.encode(value, version) is None for engine in engines(type(value)))
    return errors[0]


@pytest.mark.slow
@for_each(kafkawire.messages.__all__)
def test_every_field_refuses_what_it_cannot_carry(name: str) -> None:
    cls: type[Message] = getattr(kafkawire.messages, name)
    failures = []
    for version in sorted({cls.spec.valid_versions[0], cls.spec.valid_versions[-1]}):
        for path, value, bad in wrongs(full(cls, version), version, version in cls.spec.flexible_versions, set()):
            for encode in (value.encode, partial(cls.codec.interpret_encode, value)):
                try:
                    encode(version)
                except EncodeError as error:
                    if (error.path, error.message, error.version) != (path, name, version) or not error.reason:
                        failures.append(f"v{version} {path} = {bad!r:.40}: says {error}")
                except Exception as error:
                    failures.append(f"v{version} {path} = {bad!r:.40}: {error!r:.100}")
                else:
                    failures.append(f"v{version} {path} = {bad!r:.40}: written without an error")
            for engine in engines(cls):
                if engine.encode(value, version) is not None:
                    failures.append(f"v{version} {path} = {bad!r:.40}: written by {engine!r}")
    assert not failures, "\n".join(failures[:20])


# Unknown tagged fields ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "path", "reason"),
    [
        ((TaggedField(-1, b""),), "[0]", "-1 is no tag"),
        ((TaggedField((1 << 31) - 1, b""),), "[0]", "2147483647 is no tag"),
        ((TaggedField(1 << 40, b""),), "[0]", "1099511627776 is no tag"),
        ((TaggedField("7", b""),), "[0]", "str is no tag"),  # type: ignore[arg-type]
        ((TaggedField(None, b""),), "[0]", "null is no tag"),  # type: ignore[arg-type]
        ((TaggedField(5, b""), TaggedField(5, b"")), "[1]", "tag 5 follows tag 5"),
        ((TaggedField(7, b""), TaggedField(5, b"")), "[1]", "tag 5 follows tag 7"),
        ((TaggedField(5, b""), TaggedField(7, None)), "[1]", "expected bytes, got null"),  # type: ignore[arg-type]
        ((TaggedField(5, "x"),), "[0]", "expected bytes, got str"),  # type: ignore[arg-type]
        ((TaggedField(5, 7),), "[0]", "expected bytes, got int"),  # type: ignore[arg-type]
        ((TaggedField(5, [1]),), "[0]", "expected bytes, got list"),  # type: ignore[arg-type]
        ((5,), "[0]", "expected TaggedField, got int"),
    ],
)
def test_unknown_tags_that_cannot_be_written(fields: Any, path: str, reason: str) -> None:
    deep = DescribeProducersResponse(
        topics=(
            TopicResponse(),
            TopicResponse(
                partitions=(PartitionResponse(active_producers=(ProducerState(unknown_tagged_fields=fields),)),)
            ),
        )
    )
    for value, where in (
        (DescribeProducersResponse(unknown_tagged_fields=fields), ""),
        (deep, "topics[1].partitions[0].active_producers[0]."),
    ):
        error = refusal(value, 0)
        assert error.path == f"{where}unknown_tagged_fields{path}"
        assert error.reason.startswith(reason)


@pytest.mark.parametrize("tag", [0, 1, 2, 3])
def test_a_field_of_the_version_is_no_unknown_tag(tag: int) -> None:
    error = refusal(TransactionLogValue(unknown_tagged_fields=(TaggedField(tag, b""),)), 1)
    assert error.path == "unknown_tagged_fields[0]"
    assert error.reason == f"tag {tag} is a field of version 1, not an unknown tag"


def test_a_version_that_is_not_flexible_carries_no_tags() -> None:
    value = TransactionLogValue(unknown_tagged_fields=(TaggedField(9, b""),))
    assert refusal(value, 0).path == "unknown_tagged_fields"
    marker = WritableTxnMarker(topics=(WritableTxnMarkerTopic(unknown_tagged_fields=(TaggedField(9, b""),)),))
    error = refusal(WriteTxnMarkersRequest(markers=(marker,)), 0)
    assert error.path == "markers[0].topics[0].unknown_tagged_fields"


# Versions -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_value_is_not_lost_in_a_version_without_its_field() -> None:
    for name in kafkawire.messages.__all__:
        writes_or_refuses_absent_fields(getattr(kafkawire.messages, name))


def writes_or_refuses_absent_fields(cls: type[Message]) -> None:
    newest = cls.spec.valid_versions[-1]
    for version in cls.spec.valid_versions:
        for path, value, ignorable in strangers(full(cls, version), version, newest):
            if ignorable:
                assert written(value, version) == full(cls, version).encode(version)
            else:
                assert refusal(value, version).path == path


def strangers(value: Any, version: int, newest: int) -> Iterator[tuple[str, Any, bool]]:
    """(path, the message with a value in one field that the version does not carry, whether the field is ignorable)."""
    defaults = type(value)()
    for field in value.spec.fields:
        name, item = field.attribute, getattr(value, field.attribute)
        if version not in field.versions:
            carrier = field.versions[-1] if field.versions else newest
            one = full(field.struct, carrier) if field.struct else filling(field.type.removeprefix("[]"))
            other = (one,) if field.is_array else one
            if other != getattr(defaults, name):
                yield name, with_field(value, name, other), field.ignorable
        elif field.struct:
            for path, inner, ignorable in strangers(item[-1] if field.is_array else item, version, newest):
                whole = (*item[:-1], inner) if field.is_array else inner
                yield (
                    f"{name}[{len(item) - 1}].{path}" if field.is_array else f"{name}.{path}",
                    with_field(value, name, whole),
                    ignorable,
                )


def test_the_default_goes_into_a_version_without_the_field() -> None:
    value = ListTransactionsRequest(duration_filter=-1)
    assert value.encode(0) == bytes.fromhex("01 01 00")
    error = refusal(ListTransactionsRequest(duration_filter=5), 0)
    assert (error.path, error.reason) == (
        "duration_filter",
        "version 0 does not carry this field, and its value is not the default",
    )
    error = refusal(InitProducerIdRequest(transactional_id="t", producer_id=5), 2)
    assert error.path == "producer_id"


def test_a_field_that_may_be_ignored_is_dropped() -> None:
    assert FetchRequest(rack_id="r", session_id=9).encode(4) == FetchRequest().encode(4)


def test_versions_that_a_message_does_not_have_are_refused() -> None:
    for name in kafkawire.messages.__all__:
        refuses_other_versions(name, getattr(kafkawire.messages, name))


def refuses_other_versions(name: str, cls: type[Message]) -> None:
    valid = cls.spec.valid_versions
    strange: tuple[Any, ...] = (valid[0] - 1, valid[-1] + 1, -1 if valid[0] == 0 else 0, 1 << 40, None, "0")
    for version in strange:
        for call in (cls().encode, partial(cls.decode, b""), partial(cls.decode_from, b"\0" * 64)):
            with pytest.raises(UnsupportedVersionError) as caught:
                call(version)
            error = caught.value
            assert (error.message, error.version, error.valid_versions) == (name, version, valid)
            span = f"{valid[0]}-{valid[-1]}" if len(valid) > 1 else f"{valid[0]}"
            assert str(error) == f"{name} has no version {version}; it has {span}"


# Particular places --------------------------------------------------------------------------------------------------


def test_the_path_of_a_value_deep_inside() -> None:
    partitions = (
        PartitionResponse(),
        PartitionResponse(active_producers=(ProducerState(), ProducerState(producer_epoch=1 << 31))),
    )
    value = DescribeProducersResponse(topics=(TopicResponse(partitions=partitions),))
    error = refusal(value, 0)
    assert error.path == "topics[0].partitions[1].active_producers[1].producer_epoch"
    assert error.reason == "2147483648 is out of the range of int32 (-2147483648 to 2147483647)"


def test_null_text_and_surrogates_are_named() -> None:
    assert refusal(DescribeProducersRequest(topics=(TopicRequest(name=None),)), 0).reason == "null where string must be"  # type: ignore[arg-type]
    error = refusal(DescribeProducersRequest(topics=(TopicRequest(name="ab\ud800"),)), 0)
    assert (error.path, error.reason) == ("topics[0].name", "character 2 is a lone surrogate, which UTF-8 cannot carry")
    assert refusal(EndTxnRequest(transactional_id="\udc7f"), 3).path == "transactional_id"


def test_a_struct_of_another_message_is_refused() -> None:
    from kafkawire.messages.describe_transactions_response import TopicData
    from kafkawire.messages.produce_request import TopicProduceData

    assert refusal(ProduceRequest(topic_data=(TopicData(),)), 9).path == "topic_data[0]"  # type: ignore[arg-type]
    value = DescribeProducersRequest(topics=(TopicProduceData(name="t"),))  # type: ignore[arg-type]
    assert refusal(value, 0).path == "topics[0]"


def test_a_look_alike_of_another_message_is_refused() -> None:
    from kafkawire.messages.describe_producers_response import PartitionResponse as Alike
    from kafkawire.messages.write_txn_markers_response import WritableTxnMarkerPartitionResult

    fields = {"partition_index", "error_code"}
    assert fields <= set(Alike.__struct_fields__) & set(WritableTxnMarkerPartitionResult.__struct_fields__)
    from kafkawire.messages import WriteTxnMarkersResponse
    from kafkawire.messages.write_txn_markers_response import WritableTxnMarkerResult, WritableTxnMarkerTopicResult

    topic = WritableTxnMarkerTopicResult(partitions=(Alike(),))  # type: ignore[arg-type]
    value = WriteTxnMarkersResponse(markers=(WritableTxnMarkerResult(topics=(topic,)),))
    assert refusal(value, 1).path == "markers[0].topics[0].partitions[0]"


@pytest.mark.parametrize("blob", [memoryview(b"abcdefgh").cast("i"), memoryview(b"abcdefgh")[::2]])
def test_views_that_are_no_plain_bytes_are_written_as_bytes_or_refused(blob: memoryview) -> None:
    messages: list[tuple[Message, int, str]] = [
        (TransactionLogValue(unknown_tagged_fields=(TaggedField(9, blob),)), 1, "unknown_tagged_fields[0]"),  # type: ignore[arg-type]
        (ProduceRequest(topic_data=(topic_data(blob),)), 9, "topic_data[0].partition_data[0].records"),
        (ProduceRequest(topic_data=(topic_data(blob),)), 3, "topic_data[0].partition_data[0].records"),
    ]
    for value, version, path in messages:
        try:
            data = value.encode(version)
        except EncodeError as error:
            refused = error.path
        else:
            refused = ""
            assert bytes(blob) in data
            assert type(value).decode(data, version, strict=True).encode(version) == data
        assert refused in ("", path)


def topic_data(records: Any) -> Any:
    from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData

    return TopicProduceData(name="t", partition_data=(PartitionProduceData(records=records),))


def test_bytearrays_views_and_lists_are_written_as_bytes_and_tuples_are() -> None:
    expected = ProduceRequest(topic_data=(topic_data(b"abc"),)).encode(9)
    for blob in (bytearray(b"abc"), memoryview(b"abc"), memoryview(bytearray(b"xabc"))[1:]):
        value = ProduceRequest(topic_data=[topic_data(blob)])  # type: ignore[arg-type]
        assert written(value, 9) == expected
