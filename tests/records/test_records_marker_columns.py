"""Markers of many control batches at once: those that look as brokers write them, as `Batch.control` says of each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.messages import EndTxnMarker, LeaderChangeMessage
from kafkawire.records import Record, build, build_control, build_marker, columns
from kafkawire.records.marker_columns import MarkerColumns, markers
from tests.records.record_bytes import fixed

DATA = build([Record(b"\0\0\0\1", b"\0\0\0\0\0\1")], producer_id=1, producer_epoch=0, transactional=True)


def marker(name: str, epoch: int, offset: int = 0) -> bytes:
    options: dict[str, Any] = {"timestamp": 5, "producer_id": 1, "producer_epoch": 0}
    return build_marker(name, offset=offset, coordinator_epoch=epoch, **options)


def found_in(data: bytes) -> tuple[columns.Batches, MarkerColumns]:
    (found,) = columns.batches(data)
    assert isinstance(found, columns.Batches)
    return found, markers(found)


def test_markers_among_data() -> None:
    _, found = found_in(marker("ABORT", 7) + DATA + marker("COMMIT", 2**31 - 1) + DATA + marker("COMMIT", -1))
    assert found.at.tolist() == [0, 2, 4]
    assert found.type.tolist() == [0, 1, 1]
    assert found.coordinator_epoch.tolist() == [7, 2**31 - 1, -1]
    assert found.others.tolist() == []


def control(key: str, value: str, **options: Any) -> bytes:
    return build([Record(bytes.fromhex(key), bytes.fromhex(value))], control=True, **options)


OTHERS = {
    "another type": build_control("LEADER_CHANGE", LeaderChangeMessage(), offset=0, timestamp=1),
    "type 2": control("0000 0002", "0000 00000005"),
    "type 257": control("0000 0101", "0000 00000005"),
    "a newer key": control("0001 0001", "0000 00000005"),
    "a newer value": control("0000 0001", "0001 00000005"),
    "a longer value": control("0000 0001", "0000 00000005 00"),
    "a null value": build([Record(b"\0\0\0\1", None)], control=True),
    "compressed": build([Record(b"\0\0\0\1", b"\0\0\0\0\0\1")], control=True, codec="gzip"),
    "attributes of a codec": fixed(marker("COMMIT", 1), attributes=0x31),
    "two records": fixed(marker("COMMIT", 1), count=2, delta=1),
    "emptied": build([], last_offset=0, control=True),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS.keys())
def test_what_brokers_do_not_write_is_left_to_others(other: bytes) -> None:
    _, found = found_in(DATA + other + marker("COMMIT", 3) + other)
    assert (found.at.tolist(), found.type.tolist(), found.coordinator_epoch.tolist()) == ([2], [1], [3])
    assert found.others.tolist() == [1, 3]


@pytest.mark.parametrize("place", range(17))
def test_every_byte_but_type_and_epoch_is_looked_at(place: int) -> None:
    data = bytearray(marker("COMMIT", 0))
    data[61 + place] ^= 1
    _, found = found_in(fixed(bytes(data)))
    assert len(data) == 61 + 17
    assert found.at.tolist() == ([0] if place in (8, 12, 13, 14, 15) else [])
    assert found.others.tolist() == ([] if place in (8, 12, 13, 14, 15) else [0])


def test_data_alone() -> None:
    _, found = found_in(DATA * 3)
    assert [len(column) for column in found] == [0, 0, 0, 0]


@given(
    st.lists(
        st.builds(marker, st.sampled_from(["ABORT", "COMMIT"]), st.integers(-(2**31), 2**31 - 1))
        | st.sampled_from([*OTHERS.values(), DATA]),
        min_size=1,
        max_size=8,
    )
)
def test_as_batches_say(listed: list[bytes]) -> None:
    batches, found = found_in(b"".join(listed))
    for at, number, epoch in zip(found.at, found.type, found.coordinator_epoch, strict=True):
        control_record = batches.batch(int(at)).control
        assert control_record is not None
        assert (control_record.type, control_record.coordinator_epoch) == (number, epoch)
    controls = [i for i in range(len(batches)) if batches.batch(i).is_control]
    assert sorted([*found.at.tolist(), *found.others.tolist()]) == controls


def test_the_layout_is_that_of_the_message() -> None:
    """The bytes that `markers` compares with are not its own idea: the message's codec writes them."""
    data = build_control("COMMIT", EndTxnMarker(coordinator_epoch=9), offset=0, timestamp=5, transactional=True)
    assert found_in(data)[1].coordinator_epoch.tolist() == [9]
