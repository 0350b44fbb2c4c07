"""The decoders of internal topics against Kafka's: every key and value of every coordinator, every record of the
metadata logs, in every version, made by our own encoder; tombstones, unknown types and versions, and the consumer
protocol in a group's metadata."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafkawire import logdir, rows
from kafkawire.messages import (
    REGISTRY,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
)
from kafkawire.messages.group_metadata_value import MemberMetadata
from kafkawire.records import Record, build
from kafkawire.records.internal_topics import COORDINATOR_TOPICS
from kafkawire.wire.layout import STRUCT
from kafkawire.wire.message import Message
from kafkawire.wire.write import uvarint
from tests.logdir.kafka_dump_log import DECODERS, as_dumped, dump_log_segments

pytestmark = pytest.mark.slow

NAME = "00000000000000000000.log"
#: What the tool (of an older release than the newest schemas) prints for a record that it cannot decode.
REFUSED = re.compile(r"Unknown record type -?\d+ at offset|Error at (offset )?\d+, skipping\.")


#: What the tool, which is of 4.3.1, does not know yet.
NEWER = {"__cluster_metadata": ["UnregisterControllerRecord v0"]}
NEWER_FIELDS = {"StoredDescriptionTopologyEpoch", "FailedDescriptionTopologyEpoch"}


def filled(cls: type[Any], version: int) -> Any:
    """A value with something in every field that a version has."""
    fields = [field for field in cls.spec.fields if version in field.versions and field.name not in NEWER_FIELDS]
    return cls(**{field.attribute: _filled(field, version) for field in fields})


def _filled(field: Any, version: int) -> Any:
    if field.kind == STRUCT:
        inner = filled(field.struct, version)
        return (inner,) if field.is_array else inner
    one = {
        "bool": True, "int8": 1, "int16": 2, "int32": 3, "int64": 1700000000004, "uint16": 5, "uint32": 6,
        "float64": 7.5, "string": f"{field.name}-é", "bytes": b"\x00\xff", "uuid": UUID(int=(8 << 64) | 9),
    }[field.type.removeprefix("[]")]  # fmt: skip
    return (one,) if field.is_array else one


def of_family(family: str, kind: str) -> Iterator[type[Message]]:
    for entry in REGISTRY:
        if entry.family == family and entry.kind == kind:
            yield REGISTRY.load(entry)


def coordinator_records(family: str) -> Iterator[tuple[str, Record]]:
    """Every key of a family; with a tombstone, with a value of every version, and with one of a version unknown."""
    values = {value.spec.api_key: value for value in of_family(family, "coordinator-value")}
    for key in of_family(family, "coordinator-key"):
        number = key.spec.api_key
        assert number is not None
        # Of these families a key's number in front is its api key; its only version is none of it.
        written = number.to_bytes(2, "big") + filled(key, 0).encode(version=key.spec.valid_versions[-1])
        yield f"{key.spec.name} deleted", Record(written, None)
        value = values.get(number)
        if value is not None:
            for version in value.spec.valid_versions:
                data = filled(value, version).encode_prefixed(version)
                yield f"{value.spec.name} v{version}", Record(written, data)
            yield f"{value.spec.name} unknown", Record(written, b"\x7f\x00" + data[2:])
    yield "unknown type", Record(b"\x7f\x00", b"\x00\x00")


def framed(message: Any, version: int) -> bytes:
    return b"".join(map(uvarint, (1, message.spec.api_key, version))) + message.encode(version=version)


def metadata_records(family: str) -> Iterator[tuple[str, Record]]:
    for cls in of_family(family, "metadata"):
        for version in cls.spec.valid_versions:
            yield f"{cls.spec.name} v{version}", Record(None, framed(filled(cls, version), version))


def group_metadata() -> Iterator[tuple[str, Record]]:
    """A consumer group whose members' bytes are the consumer protocol's, and whose are not."""
    key = b"\0\2" + GroupMetadataKey(group="g").encode(version=GroupMetadataKey.spec.valid_versions[-1])
    members = []
    for version in (*ConsumerProtocolSubscription.spec.valid_versions, 99):
        known = min(version, ConsumerProtocolSubscription.spec.valid_versions[-1])
        number = version.to_bytes(2, "big")
        members.append(
            MemberMetadata(
                member_id=f"m{version}",
                client_id="c",
                client_host="/h",
                subscription=number + filled(ConsumerProtocolSubscription, known).encode(version=known) + b"more",
                assignment=number + filled(ConsumerProtocolAssignment, known).encode(version=known),
            )
        )
    members.append(MemberMetadata(member_id="x", client_id="c", client_host="/h", subscription=b"\0", assignment=b""))
    for protocol_type in ("consumer", "connect"):
        value = GroupMetadataValue(protocol_type=protocol_type, generation=1, members=tuple(members))
        for version in GroupMetadataValue.spec.valid_versions:
            yield f"{protocol_type} v{version}", Record(key, value.encode_prefixed(version))


def written(folder: Path, topic: str, records: list[Record]) -> Path:
    path = folder / f"{topic}-0" / NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(build(records, base_timestamp=0))
    return path


def compared(path: Path, topic: str) -> tuple[list[Any], list[Any]]:
    """The tool's output and our rows for the records."""
    (printed,) = dump_log_segments([path], DECODERS[topic]).values()
    (file,) = logdir.open(path).files
    options = logdir.Options(deep=True, payloads=True, show_secrets=True, decode_as=topic)
    found = as_dumped(logdir.rows_of(file, options), topic)
    return [[entry["content"] for entry in side if entry["kind"] == "record"] for side in (printed, found)]  # type: ignore[return-value]


@pytest.mark.parametrize("topic", COORDINATOR_TOPICS)
def test_decodes_records_of_coordinators(tmp_path: Path, topic: str) -> None:
    named = [*coordinator_records(COORDINATOR_TOPICS[topic])]
    if topic == "__consumer_offsets":
        named += group_metadata()
    theirs, ours = compared(written(tmp_path, topic, [record for _, record in named]), topic)
    assert judged(named, theirs, ours, "key") == NEWER.get(topic, [])


def test_decodes_cluster_metadata(tmp_path: Path) -> None:
    topic = "__cluster_metadata"
    named = [*metadata_records("metadata"), ("unknown type", Record(None, b"\x01\x7e\x00"))]
    theirs, ours = compared(written(tmp_path, topic, [record for _, record in named]), topic)
    assert judged(named, theirs, ours, "payload") == NEWER.get(topic, [])


def judged(named: list[tuple[str, Record]], theirs: list[Any], ours: list[Any], refused_in: str) -> list[str]:
    """Compares both for each record; returns the names of those that only we can decode."""
    newer = []
    for (name, _), printed, found in zip(named, theirs, ours, strict=True):
        if not REFUSED.match(str(printed[refused_in])):
            assert found == printed, name
        elif "unknown" in name:
            assert found["problems"], name
        else:
            assert "problems" not in found, name
            newer.append(name)
    return newer


def test_decodes_remote_log_metadata(tmp_path: Path) -> None:
    """The tool prints these as the `toString` of Kafka's classes: ours are put in the same words."""
    topic = "__remote_log_metadata"
    named = [*metadata_records("storage"), ("unknown type", Record(None, b"\x01\x7e\x00"))]
    path = written(tmp_path, topic, [record for _, record in named])
    theirs, _ = compared(path, topic)
    (file,) = logdir.open(path).files
    found = [row.decoded for row in logdir.rows_of(file, SHOWN) if isinstance(row, rows.RecordRow)]
    for printed, decoded in zip(theirs[:-1], found[:-1], strict=True):
        assert isinstance(decoded, dict)
        assert printed["payload"] == as_java_says(decoded["value"])
    assert REFUSED.match(theirs[-1]["payload"])
    assert found[-1] == {
        "key": None,
        "value": {"name": None, "version": 0, "data": None, "problem": "unknown record type 126"},
    }


SHOWN = logdir.Options(deep=True, payloads=True)
SEGMENT_STATES = ("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED", "DELETE_SEGMENT_FINISHED")
DELETE_STATES = ("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED")
JAVA = {
    "RemoteLogSegmentMetadataRecord": "RemoteLogSegmentMetadata{{{segment}, startOffset={startOffset}, "
    "endOffset={endOffset}, brokerId={brokerId}, maxTimestampMs={maxTimestampMs}, "
    "eventTimestampMs={eventTimestampMs}, {epochs}, segmentSizeInBytes={segmentSizeInBytes}, {custom}, {state}, "
    "txnIdxEmpty={empty}}}",
    "RemoteLogSegmentMetadataSnapshotRecord": "RemoteLogSegmentMetadataSnapshot{{segmentId={segmentId}, "
    "startOffset={startOffset}, endOffset={endOffset}, maxTimestampMs={maxTimestampMs}, {epochs}, "
    "segmentSizeInBytes={segmentSizeInBytes}, {custom}, {state}, txnIdxEmpty={empty}}}",
    "RemoteLogSegmentMetadataUpdateRecord": "RemoteLogSegmentMetadataUpdate{{{segment}, {custom}, {state}, "
    "eventTimestampMs={eventTimestampMs}, brokerId={brokerId}}}",
    "RemotePartitionDeleteMetadataRecord": "RemotePartitionDeleteMetadata{{topicPartition={partition}, {state}, "
    "eventTimestampMs={eventTimestampMs}, brokerId={brokerId}}}",
}


def as_java_says(decoded: dict[str, Any]) -> str:
    data = dict(decoded["data"])
    segment = data.pop("remoteLogSegmentId", None)
    place = segment["topicIdPartition"] if segment else data.pop("topicIdPartition", None)
    partition = place and "{id}:{name}-{partition}".format(**place)
    state = data.pop("remoteLogSegmentState", None)
    epochs = ", ".join(f"{epoch['leaderEpoch']}={epoch['offset']}" for epoch in data.pop("segmentLeaderEpochs", ()))
    size = len(b64decode(data.pop("customMetadata", "")))
    return JAVA[decoded["name"]].format(
        **data,
        segment=segment
        and f"remoteLogSegmentId=RemoteLogSegmentId{{topicIdPartition={partition}, id={segment['id']}}}",
        partition=partition,
        epochs=f"segmentLeaderEpochs={{{epochs}}}",
        custom=f"customMetadata=Optional[CustomMetadata{{{size} bytes}}]",
        state="state="
        + (DELETE_STATES[data["remotePartitionDeleteState"]] if state is None else SEGMENT_STATES[state]),
        empty=str(data.get("txnIndexEmpty")).lower(),
    )
