"""The fold of `__share_group_state`, against offsets one by one as a coordinator replays them."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.messages import ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue
from kafkawire.messages import share_snapshot_value as snapshots
from kafkawire.messages import share_update_value as updates
from kafkawire.share_groups import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    Run,
    ShareFold,
    SharePartition,
    ShareRecord,
    delivery_state_name,
)
from kafkawire.share_groups.record_fates import Fate, Known, fate
from kafkawire.share_groups.removed_offsets import ShareHistory

KEY = SharePartition("workers", UUID(int=7), 0)
Batch = tuple[int, int, int, int]


def snapshot(
    offset: int, start: int, *batches: Batch, epoch: int = 0, state_epoch: int = 1, leader: int = 1
) -> ShareRecord:
    value = ShareSnapshotValue(
        snapshot_epoch=epoch,
        state_epoch=state_epoch,
        leader_epoch=leader,
        start_offset=start,
        state_batches=tuple(snapshots.StateBatch(*one) for one in batches),
    )
    return ShareRecord(offset, 1000 + offset, KEY, True, value)


def begin(offset: int, start: int, *, epoch: int = 0, state_epoch: int = 1) -> ShareRecord:
    return snapshot(offset, start, epoch=epoch, state_epoch=state_epoch, leader=0)


def update(offset: int, start: int, *batches: Batch, epoch: int = 0) -> ShareRecord:
    value = ShareUpdateValue(
        snapshot_epoch=epoch,
        leader_epoch=1,
        start_offset=start,
        state_batches=tuple(updates.StateBatch(*one) for one in batches),
    )
    return ShareRecord(offset, 1000 + offset, KEY, False, value)


def tombstone(offset: int) -> ShareRecord:
    return ShareRecord(offset, 1000 + offset, KEY, True, None)


def finished(records: list[ShareRecord], *, from_start: bool = True) -> tuple[ShareHistory, list[Run]]:
    """The history, and what it has of the offsets below the start."""
    history = ShareHistory()
    fold = ShareFold(from_start=from_start)
    for record in records:
        history.take(fold.take(record))
    again = ShareFold(from_start=from_start)
    return history, list(history.finished(again.take(record) for record in records))


def test_an_update_is_combined_and_a_snapshot_replaces() -> None:
    fold = ShareFold()
    fold.take(begin(0, -1))
    state = fold.take(update(1, 0, (0, 4, AVAILABLE, 1), (5, 6, ACKNOWLEDGED, 1))).after
    assert state is not None
    assert state.runs == (Run(0, 4, AVAILABLE, 1), Run(5, 6, ACKNOWLEDGED, 1))
    state = fold.take(update(2, 0, (0, 1, ACKNOWLEDGED, 2), (5, 6, AVAILABLE, 1))).after
    # The lower state of the same delivery does not count.
    assert state is not None
    assert state.runs == (Run(0, 1, ACKNOWLEDGED, 2), Run(2, 4, AVAILABLE, 1), Run(5, 6, ACKNOWLEDGED, 1))
    assert state.updates == 2
    state = fold.take(snapshot(3, 2, (2, 4, ARCHIVED, 2), epoch=1)).after
    assert state is not None
    assert (state.start_offset, state.snapshot_epoch, state.updates) == (2, 1, 0)
    assert state.runs == (Run(2, 4, ARCHIVED, 2),)
    assert fold.take(tombstone(4)).after is None
    assert not fold.states


def test_what_is_below_the_start_offset_is_in_the_history() -> None:
    records = [
        begin(0, -1),
        update(1, 0, (0, 2, ACKNOWLEDGED, 1), (3, 3, ARCHIVED, 1)),
        update(2, 4, (4, 4, AVAILABLE, 1)),
        update(3, 4, (4, 9, ACKNOWLEDGED, 2)),
        update(4, 10),
    ]
    history, runs = finished(records)
    assert runs == [Run(0, 2, ACKNOWLEDGED, 1), Run(3, 3, ARCHIVED, 1), Run(4, 9, ACKNOWLEDGED, 2)]
    assert history.from_start
    assert history.begun_at == 0
    assert history.limit_at_least == 2


def test_a_reset_begins_the_history_anew_from_its_offset() -> None:
    records = [
        begin(0, 0),
        update(1, 0, (0, 9, ACKNOWLEDGED, 1)),
        update(2, 10),
        begin(3, 5, epoch=1, state_epoch=2),
        update(4, 5, (5, 7, ARCHIVED, 3)),
        update(5, 8),
    ]
    history, runs = finished(records)
    # From offset 5 on the earlier acknowledgements do not count any more.
    assert runs == [Run(0, 4, ACKNOWLEDGED, 1), Run(5, 7, ARCHIVED, 3)]
    assert history.skipped == []
    history, _ = finished([*records, begin(6, 20, epoch=2, state_epoch=3)])
    assert history.skipped == [(8, 20)]


def test_the_first_record_of_a_log_whose_front_was_removed_proves_no_beginning() -> None:
    history, _ = finished([snapshot(7, 100, (100, 101, AVAILABLE, 1), epoch=3)], from_start=False)
    assert not history.from_start
    assert history.begun_at == 100


def test_an_update_without_a_value_and_another_key_are_no_records_of_the_state() -> None:
    assert ShareRecord.of(0, 0, ShareUpdateKey("g", UUID(int=1), 0), None) is None
    assert ShareRecord.of(0, 0, ShareUpdateKey("g", UUID(int=1), 0), ShareSnapshotValue()) is None


STEP = st.tuples(
    st.integers(0, 3),
    st.lists(
        st.tuples(st.integers(0, 15), st.integers(0, 5), st.sampled_from((0, 2, 3, 4)), st.integers(1, 4)), max_size=4
    ),
)


@given(st.lists(STEP, max_size=12), st.sets(st.integers(0, 11)))
def test_state_and_history_are_those_of_offsets_one_by_one(steps: list[tuple[int, list[Batch]]], at: set[int]) -> None:
    """Whatever is written, offsets from the start on have the highest of what was written, and those below what they
    had when they left. A snapshot of the state changes nothing."""
    start, records, state, gone = 0, [begin(0, 0)], dict[int, tuple[int, int]](), dict[int, tuple[int, int]]()
    fold = ShareFold(from_start=True)
    fold.take(records[0])
    for number, (forward, batches) in enumerate(steps):
        start += forward
        written = tuple((start + first, start + first + length, kind, count) for first, length, kind, count in batches)
        for first, last, kind, count in written:
            for offset in range(first, last + 1):
                state[offset] = max(state.get(offset, (0, 0)), (count, kind))
        gone |= {offset: rank for offset, rank in state.items() if offset < start}
        state = {offset: rank for offset, rank in state.items() if offset >= start}
        records.append(update(len(records), start, *written))
        after = fold.take(records[-1]).after
        assert after is not None
        if number in at:
            same = snapshot(
                len(records), start, *((r.first, r.last, r.state, r.deliveries) for r in after.runs), epoch=1
            )
            records.append(same)
            after = fold.take(same).after
            assert after is not None
        assert {o: r.rank for r in after.runs for o in range(r.first, r.last + 1)} == state
    _, runs = finished(records)
    assert {o: r.rank for r in runs for o in range(r.first, r.last + 1)} == gone


@pytest.mark.parametrize(
    ("run", "held", "place", "expected"),
    [
        (Run(1, 1, ARCHIVED, 1), "record", "below", Fate("archived", "rejected", 1)),
        (Run(1, 1, ARCHIVED, 3), "record", "below", Fate("archived", "delivery_limit_or_rejected", 3)),
        (Run(1, 1, ARCHIVED, 1), "no_record", "below", Fate("archived", "no_record", 1)),
        (Run(1, 1, ARCHIVED, 1), "deleted", "below", Fate("archived", "rejected_or_no_record", 1)),
        (Run(1, 1, AVAILABLE, 1), "deleted", "from", Fate("archived", "below_log_start", 1)),
        (Run(1, 1, 9, 1), "record", "from", Fate("unknown", "unknown_9", 1)),
        (None, "aborted", "from", Fate("archived", "aborted", 0)),
        (None, "open", "from", Fate("available", "open_transaction", 0)),
        (None, "record", "from", Fate("available", "never_delivered", 0)),
        (None, "record", "below", Fate("unknown", "no_state")),
        (None, "record", "before", Fate("before_start")),
        (None, "record", "skipped", Fate("skipped", "reset")),
        (None, "unread", "from", Fate("unknown", "unread")),
    ],
)
def test_fates(run: Run | None, held: str, place: str, expected: Fate) -> None:
    known = Known(start=10, begun_at=0, from_start=True, limit=3, read_committed=True)
    assert fate(run, held, known, place) == expected


def test_without_a_limit_the_counts_in_the_records_are_the_least_that_it_may_be() -> None:
    known = Known(start=10, begun_at=0, from_start=True, limit=None, limit_at_least=3, read_committed=None)
    assert fate(Run(1, 1, ARCHIVED, 2), "record", known, "below").reason == "rejected"
    assert fate(Run(1, 1, ARCHIVED, 3), "record", known, "below").reason == "delivery_limit_or_rejected"
    # Whether aborted records are delivered is not known either.
    assert fate(None, "aborted", known, "from") == Fate("available", "isolation_not_known", 0)


def test_a_copy_in_the_dead_letter_topic_says_why() -> None:
    known = Known(start=10, begun_at=0, from_start=True, limit=3)
    assert fate(Run(1, 1, ARCHIVED, 3), "record", known, "below", "rejected").reason == "rejected"


def test_unknown_states_have_a_name() -> None:
    assert [delivery_state_name(number) for number in (0, 3, 9)] == ["available", "archiving", "unknown_9"]
