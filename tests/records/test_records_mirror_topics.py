"""The topics of MirrorMaker 2: where a group stands on the mirror (KAFKA-12468)."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kafkawire.records import Record, build, decoded
from kafkawire.records.mirror_topics import mirror_messages

SYNCS, CHECKPOINTS = "mm2-offset-syncs.east.internal", "west.checkpoints.internal"


#: By `Checkpoint.recordKey` and `recordValue` of Kafka 4.1.0.
OF_JAVA = (
    "0009736869706d656e7473000b776573742e6f726465727300000003",
    "0000000000000000125c000000000000000c00046d657461",
)


def test_bytes_of_kafkas_java() -> None:
    key, value = map(bytes.fromhex, OF_JAVA)
    found = decoded(mirror_messages(CHECKPOINTS), key, value)
    assert found is not None
    assert found["key"]["data"] == {"group": "shipments", "topic": "west.orders", "partition": 3}
    assert found["value"]["data"] == {"upstreamOffset": 4700, "downstreamOffset": 12, "metadata": "meta"}


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def checkpoint(group: str, partition: int, upstream: int, downstream: int) -> Record:
    """As Kafka's `Checkpoint` writes it."""
    key = string(group) + string("west.orders") + struct.pack(">i", partition)
    return Record(key=key, value=struct.pack(">hqq", 0, upstream, downstream) + string(""))


def test_offset_syncs_and_checkpoints() -> None:
    key, value = string("orders") + struct.pack(">i", 3), struct.pack(">qq", 4_711, 17)
    assert decoded(mirror_messages(SYNCS), key, value) == {
        "key": {"name": "MirrorOffsetSyncKey", "version": 0, "data": {"topic": "orders", "partition": 3}},
        "value": {
            "name": "MirrorOffsetSyncValue", "version": 0, "data": {"upstreamOffset": 4711, "downstreamOffset": 17},
        },
    }  # fmt: skip
    record = checkpoint("shipments", 3, 4_700, 12)
    found = decoded(mirror_messages(CHECKPOINTS), record.key, record.value)
    assert found is not None
    assert found["key"]["data"] == {"group": "shipments", "topic": "west.orders", "partition": 3}
    assert found["value"]["data"] == {"upstreamOffset": 4700, "downstreamOffset": 12, "metadata": ""}
    broken = decoded(mirror_messages(CHECKPOINTS), record.key, record.value[:-3] if record.value else None)
    assert broken is not None
    assert broken["value"]["problem"]


@pytest.mark.parametrize("topic", ["orders", "heartbeats", "mm2-offset-syncs.internal", "checkpoints.internal", None])
def test_other_topics_are_not_decoded(topic: str | None) -> None:
    assert mirror_messages(topic) is None


def records_of(folder: Path, topic: str, records: list[Record]) -> Path:
    partition = folder / f"{topic}-0"
    partition.mkdir()
    (partition / f"{0:020}.log").write_bytes(build(records, base_offset=0))
    return partition
