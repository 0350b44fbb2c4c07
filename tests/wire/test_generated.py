"""`Engine`: what the generated functions and the native engine answer, and when they leave it to the interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkawire import load_schemas
from kafkawire.messages import DescribeProducersResponse, EndTxnMarker, ProduceRequest
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.wire.generated import Generated
from kafkawire.wire.message import Engine
from tests.engines import NATIVE, generated, native, round_trip, written

MARKER = b"\0\0\0\7"
RECORDS = ProduceRequest(
    topic_data=(TopicProduceData(name="t", partition_data=(PartitionProduceData(index=1, records=b"records"),)),)
)
ENGINES = [generated, *([native] if NATIVE else [])]


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.__name__)
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def records_of(value: Any) -> Any:
    return value.topic_data[0].partition_data[0].records


def test_a_message_and_what_is_behind_it(engine: Any) -> None:
    marker: Engine = engine(EndTxnMarker)
    for data in (MARKER, bytearray(MARKER), memoryview(MARKER), memoryview(MARKER).cast("i")):
        for strict in (False, True):
            for copy in (False, True):
                assert marker.decode(data, 0, 0, strict, copy) == EndTxnMarker(coordinator_epoch=7)
                assert marker.decode_from(data, 0, 0, strict, copy) == (EndTxnMarker(coordinator_epoch=7), 4)
    for data in (b"??" + MARKER, memoryview(b"??" + MARKER)):
        assert marker.decode(data, 0, 2, False, True) == EndTxnMarker(coordinator_epoch=7)
        assert marker.decode_from(data, 0, 2, False, True) == (EndTxnMarker(coordinator_epoch=7), 6)
    for data in (MARKER + b"?", memoryview(MARKER + b"?")):
        assert marker.decode(data, 0, 0, False, True) is None
        assert marker.decode_from(data, 0, 0, False, True) == (EndTxnMarker(coordinator_epoch=7), 4)
    assert marker.encode(EndTxnMarker(coordinator_epoch=7), 0) == MARKER


def test_a_message_of_many_bytes(engine: Any) -> None:
    partition = PartitionProduceData(index=1, records=bytes(1000))
    value = ProduceRequest(topic_data=(TopicProduceData(name="t", partition_data=(partition,)),))
    data = engine(ProduceRequest).encode(value, 9)
    for buffer in (data, bytearray(data), memoryview(data)):
        for copy in (False, True):
            assert engine(ProduceRequest).decode(buffer, 9, 0, False, copy) == value
            assert engine(ProduceRequest).decode(buffer, 9, 0, True, copy) == value
    assert engine(ProduceRequest).decode(data + b"?", 9, 0, False, True) is None


@pytest.mark.parametrize("data", [b"", MARKER[:3], memoryview(MARKER[:3])])
def test_what_is_cut_off_is_left_to_the_interpreter(engine: Any, data: Any) -> None:
    for copy in (False, True):
        assert engine(EndTxnMarker).decode(data, 0, 0, False, copy) is None
        assert engine(EndTxnMarker).decode_from(data, 0, 0, False, copy) is None


@pytest.mark.parametrize(("version", "offset"), [(-1, 0), (1, 0), (0, -1), (0, 5), (0, 1 << 40)])
def test_versions_and_offsets_that_there_are_not(engine: Any, version: int, offset: int) -> None:
    assert engine(EndTxnMarker).decode(MARKER, version, offset, False, True) is None
    assert engine(EndTxnMarker).decode_from(MARKER, version, offset, False, True) is None
    assert version == 0 or engine(EndTxnMarker).encode(EndTxnMarker(), version) is None


def test_bytes_are_copied_or_views(engine: Any) -> None:
    data = RECORDS.encode(9)
    for buffer in (data, bytearray(data), memoryview(data)):
        copied = engine(ProduceRequest).decode(buffer, 9, 0, False, True)
        assert (type(records_of(copied)), copied) == (bytes, RECORDS)
        for found in (
            engine(ProduceRequest).decode(buffer, 9, 0, False, False),
            engine(ProduceRequest).decode_from(buffer, 9, 0, True, False)[0],
        ):
            assert isinstance(records_of(found), memoryview)
            assert records_of(found) == b"records"
    # What follows is no part of the copy.
    found, end = engine(ProduceRequest).decode_from(memoryview(b"?" + data + b"???"), 9, 1, True, True)
    assert (found, end) == (RECORDS, 1 + len(data))


@pytest.mark.parametrize("more", [b"", b"rest"])
def test_strict_is_what_would_be_written(engine: Any, more: bytes) -> None:
    canonical, long = bytes.fromhex("00000000 01 00"), bytes.fromhex("00000000 8100 00")
    for data, strictly in ((canonical, True), (long, False)):
        for buffer in (data + more, memoryview(data + more)):
            found = engine(DescribeProducersResponse).decode_from(buffer, 0, 0, False, True)
            assert found == (DescribeProducersResponse(), len(data))
            found = engine(DescribeProducersResponse).decode_from(buffer, 0, 0, True, True)
            assert (found is not None) == strictly
    # A tag twice: it is read, and cannot be written.
    twice = bytes.fromhex("00000000 01 02 05 00 05 00")
    assert engine(DescribeProducersResponse).decode_from(twice, 0, 0, False, True) is not None
    assert engine(DescribeProducersResponse).decode_from(twice, 0, 0, True, True) is None


def test_a_value_that_cannot_be_written(engine: Any) -> None:
    assert engine(EndTxnMarker).encode(EndTxnMarker(coordinator_epoch=1 << 31), 0) is None


def test_a_struct_that_may_be_null_in_other_versions(tmp_path: Path) -> None:
    (tmp_path / "Parcel.json").write_text(
        """{"type": "data", "name": "Parcel", "validVersions": "0-1", "flexibleVersions": "none", "fields": [
        {"name": "To", "type": "Place", "versions": "0+", "nullableVersions": "1+", "fields": [
          {"name": "X", "type": "int8", "versions": "0+"}]}]}"""
    )
    Parcel: Any = load_schemas(tmp_path).Parcel
    place = Parcel.spec.field("to").struct
    assert round_trip(Parcel(to=place(x=7)), 0, Parcel(to=place(x=7))) == b"\7"
    assert round_trip(Parcel(to=place(x=7)), 1, Parcel(to=place(x=7))) == b"\1\7"
    assert round_trip(Parcel(to=None), 1, Parcel(to=None)) == b"\xff"
    assert written(Parcel(to=None), 0) is None


def test_a_version_that_only_the_interpreter_may_read() -> None:
    codec = EndTxnMarker.codec
    guarded = Generated({0: None}, codec.encoders, False)
    assert guarded.decode(MARKER, 0, 0, False, True) is None
    assert guarded.decode_from(MARKER, 0, 0, False, True) is None
    assert guarded.encode(EndTxnMarker(coordinator_epoch=7), 0) == MARKER


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_what_is_left_to_the_interpreter_is_a_message_all_the_same(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    request = ProduceRequest(topic_data=(TopicProduceData(partition_data=(PartitionProduceData(records=b"r"),)),))
    codec = ProduceRequest.codec
    monkeypatch.setattr(codec, "engine", Generated(dict.fromkeys(codec.decoders), codec.encoders, codec.holds_bytes))
    data = request.encode(3)
    assert ProduceRequest.decode(kind(data), 3) == request
    assert ProduceRequest.decode_from(kind(b"--" + data + b"--"), 3, offset=2) == (request, 2 + len(data))
    view = ProduceRequest.decode(kind(data), 3, copy=False).topic_data[0].partition_data[0].records
    assert (bytes(view or b""), type(view)) == (b"r", memoryview)
