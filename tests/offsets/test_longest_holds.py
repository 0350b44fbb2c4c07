"""How long transactions held the last stable offset, against a simulation that asks at every millisecond."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkawire import records
from kafkawire.offsets.longest_holds import LongestHolds
from kafkawire.records import Batch, Record, build, build_marker

#: Of a control batch of the producer that log_of's events have first.
IDS: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0, "transactional": True, "control": True}

#: What happens in the log, a step a millisecond: (producer, None) data, (producer, committed) its marker.
Event = tuple[int, bool | None]


def log_of(events: list[Event]) -> tuple[bytes, list[tuple[int, int, int, int | None]]]:
    """A log, and each transaction of it: producer, first offset, begin, end (None: open)."""
    data, opens, found = b"", dict[int, tuple[int, int]](), list[tuple[int, int, int, int | None]]()
    for at, (producer, committed) in enumerate(events):
        if committed is None:
            opens.setdefault(producer, (at, at))
            record = Record(value=b"x", timestamp=1000 + at)
            data += build(
                [record], base_offset=at, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
            )
        else:
            data += build_marker(
                "COMMIT" if committed else "ABORT", offset=at, producer_id=producer, producer_epoch=0,
                timestamp=1000 + at, coordinator_epoch=0,
            )  # fmt: skip
            if producer in opens:
                first, began = opens.pop(producer)
                found.append((producer, first, began, at))
    found += [(producer, first, began, None) for producer, (first, began) in opens.items()]
    return data, found


def taken(data: bytes, most: int, first: int = 0) -> LongestHolds:
    holds = LongestHolds("orders", 0, most, cut=first > 0)
    for batch in records.read(data):
        assert isinstance(batch, Batch)
        if batch.base_offset >= first:
            holds.take(batch)
    return holds


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(1, 5), st.sampled_from([None, None, True, False])), min_size=1, max_size=40))
def test_holds_are_those_of_a_simulation(events: list[Event]) -> None:
    data, transactions = log_of(events)
    expected = dict[int, int]()
    for at in range(len(events) - 1):  # from step to step: which open transaction has the lowest first offset
        open_ = [one for one in transactions if one[2] <= at and (one[3] is None or one[3] > at)]
        if open_:
            first = min(one[1] for one in open_)
            expected[first] = expected.get(first, 0) + 1
    found = taken(data, 1000).finish()
    assert {one.first_offset: one.held_ms for one in found if one.held_ms} == expected
    assert [one.held_ms for one in found] == sorted((one.held_ms or 0 for one in found), reverse=True)
    assert [one.first_offset for one in taken(data, 2).finish()] == [one.first_offset for one in found][:2]


def test_transaction_that_began_before_what_was_read_held_others_back() -> None:
    data, _ = log_of([(1, None), (2, None), (1, True), (2, True)])
    (hold,) = taken(data, 10, first=1).finish()
    assert (hold.first_offset, hold.held_ms, hold.outcome) == (1, 1, "COMMIT")


@pytest.mark.parametrize(
    "marker",
    [
        build([], base_offset=1, last_offset=1, **IDS),  # compaction removed its record
        build([Record(b"\0\0\0\7", timestamp=1003)], base_offset=1, **IDS),  # a type that Kafka does not have
        build([Record(b"\0", timestamp=1003)], base_offset=1, **IDS),
    ],
    ids=["emptied", "of-no-type", "malformed"],
)
def test_what_a_marker_that_cannot_be_read_ended_is_open_no_longer(marker: bytes) -> None:
    """As isolation levels have it (`logdir.transaction_states.ended`)."""
    data, _ = log_of([(1, None)])
    (hold,) = taken(data + marker, 10).finish()
    assert (hold.first_offset, hold.outcome, hold.marker_offset) == (0, "unknown", 1)
