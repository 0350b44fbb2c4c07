"""Control records in full, as JSON: every type, newer versions, and what cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from kafkawire.messages import (
    EndTxnMarker,
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from kafkawire.records import CONTROL_TYPES, build_control, read
from kafkawire.records.control import CONTROL_MESSAGES
from kafkawire.records.control_json import decoded_control

MESSAGES = {
    "ABORT": EndTxnMarker(coordinator_epoch=7),
    "COMMIT": EndTxnMarker(coordinator_epoch=7),
    "LEADER_CHANGE": LeaderChangeMessage(leader_id=3),
    "SNAPSHOT_HEADER": SnapshotHeaderRecord(last_contained_log_timestamp=99),
    "SNAPSHOT_FOOTER": SnapshotFooterRecord(),
    "KRAFT_VERSION": KRaftVersionRecord(kraft_version=1),
    "KRAFT_VOTERS": VotersRecord(),
}


def test_all_types_are_here() -> None:
    assert set(MESSAGES) == set(CONTROL_TYPES.values())


@pytest.mark.parametrize(("number", "name"), CONTROL_TYPES.items())
def test_every_type(number: int, name: str) -> None:
    (batch,) = read(build_control(name, MESSAGES[name], offset=0, timestamp=1))
    (record,) = batch.records
    found = decoded_control(record.key, record.value)
    assert found["key"] == {"name": "ControlRecordTypeSchema", "version": 0, "data": {"type": number}}
    value = found["value"]
    assert (value["name"], value["version"]) == (CONTROL_MESSAGES[number], 0)
    assert "problem" not in value
    wanted: dict[str, Any] = {
        "EndTxnMarker": {"coordinatorEpoch": 7},
        "LeaderChangeMessage": {"leaderId": 3},
        "SnapshotHeaderRecord": {"lastContainedLogTimestamp": 99},
        "KRaftVersionRecord": {"kRaftVersion": 1},
    }
    assert wanted.get(value["name"], {}).items() <= value["data"].items()


def test_a_newer_marker_is_read_as_the_newest_that_is_known() -> None:
    """Kafka's EndTransactionMarker.deserializeValue: newer ones only grow at their end."""
    found = decoded_control(bytes.fromhex("0005 0001 ff"), bytes.fromhex("0063 00000007 aabb"))
    assert found["key"]["data"] == {"type": 1}
    assert found["value"]["data"]["coordinatorEpoch"] == 7
    assert "problem" not in found["value"]


NO_VERSION = "no version at its beginning"


@pytest.mark.parametrize(
    ("key", "value", "key_problem", "value_problem"),
    [
        (b"\0", b"\0\0", NO_VERSION, "unknown control record type None"),
        (b"\xff\xff\0\1", b"", NO_VERSION, NO_VERSION),
        (b"\0\0\0\1", b"\0", None, NO_VERSION),
        (b"\0\0\0\1", b"\xff\xff\0\0\0\1", None, NO_VERSION),
        (b"\0\0\0\1", b"\0\0\0", None, "coordinator_epoch"),
        (b"\0\0\0\x09", b"x", None, "unknown control record type 9"),
        (b"\0\0\xff\xff", b"x", None, "unknown control record type -1"),
        (b"\0\0\0", b"x", "at byte 2", "unknown control record type None"),
    ],
)
def test_reports_what_cannot_be_read(key: bytes, value: bytes, key_problem: str | None, value_problem: str) -> None:
    found = decoded_control(key, value)
    assert key_problem is None or key_problem in found["key"]["problem"]
    assert (key_problem is None) == ("problem" not in found["key"])
    assert value_problem in found["value"]["problem"]
    assert found["value"]["data"] is None


def test_nulls() -> None:
    assert decoded_control(None, None) == {"key": None, "value": None}
    assert decoded_control(b"\0\0\0\x09", None)["value"] is None
    assert decoded_control(b"\0\0\0\1", None)["value"] is None
