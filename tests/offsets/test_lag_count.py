"""Counting for a lag: exact where all is seen, and bounds that hold whatever is not."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkawire.logdir.transaction_states import ABORTED, COMMITTED, NONE, OPEN
from kafkawire.offsets.lag_count import LagCounter, MarkerOutcomes
from kafkawire.offsets.lag_row import Standing, retention
from kafkawire.records import Batch, Record, build, build_marker, read

PRODUCERS = 3
#: What is appended: a producer's data in a transaction (0 to 2), its COMMIT or ABORT, or plain data; and how much.
steps = st.lists(st.tuples(st.sampled_from(["data", "commit", "abort", "plain"]), st.integers(0, 2), st.integers(1, 4)))


def log_of(made: list[tuple[str, int, int]]) -> tuple[list[Batch], dict[int, int], int]:
    """A log: its batches, the state of each record by offset, and the last stable offset."""
    data, end, states = b"", 0, dict[int, int]()
    open_: dict[int, list[int]] = {}
    for kind, producer, number in made:
        if kind in ("commit", "abort"):
            if producer not in open_:
                continue
            data += build_marker(
                "COMMIT" if kind == "commit" else "ABORT",
                offset=end,
                timestamp=0,
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
            )
            states |= dict.fromkeys(open_.pop(producer), COMMITTED if kind == "commit" else ABORTED)
            end += 1
            continue
        transactional = kind == "data"
        records = [Record(value=b"x", timestamp=1000 + end + i) for i in range(number)]
        data += build(records, base_offset=end, producer_id=producer, producer_epoch=0, transactional=transactional)
        offsets = list(range(end, end + number))
        states |= dict.fromkeys(offsets, OPEN if transactional else NONE)
        if transactional:
            open_.setdefault(producer, []).extend(offsets)
        end += number
    stable = min((offsets[0] for offsets in open_.values()), default=end)
    batches = [item for item in read(data) if isinstance(item, Batch)]
    return batches, states, min(stable, end)


@given(steps, st.integers(0, 30), st.integers(0, 60), st.booleans())
def test_bounds_hold_wherever_reading_ends(
    made: list[tuple[str, int, int]], start: int, seen: int, whole: bool
) -> None:
    batches, states, stable = log_of(made)
    high = batches[-1].last_offset + 1 if batches else 0
    start = min(start, high)
    counter = LagCounter(start, stable, high)
    outcomes = MarkerOutcomes(counter)
    for batch in batches if whole else batches[:seen]:
        if batch.last_offset >= start:
            outcomes.add(batch)
    outcomes.finish()
    if counter.read_to < high:
        counter.unread(counter.read_to, high, "the end was not read")
    got = [offset for offset, state in states.items() if offset >= start and state in (NONE, COMMITTED)]
    truth = (
        sum(offset < stable for offset in got),
        sum(offset >= start for offset in states),
        sum(offset >= stable for offset in got),
    )
    for count, number in zip(counter.counts, truth, strict=True):
        assert count.least <= number <= count.most
        assert count.exact == (count.least == count.most)
        assert count.bytes_most is None or count.bytes_least <= count.bytes_most
    if whole or not batches:
        committed, uncommitted, held = counter.counts
        assert committed.exact
        assert uncommitted.exact
        assert held.most == truth[2] + sum(state == OPEN and at >= max(start, stable) for at, state in states.items())
        first = min((offset for offset in got if offset < stable), default=None)
        assert counter.oldest_timestamp == (None if first is None else 1000 + first)


def test_offset_in_the_middle_of_a_batch_counts_its_records() -> None:
    batches, _, _ = log_of([("plain", 0, 4), ("plain", 0, 4)])
    counter = LagCounter(2, 6, 8)
    for batch in batches:
        counter.add(batch, NONE)
    committed, uncommitted, held = counter.counts
    assert (committed.least, uncommitted.least, held.least) == (4, 6, 2)
    assert (committed.exact, uncommitted.bytes_least) == (True, sum(batch.size for batch in batches))


def test_where_a_group_reads_from() -> None:
    def standing(committed: int | None) -> Standing:
        return Standing(group="g", topic="t", partition=0, committed=committed, log_start=10, stable=20, high=30)

    assert [standing(offset).start for offset in (None, 3, 10, 15, 30, 31)] == [10, 10, 10, 15, 30, 30]
    row = standing(3).row(standing(3).counter(), as_of=None, settings=None)
    assert (row.lost_offsets, row.beyond) == (7, 0)
    assert standing(33).row(standing(33).counter(), as_of=None, settings={}).beyond == 3


def test_retention_is_a_time_only_where_time_deletes() -> None:
    assert retention({"retention.ms": "1000", "retention.bytes": "-1"}, 5) == (
        1005,
        "not before 1970-01-01 00:00:01 UTC",
    )
    assert retention({"retention.ms": "-1", "retention.bytes": "-1"}, 5)[0] is None
    assert retention({"cleanup.policy": "compact", "retention.ms": "1000"}, 5)[0] is None
    assert retention({"retention.ms": "1000", "retention.bytes": "5"}, 5)[1].endswith("by size at any time")
    assert retention(None, 5)[0] is None
    assert retention({"retention.ms": "1000"}, None)[0] is None
    for text in ("a day", "1_000", "", "9" * 30):
        at, why = retention({"retention.ms": text, "retention.bytes": "-1"}, 5)
        assert (at, why) == (None, f"not known: retention.ms is no number: {text!r}")
    assert retention({"retention.bytes": "-1"}, 5) == (None, "not known: retention.ms is the brokers' default")
