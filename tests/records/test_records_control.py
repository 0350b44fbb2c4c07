"""Control batches: markers as brokers write them, other types, and what cannot be read."""

from __future__ import annotations

import pytest

from kafkawire.records import Batch, Control, Record, build, build_marker, read


def control(key: bytes | None, value: bytes | None = b"") -> Control | None:
    (batch,) = read(build([Record(key, value)], control=True))
    return batch.control


@pytest.mark.parametrize("name", ["COMMIT", "ABORT"])
def test_markers(name: str) -> None:
    data = build_marker(
        name,
        offset=17,
        timestamp=1234,
        producer_id=4001,
        producer_epoch=2,
        coordinator_epoch=9,
        partition_leader_epoch=1,
    )
    (batch,) = read(data)
    assert isinstance(batch, Batch)
    assert batch.control == Control(name, {"ABORT": 0, "COMMIT": 1}[name], 9)
    assert str(batch.control) == name
    assert hash(batch.control) == hash(Control(name, batch.control.type, 9))
    assert (batch.is_control, batch.transactional, batch.base_sequence, batch.record_count) == (True, True, -1, 1)
    assert (batch.base_offset, batch.last_offset, batch.producer_id, batch.producer_epoch) == (17, 17, 4001, 2)
    (record,) = batch.records
    assert record.key == bytes.fromhex("0000 0001" if name == "COMMIT" else "0000 0000")
    assert record.value == bytes.fromhex("0000 00000009")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("0000 0001", "0000 00000005", Control("COMMIT", 1, 5)),
        ("0000 0000", "0001 00000005", Control("ABORT", 0, 5)),  # a later version, read as the newest that is known
        ("0000 0000", "0001 00000005 ff", Control("ABORT", 0, 5)),  # and longer
        ("0003 0000 77", "0000 00000005", Control("ABORT", 0, 5)),
        ("0000 0002", "", Control("LEADER_CHANGE", 2)),
        ("0000 0003", "", Control("SNAPSHOT_HEADER", 3)),
        ("0000 0004", "", Control("SNAPSHOT_FOOTER", 4)),
        ("0000 0005", "", Control("KRAFT_VERSION", 5)),
        ("0000 0006", "", Control("KRAFT_VOTERS", 6)),
        ("0000 0007", "", Control("UNKNOWN_7", 7)),
        ("0000 ffff", "", Control("UNKNOWN_-1", -1)),
    ],
)
def test_types(key: str, value: str, expected: Control) -> None:
    assert control(bytes.fromhex(key), bytes.fromhex(value)) == expected


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (None, "expected an int16 version, found null"),
        (b"", "found 0 bytes"),
        (b"\0", "found 1 bytes"),
        (b"\0\0\0", "at byte 2"),
        (b"\xff\xff\0\0", "expected a version, found -1"),
    ],
)
def test_reports_keys_that_cannot_be_read(key: bytes | None, problem: str) -> None:
    found = control(key)
    assert found is not None
    assert (found.name, found.type) == ("MALFORMED", None)
    assert problem in str(found.problem)


@pytest.mark.parametrize("value", [None, b"", b"\0\0\0\0\0"])
def test_a_marker_whose_value_cannot_be_read_keeps_its_type(value: bytes | None) -> None:
    found = control(b"\0\0\0\1", value)
    assert found is not None
    assert (found.name, found.coordinator_epoch) == ("COMMIT", None)
    assert found.problem


def test_an_emptied_control_batch() -> None:
    (batch,) = read(build([], last_offset=0, control=True, transactional=True))
    assert batch.control == Control("EMPTY")


def test_data_is_no_control() -> None:
    (batch,) = read(build([Record(b"\0\0\0\1")]))
    assert batch.control is None
