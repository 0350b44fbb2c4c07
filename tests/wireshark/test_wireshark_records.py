"""Records in the tree: every codec, control records, and the messages of internal topics."""

from __future__ import annotations

import hashlib
import re
import struct
from functools import cache
from pathlib import Path
from random import Random
from uuid import UUID

import cramjam
import pytest

from kafkawire import records
from kafkawire.messages import (
    FetchRequest,
    FetchResponse,
    KRaftVersionRecord,
    LeaderChangeMessage,
    OffsetCommitKey,
    OffsetCommitValue,
    ProduceRequest,
    RemoteLogSegmentMetadataRecord,
    ShareSnapshotKey,
    ShareSnapshotValue,
    TopicRecord,
    TransactionLogKey,
    TransactionLogValue,
)
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.wire.message import Message
from tests.capture.wiretap import Conversation, ethernet, pcap
from tests.wireshark import mutants, tshark

pytestmark = [tshark.needs_tshark, pytest.mark.slow]

#: Some that compress well, some that do not, and more than one block of LZ4 and of xerial's snappy.
VALUES = [b"an umbrella, " * 3000, Random(1).randbytes(70_000), b"", b"a", bytes(66_000)]


@cache
def has_zstd() -> bool:
    """Wireshark 4.0 has no function for it, 4.6 has one."""
    version = re.search(r"\d+\.\d+", tshark.version())
    return version is not None and tuple(map(int, version[0].split("."))) >= (4, 6)


def produce(batch: bytes, topic: str = "orders") -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(acks=-1, topic_data=(TopicProduceData(name=topic, partition_data=(partition,)),))


def write(path: Path, *batches: bytes, topic: str = "orders") -> Path:
    talk = Conversation()
    for number, batch in enumerate(batches):
        talk.request(produce(batch, topic), version=9, correlation_id=number)
    return mutants.write(path, pcap(map(ethernet, talk.packets)))


def batch_of(codec: str) -> bytes:
    return records.build([records.Record(b"key", value, timestamp=7) for value in VALUES], codec=codec)


def digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def shown_values(folder: Path, batch: bytes) -> list[str]:
    """Digests of the records' values as tshark prints them: they are long."""
    path = write(folder / "batch.pcap", batch)
    text = tshark.run(tshark.write_plugin(folder), path, "-T", "json", "-J", "kafkawire", "-Y", "kafkawire.batch")
    assert "malformed" not in text
    values = re.findall(r'"kafkawire\.record\.value": "([^"]*)"', text)
    return [digest(bytes.fromhex(value.replace("<MISSING>", "").replace(":", ""))) for value in values]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(tmp_path: Path, codec: str) -> None:
    shown = shown_values(tmp_path, batch_of(codec))
    if codec == "zstd" and not shown:
        assert not has_zstd()
        text = tshark.run(tshark.write_plugin(tmp_path), tmp_path / "batch.pcap", "-V", "-Y", "kafkawire.compressed")
        assert "zstd: not decompressed here" in text
    else:
        assert shown == list(map(digest, VALUES))


def test_snappy_without_chunks(tmp_path: Path) -> None:
    """As librdkafka writes it."""
    plain = batch_of("none")
    packed = bytes(cramjam.snappy.compress_raw(plain[61:]))
    head = bytearray(plain[:61])
    struct.pack_into(">i", head, 8, 61 - 12 + len(packed))
    head[22] |= 2
    assert shown_values(tmp_path, bytes(head) + packed) == list(map(digest, VALUES))


def test_damaged_compression(tmp_path: Path) -> None:
    """Problems of the bytes; a script's error would end `tshark.run`."""
    chance = Random(5)
    batches = []
    for number in range(160):
        batch = bytearray(
            records.build(
                [records.Record(None, b"an umbrella, " * 20)] * 5, codec=("snappy", "lz4", "gzip")[number % 3]
            )
        )
        for _ in range(chance.choice((1, 3, 9))):
            batch[chance.randrange(61, len(batch))] = chance.choice((0, 255, chance.randrange(256)))
        batches.append(bytes(batch))
    path = write(tmp_path / "damaged.pcap", *batches)
    shown = tshark.run(tshark.write_plugin(tmp_path), path, "-V", "-O", "kafkawire")
    for problem in (
        "compressed records end early",
        "compressed records refer to what is before them",
        "a block of snappy holds",
        "no frame of LZ4",
    ):
        assert problem in shown


def test_what_would_unpack_to_far_too_much(tmp_path: Path) -> None:
    """16 KB of LZ4 that hold more than 4 MiB are labelled."""
    huge = records.build([records.Record(None, bytes(9_000_000))], codec="lz4")
    assert len(huge) < 60_000
    path = write(tmp_path / "huge.pcap", huge)
    shown = tshark.run(tshark.write_plugin(tmp_path), path, "-V", "-O", "kafkawire")
    assert "lz4: not decompressed here" in shown


def test_control_records(tmp_path: Path) -> None:
    marker = records.build_marker("ABORT", offset=5, timestamp=7, producer_id=9, producer_epoch=1, coordinator_epoch=33)
    leader = records.build_control("LEADER_CHANGE", LeaderChangeMessage(leader_id=44), offset=6, timestamp=7)
    version = records.build_control("KRAFT_VERSION", KRaftVersionRecord(kraft_version=1), offset=7, timestamp=7)
    path = write(tmp_path / "control.pcap", marker, leader, version)
    shown = tshark.run(tshark.write_plugin(tmp_path), path, "-V", "-O", "kafkawire", "-Y", "kafkawire.batch.control")
    for line in (
        "EndTxnMarker v0",
        "CoordinatorEpoch: 33",
        "LeaderChangeMessage v0",
        "LeaderId: 44",
        "KRaftVersion: 1",
    ):
        assert line in shown
    assert "Malformed" not in shown


def framed(message: Message, version: int) -> bytes:
    """A record of `__cluster_metadata` or `__remote_log_metadata`; their numbers are small."""
    assert message.spec.api_key is not None
    return bytes((1, message.spec.api_key, version)) + message.encode(version=version)


@pytest.mark.parametrize(
    ("topic", "key", "value", "found"),
    [
        (
            "__transaction_state",
            TransactionLogKey(transactional_id="orders-service").encode_prefixed(version=0),
            TransactionLogValue(producer_id=7, transaction_status=2).encode_prefixed(version=1),
            "transaction_log_value.transaction_status == 2",
        ),
        (
            "__consumer_offsets",
            OffsetCommitKey(group="billing", topic="orders", partition=3).encode_prefixed(version=0),
            OffsetCommitValue(offset=1234).encode_prefixed(version=3),
            'offset_commit_key.group == "billing" && kafkawire.offset_commit_value.offset == 1234',
        ),
        (
            "__share_group_state",
            ShareSnapshotKey(group_id="s", partition=2).encode_prefixed(version=0),
            ShareSnapshotValue(start_offset=55).encode_prefixed(version=0),
            "share_snapshot_value.start_offset == 55",
        ),
        ("__cluster_metadata", None, framed(TopicRecord(name="orders"), 0), 'topic_record.name == "orders"'),
        (
            "__remote_log_metadata",
            None,
            framed(RemoteLogSegmentMetadataRecord(start_offset=77), 0),
            "remote_log_segment_metadata_record.start_offset == 77",
        ),
    ],
    ids=["transactions", "offsets", "share groups", "cluster metadata", "remote log metadata"],
)
def test_internal_topics(tmp_path: Path, topic: str, key: bytes | None, value: bytes, found: str) -> None:
    path = write(tmp_path / "topic.pcap", records.build([records.Record(key, value)]), topic=topic)
    plugin = tshark.write_plugin(tmp_path)
    # The filter alone refers to the field: nothing else of the record is asked for.
    assert tshark.run(plugin, path, "-Y", f"kafkawire.{found} && !kafkawire.malformed").count("\n") == 1


def test_a_topic_that_is_named_by_its_id(tmp_path: Path) -> None:
    """Kafka gives `__cluster_metadata` the id 1."""
    batch = records.build([records.Record(None, framed(TopicRecord(name="orders"), 0))])
    answer = FetchableTopicResponse(topic_id=UUID(int=1), partitions=(PartitionData(high_watermark=1, records=batch),))
    talk = Conversation().request(FetchRequest(), version=17, correlation_id=1)
    talk.response(FetchResponse(responses=(answer,)), version=17, correlation_id=1)
    path = mutants.write(tmp_path / "fetch.pcap", pcap(map(ethernet, talk.packets)))
    shown = tshark.run(
        tshark.write_plugin(tmp_path), path, "-V", "-O", "kafkawire", "-Y", "kafkawire.topic_record.name"
    )
    assert "TopicRecord v0" in shown


def test_headers_and_far_timestamps(tmp_path: Path) -> None:
    record = records.Record(None, b"x", (records.Header("h\0", None),), timestamp=-5_000_000_000_000_000)
    path = write(tmp_path / "record.pcap", records.build([record]))
    shown = tshark.run(tshark.write_plugin(tmp_path), path, "-V", "-O", "kafkawire")
    assert "Timestamp: -5000000000000000\n" in shown
    assert r"Header: h\x00" in shown
    assert "Malformed" not in shown
