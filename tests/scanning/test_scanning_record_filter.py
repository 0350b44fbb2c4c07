"""Filters of a scan: what is pushed down is what would be filtered afterwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyarrow")

import kafkawire
from kafkawire.logdir.transaction_states import STATES
from kafkawire.scanning.record_filter import RecordFilter, epoch_ms, narrowed
from tests.scanning.test_scanning_logs import EXAMPLES

COLUMNS = ("topic", "partition", "offset", "timestamp", "producer_id", "transaction")
ALL: list[dict[str, Any]] = kafkawire.scan(EXAMPLES, columns=COLUMNS).reader().read_all().to_pylist()


def half_open(values: list[Any]) -> st.SearchStrategy[tuple[Any, Any] | None]:
    bounds = st.lists(st.sampled_from(sorted(set(values))), min_size=2, max_size=2, unique=True).map(sorted).map(tuple)
    cut = st.tuples(bounds, st.sampled_from([(True, True), (True, False), (False, True)]))
    return st.none() | cut.map(lambda one: tuple(at if kept else None for at, kept in zip(*one, strict=True)))


def within(value: Any, wanted: tuple[Any, Any] | None) -> bool:
    low, high = wanted or (None, None)
    return (low is None or value >= low) and (high is None or value < high)


@given(
    topics=st.none() | st.sets(st.sampled_from(sorted({row["topic"] for row in ALL})), min_size=1),
    offsets=half_open([row["offset"] for row in ALL]),
    times=half_open([row["timestamp"] for row in ALL]),
    producers=st.none() | st.sets(st.sampled_from([0, 1, 2, 3, 4, 5]), min_size=1),
    states=st.none() | st.sets(st.sampled_from(STATES), min_size=1),
)
def test_what_is_left_out_is_what_does_not_match(
    topics: set[str] | None, offsets: Any, times: Any, producers: set[int] | None, states: set[str] | None
) -> None:
    found = kafkawire.scan(
        EXAMPLES,
        columns=COLUMNS,
        topics=topics,
        offsets=offsets,
        times=times,
        producer_id=producers,
        transaction=states,
    )
    assert found.reader().read_all().to_pylist() == [
        row
        for row in ALL
        if (topics is None or row["topic"] in topics)
        and within(row["offset"], offsets)
        and within(row["timestamp"], times)
        and (producers is None or row["producer_id"] in producers)
        and (states is None or row["transaction"] in states)
    ]


def test_offsets_of_single_partitions() -> None:
    wanted: Any = {("orders", 0): (2, 4), ("payments", 0): (None, 3)}
    found = kafkawire.scan(EXAMPLES, offsets=wanted).reader().read_all().to_pylist()
    assert [(row["topic"], row["offset"]) for row in found] == [
        (row["topic"], row["offset"])
        for row in ALL
        if (row["topic"], row["partition"]) in wanted and within(row["offset"], wanted[row["topic"], row["partition"]])
    ]


def test_times_are_milliseconds_or_have_a_zone() -> None:
    at = datetime(2026, 11, 21, 7, 0, 0, 1500, UTC)
    assert epoch_ms(at) == 1795244400002  # the first that is not before it
    assert epoch_ms(at - timedelta(microseconds=500)) == 1795244400001
    with pytest.raises(ValueError, match="times: 2026-11-21T00:00:00 has no time zone"):
        of(times=(datetime(2026, 11, 21), None))


def of(**given_: Any) -> RecordFilter:
    names = ("topics", "partitions", "offsets", "times", "producer_id", "transaction")
    return RecordFilter.of(*(given_.get(name) for name in names), control=False)


@pytest.mark.parametrize(
    ("argument", "error", "text"),
    [
        ({"topics": []}, ValueError, "topics is empty, so nothing is selected"),
        ({"topics": [1]}, TypeError, "topics: 1 is no str"),
        ({"partitions": "0"}, TypeError, "partitions: '0' is no int"),
        ({"partitions": True}, TypeError, "partitions: True is no int"),
        ({"offsets": 5}, TypeError, "offsets is a pair, from and up to without"),
        ({"offsets": (5, 5)}, ValueError, r"offsets: nothing lies in \(5, 5\)"),
        ({"offsets": ("a", None)}, TypeError, "offsets: 'a' is no int"),
        ({"offsets": {}}, ValueError, "offsets names no partition"),
        ({"offsets": {"orders": (1, 2)}}, TypeError, "'orders' is no pair of topic and partition"),
        ({"transaction": "comitted"}, ValueError, "'comitted' is none of none, committed, aborted, open, unknown"),
        ({"producer_id": "x"}, TypeError, "producer_id: 'x' is no int"),
    ],
)
def test_arguments_of_another_form_are_refused(argument: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        of(**argument)


def test_ranges_are_narrowed() -> None:
    assert narrowed((None, 5), (3, None)) == (3, 5)
    assert narrowed((4, 9), (3, 7)) == (4, 7)
    assert narrowed((None, None), (None, None)) == (None, None)
