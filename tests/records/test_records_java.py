"""Against Kafka's own classes (4.4.0, tools.oracle): Java writes and we read, we write and Java reads, every field."""

from __future__ import annotations

import itertools
from typing import Any

import cramjam
import pytest
from hypothesis import HealthCheck, given, settings

from kafkawire.messages import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    leader_change_message,
    voters_record,
)
from kafkawire.records import CODECS, Batch, Record, build, build_control, lz4_frame, read
from kafkawire.records.compression import CompressionError, compress, decompress
from kafkawire.testing.strategies import batches
from tools.conformance.batches.describing import (
    COMBINATIONS,
    PRODUCER,
    RECORDS,
    STATES,
    described,
    for_magic,
    java_one,
    question,
    read_one,
)
from tools.oracle import Oracle

RELAXED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)


@pytest.mark.parametrize(("magic", "codec", "state"), COMBINATIONS)
def test_java_writes_and_we_read(java: Oracle, magic: int, codec: str, state: str) -> None:
    options = {"magic": magic, "codec": codec, "base_offset": 20, **STATES[state]}
    listed = for_magic(magic, RECORDS)
    data = bytes.fromhex(java.one(**question(listed, options))["bytes"])
    batches = [item for item in read(data) if isinstance(item, Batch)]
    assert [described(batch) for batch in batches] == java.one(op="batches.read", bytes=data.hex())["batches"]
    if codec == "none":
        assert build(listed, **options) == data, "the very bytes"
    got = [record for batch in batches for record in batch.records]
    stamped = STATES[state].get("append_time")
    assert [(r.key, r.value, r.headers, r.offset) for r in got] == [
        (r.key, r.value, r.headers, r.offset) for r in listed
    ]
    assert [r.timestamp for r in got] == [r.timestamp if stamped is None else stamped for r in listed]


@pytest.mark.parametrize(("magic", "codec", "state"), COMBINATIONS)
def test_we_write_and_java_reads(java: Oracle, magic: int, codec: str, state: str) -> None:
    data = build(for_magic(magic, RECORDS), magic=magic, codec=codec, base_offset=20, **STATES[state])
    ours = [described(item) for item in read(data) if isinstance(item, Batch)]
    assert java.one(op="batches.read", bytes=data.hex()) == {"batches": ours}
    assert sum(len(batch["records"]) for batch in ours) == len(RECORDS)


@RELAXED
@given(batches())
def test_any_batch_of_magic_2(java: Oracle, built: tuple[list[Record], dict[str, Any]]) -> None:
    listed, options = built
    data = build(listed, **options)
    assert java_one(java.one(op="batches.read", bytes=data.hex())) == read_one(data)


@RELAXED
@given(batches(0, 1))
def test_any_message_set(java: Oracle, built: tuple[list[Record], dict[str, Any]]) -> None:
    listed, options = built
    data = build(listed, **options)
    ours = [described(item) for item in read(data) if isinstance(item, Batch)]
    assert java.one(op="batches.read", bytes=data.hex()) == {"batches": ours}
    theirs = bytes.fromhex(java.one(**question(listed, options))["bytes"])
    assert [record for item in read(theirs) for record in item.records] == [
        record for item in read(data) for record in item.records
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_batches_without_records(java: Oracle, codec: str) -> None:
    data = build([], last_offset=9, codec=codec, transactional=True, **PRODUCER)
    ours = read_one(data)
    assert isinstance(ours, dict)
    assert ours["records"] == []
    assert java_one(java.one(op="batches.read", bytes=data.hex())) == ours


# Control batches -----------------------------------------------------------------------------------------------------

VOTERS = tuple(leader_change_message.Voter(voter_id=i) for i in (1, 2, 3))
CONTROLS = [
    ("LEADER_CHANGE", LeaderChangeMessage(leader_id=2, voters=VOTERS, granting_voters=VOTERS[:2])),
    ("SNAPSHOT_HEADER", SnapshotHeaderRecord(last_contained_log_timestamp=1_700_000_000_000)),
    ("SNAPSHOT_FOOTER", SnapshotFooterRecord()),
    ("KRAFT_VERSION", KRaftVersionRecord(kraft_version=1)),
    (
        "KRAFT_VOTERS",
        VotersRecord(
            voters=(
                voters_record.Voter(
                    voter_id=1,
                    endpoints=(voters_record.Endpoint(name="CONTROLLER", host="localhost", port=9093),),
                ),
            )
        ),
    ),
]


@pytest.mark.parametrize(("kind", "message"), CONTROLS)
def test_control_batches(java: Oracle, kind: str, message: Any) -> None:
    data = build_control(kind, message, offset=8, timestamp=77, partition_leader_epoch=5)
    (batch,) = read(data)
    assert isinstance(batch, Batch)
    assert str(batch.control) == kind
    answer = java.one(op="batches.read", bytes=data.hex())["batches"][0]
    assert answer["control"] == kind
    assert answer["controlValue"]
    assert {name: value for name, value in answer.items() if not name.startswith("control")} == described(batch)
    asked = {"kind": kind, "offset": 8, "timestamp": 77, "leaderEpoch": 5, "message": message.encode(0).hex()}
    assert java.one(op="batches.control", **asked) == {"bytes": data.hex()}


@pytest.mark.parametrize("kind", ["COMMIT", "ABORT"])
def test_markers(java: Oracle, kind: str) -> None:
    producer = {"producer_id": 4001, "producer_epoch": 3}
    marker = EndTxnMarker(coordinator_epoch=9)
    data = build_control(kind, marker, offset=8, timestamp=77, transactional=True, **producer)
    asked = {"kind": kind, "offset": 8, "timestamp": 77, "producerId": 4001, "producerEpoch": 3, "coordinatorEpoch": 9}
    assert java.one(op="batches.control", **asked) == {"bytes": data.hex()}
    answer = java.one(op="batches.read", bytes=data.hex())["batches"][0]
    assert (answer["control"], answer["controlValue"]) == (kind, "9")


# Codecs alone --------------------------------------------------------------------------------------------------------

TEXT = b"some bytes that compress, " * 300


@pytest.mark.parametrize(
    ("codec", "magic"), [(c, m) for c, m in itertools.product(CODECS[1:], (0, 2)) if (c, m) != ("zstd", 0)]
)
@pytest.mark.parametrize(
    ("size", "how"),
    [(0, {}), (1, {}), (7000, {}), (1_000_000, {}), (150_000, {"step": 1000, "flush": True})],
    ids=["empty", "byte", "small", "large", "flushed"],
)
def test_what_java_compresses(java: Oracle, codec: str, magic: int, size: int, how: dict[str, Any]) -> None:
    """1,000,000 bytes are 31 chunks of xerial snappy and 16 blocks of lz4; flushed streams have many small ones."""
    data = (TEXT * (size // len(TEXT) + 1))[:size]
    packed = bytes.fromhex(java.one(op="compress", codec=codec, magic=magic, bytes=data.hex(), **how)["bytes"])
    assert bytes(decompress(codec, packed, any_header_checksum=magic == 0)) == data
    ours = compress(codec, data, broken_header_checksum=magic == 0)
    assert java.one(op="decompress", codec=codec, magic=magic, bytes=ours.hex()) == {"bytes": data.hex()}


@pytest.mark.parametrize("magic", [0, 2])
def test_lz4_with_block_checksums(java: Oracle, magic: int) -> None:
    packed = bytes.fromhex(
        java.one(op="compress", codec="lz4", magic=magic, bytes=TEXT.hex(), blockChecksums=True)["bytes"]
    )
    assert packed[4] & 0x10
    assert bytes(decompress("lz4", packed, any_header_checksum=magic == 0)) == TEXT
    changed = bytearray(packed)
    changed[-6] ^= 1
    with pytest.raises(CompressionError):
        decompress("lz4", bytes(changed), any_header_checksum=magic == 0)
    assert "error" in java.one(op="decompress", codec="lz4", magic=magic, bytes=changed.hex())


def test_the_wrong_header_checksum_of_magic_0(java: Oracle) -> None:
    old = bytes.fromhex(java.one(op="compress", codec="lz4", magic=0, bytes=TEXT.hex())["bytes"])
    new = bytes.fromhex(java.one(op="compress", codec="lz4", magic=2, bytes=TEXT.hex())["bytes"])
    assert [i for i in range(len(new)) if old[i] != new[i]] == [6]
    assert lz4_frame.broken(new) == old
    assert bytes(decompress("lz4", old, any_header_checksum=True)) == TEXT
    with pytest.raises(CompressionError):
        decompress("lz4", old)
    assert "corrupted" in java.one(op="decompress", codec="lz4", magic=2, bytes=old.hex())["text"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "zstd"])
def test_joined_streams_are_read_on(java: Oracle, codec: str) -> None:
    packed = compress(codec, TEXT) + compress(codec, b"more")
    assert bytes(decompress(codec, packed)) == TEXT + b"more"
    assert java.one(op="decompress", codec=codec, bytes=packed.hex()) == {"bytes": (TEXT + b"more").hex()}


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("lz4", compress("lz4", TEXT) + compress("lz4", b"more")),
        ("lz4", compress("lz4", TEXT) + b"odd bytes"),
        ("gzip", compress("gzip", TEXT) + b"odd bytes"),
        ("gzip", compress("gzip", TEXT) + bytes(100)),
    ],
    ids=["two frames of lz4", "bytes behind lz4", "bytes behind gzip", "zeros behind gzip"],
)
def test_what_follows_the_end_of_a_codec_is_passed_over(java: Oracle, codec: str, packed: bytes) -> None:
    assert java.one(op="decompress", codec=codec, bytes=packed.hex()) == {"bytes": TEXT.hex()}
    assert bytes(decompress(codec, packed)) == TEXT


def test_blocks_of_lz4_that_depend_on_each_other_are_refused(java: Oracle) -> None:
    linked = bytes(cramjam.lz4.compress(TEXT))
    assert "Dependent block" in java.one(op="decompress", codec="lz4", bytes=linked.hex())["text"]
    with pytest.raises(CompressionError, match="depend on each other"):
        decompress("lz4", linked)


def test_odd_bytes_behind_snappy_are_an_error_that_java_does_not_have(java: Oracle) -> None:
    """They may be a chunk that was cut off: what is there would be lost without a word."""
    packed = compress("snappy", TEXT) + b"odd"
    assert java.one(op="decompress", codec="snappy", bytes=packed.hex()) == {"bytes": TEXT.hex()}
    with pytest.raises(CompressionError):
        decompress("snappy", packed)
