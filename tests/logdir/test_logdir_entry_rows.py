"""Rows of the small files' entries: their fields, and where they stand."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import crc32c
import pytest

from kafkawire import logdir
from kafkawire.logdir.entry_rows import ROWS
from kafkawire.logdir.file_names import PARTITION_KINDS
from kafkawire.messages import AbortedTxn, ProducerSnapshot
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Record, build
from tests.logdir.logged import all_rows, write

BASE = 5_000_000_000  # offsets in indexes are relative to it, and of 32 bits
ABORTED = AbortedTxn(producer_id=7, first_offset=BASE, last_offset=BASE + 2, last_stable_offset=BASE + 3)
PRODUCER = ProducerEntry(
    producer_id=7, epoch=1, last_sequence=5, last_offset=BASE, offset_delta=2, timestamp=99, coordinator_epoch=4,
    current_txn_first_offset=BASE - 9,
)  # fmt: skip
PRODUCERS = ProducerSnapshot(producer_entries=(PRODUCER,)).encode(1)[4:]  # without the checksum
SNAPSHOT = struct.pack(">hI", 1, crc32c.crc32c(PRODUCERS)) + PRODUCERS
OPEN = {field.attribute: getattr(PRODUCER, field.attribute) for field in PRODUCER.spec.fields}
CASES: list[tuple[str, bytes | str, list[dict[str, Any]]]] = [
    (
        "index",
        struct.pack(">ii", 3, 82) + bytes(8),
        [{"kind": "index", "position": 0, "offset": BASE + 3, "log_position": 82}],
    ),
    (
        "timeindex",
        struct.pack(">qi", 50, 3),
        [{"kind": "timeindex", "position": 0, "timestamp": 50, "offset": BASE + 3}],
    ),
    (
        "txnindex",
        2 * ABORTED.encode_prefixed(0),
        [
            {
                "kind": "txnindex", "position": position, "version": 0, "producer_id": 7, "first_offset": BASE,
                "last_offset": BASE + 2, "last_stable_offset": BASE + 3,
            }
            for position in (0, 34)
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "data", "expected"), CASES, ids=[case[0] for case in CASES])
def test_index_entries_become_rows(tmp_path: Path, kind: str, data: bytes, expected: list[dict[str, Any]]) -> None:
    write(tmp_path / "orders-3" / f"{BASE:020}.log", build([Record(b"k")] * 4, base_offset=BASE))
    path = write(tmp_path / "orders-3" / f"{BASE:020}.{kind}", data)
    found = [row for row in all_rows(logdir.open(path)) if row["kind"] != "damage"]
    assert found == [row | {"file": str(path), "topic": "orders", "partition": 3} for row in expected]


def test_snapshot_producers_become_rows(tmp_path: Path) -> None:
    """The file's name is the offset before which the state holds."""
    path = write(tmp_path / "orders-3" / f"{BASE + 1:020}.snapshot", SNAPSHOT)
    (row,) = all_rows(logdir.open(path))
    assert row == OPEN | {
        "kind": "snapshot", "file": str(path), "topic": "orders", "partition": 3, "offset": BASE + 1,
        "position": 10,
    }  # fmt: skip


MANIFEST = f"{0:020}-vUD2ok5iQti4la3FU6DE-Q.rsm-manifest"
PROPERTY = {"kind": "metadata", "topic": None, "partition": None}
LINES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "orders-3/leader-epoch-checkpoint",
        "0\n1\n4 17\n",
        {"kind": "epoch", "topic": "orders", "partition": 3, "position": 4, "epoch": 4, "start_offset": 17},
    ),
    (
        "replication-offset-checkpoint",
        "0\n1\na-b 2 17\n",
        {"kind": "checkpoint", "topic": "a-b", "partition": 2, "position": 4, "offset": 17}
        | {"name": "replication-offset-checkpoint"},
    ),
    (
        "orders-3/partition.metadata",
        "version: 0\ntopic_id: x\n",
        {"kind": "metadata", "topic": "orders", "partition": 3, "position": 11, "name": "topic_id", "value": "x"},
    ),
    ("meta.properties", "#\nnode.id=3\n", PROPERTY | {"position": 2, "name": "node.id", "value": "3"}),
    ("quorum-state", '{"leaderId":3}', PROPERTY | {"position": 0, "name": "leaderId", "value": "3"}),
    (
        f"orders-{MANIFEST[21:43]}/3/{MANIFEST}",
        '{"compression":false}',
        PROPERTY | {"topic": "orders", "partition": 3, "position": 0, "name": "compression", "value": "false"},
    ),
    (".kafka_cleanshutdown", '{"brokerEpoch":7}', PROPERTY | {"position": 0, "name": "brokerEpoch", "value": "7"}),
]


@pytest.mark.parametrize(("name", "text", "expected"), LINES, ids=[case[0] for case in LINES])
def test_lines_and_properties_become_rows(tmp_path: Path, name: str, text: str, expected: dict[str, Any]) -> None:
    path = write(tmp_path / name, text)
    assert all_rows(logdir.open(path))[-1] == expected | {"file": str(path)}


def test_every_kind_of_small_file_has_rows() -> None:
    assert ROWS.keys() >= {kind for kind in PARTITION_KINDS if kind not in ("log", "kraft-snapshot")}


@pytest.mark.parametrize("text", ["", "[]", '{"version":'])
def test_a_manifest_that_is_no_json_object_is_damage(tmp_path: Path, text: str) -> None:
    (row,) = all_rows(logdir.open(write(tmp_path / MANIFEST, text)))
    assert (row["kind"], row["reason"], row["position"]) == ("damage", "bad_json", 0)
