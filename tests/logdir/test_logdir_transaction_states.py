"""How transactions ended: against an obvious model, in whole logs, in parts of them, and after compaction."""

from __future__ import annotations

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.logdir import ongoing, transaction_states
from kafkawire.logdir.cleaning import Cleaned
from kafkawire.logdir.transaction_doubts import NO_OFFSET
from kafkawire.logdir.transaction_states import STATES, Outcomes, TransactionScan
from kafkawire.records import Batch, Record, build, build_marker, read
from kafkawire.records.columns import Batches, batches
from kafkawire.transactions import Append
from tests.transactions.schedules import Schedule, Written, naive_transactions, schedules, written

#: A cleaner may have been in the whole log.
EVERYWHERE = Cleaned(NO_OFFSET)
ENDED = {"COMMIT": "committed", "ABORT": "aborted"}


def truths(appends: list[Append]) -> dict[int, str]:
    """The state of each batch, by its base offset: each transaction looked up in the whole log."""
    found = {}
    transactions = naive_transactions(appends)
    for append in appends:
        state = "none"
        if append.producer_id >= 0 and append.control:
            state = ENDED[append.control]
        elif append.producer_id >= 0 and append.transactional:
            (marker,) = (
                end
                for producer_id, first, end in transactions
                if producer_id == append.producer_id
                and first <= append.base_offset
                and (end is None or append.base_offset < end.base_offset)
            )
            state = "open" if marker is None else ENDED[marker.control or ""]
        found[append.base_offset] = state
    return found


def scanned(data: bytes, scan: TransactionScan | None = None) -> TransactionScan:
    scan = scan or TransactionScan()
    for item in batches(data):
        assert isinstance(item, Batches)
        scan.add(item)
    return scan


def states(data: bytes, outcomes: Outcomes) -> dict[int, str]:
    """The state of each batch with records, of arrays and of objects."""
    found = {}
    for item in batches(data):
        assert isinstance(item, Batches)
        named = [STATES[state] for state in outcomes.states(item).tolist()]
        found |= dict(zip(item.base_offset.tolist(), named, strict=True))
    listed = [batch for batch in read(data) if isinstance(batch, Batch)]
    assert found == {batch.base_offset: STATES[outcomes.state(batch)] for batch in listed}
    return {batch.base_offset: found[batch.base_offset] for batch in listed if batch.record_count}


def log_of(kept: list[Written]) -> bytes:
    return b"".join(one.data for one in kept)


@given(schedules())
def test_states_and_the_first_unstable_offset_are_the_models(schedule: Schedule) -> None:
    data, appends = log_of(schedule.batches), [one.append for one in schedule.batches]
    scan = scanned(data)
    unstable = min((first for _, first, end in naive_transactions(appends) if end is None), default=2**63 - 1)
    assert scan.unstable() == (unstable, NO_OFFSET, unstable)
    assert states(data, scan.finish()) == truths(appends)


@given(schedules(), st.data())
def test_arrays_give_what_single_batches_give(schedule: Schedule, data: st.DataObject) -> None:
    kept = log_of([one for one in schedule.batches if data.draw(st.integers(0, 9))])
    scans = []
    for many in (1, 1 + len(kept)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transaction_states, "_MANY", many)
            patch.setattr(ongoing, "_MANY", many)
            scan = scanned(kept)
            in_any_order = {name: sorted(getattr(scan, name)) for name in ("aborted", "unknown", "doubtful")}
            scans.append(vars(scan) | in_any_order)
    assert scans[0] == scans[1]


@given(schedules(), st.data())
def test_parts_that_are_scanned_alone_give_the_states_of_the_whole(schedule: Schedule, data: st.DataObject) -> None:
    kept = [one for one in schedule.batches if data.draw(st.integers(0, 9))]  # gaps are where they are in the whole
    cuts = sorted(data.draw(st.lists(st.integers(0, len(kept)), max_size=4)))
    to = data.draw(st.sampled_from([0, NO_OFFSET, *(one.append.base_offset for one in schedule.batches)]))
    cleaned = Cleaned(to, data.draw(st.sampled_from([0, NO_OFFSET])))
    joined = TransactionScan(cleaned=cleaned)
    for first, end in zip([0, *cuts], [*cuts, len(kept)], strict=True):
        joined.take(scanned(log_of(kept[first:end]), TransactionScan(cleaned=cleaned)))
    whole = scanned(log_of(kept), TransactionScan(cleaned=cleaned))
    assert (joined.first, joined.end, joined.open) == (whole.first, whole.end, whole.open)
    assert (joined.unstable(), joined.cleaned_to) == (whole.unstable(), whole.cleaned_to)
    found, expected = joined.finish(), whole.finish()
    assert states(log_of(kept), found) == states(log_of(kept), expected)
    assert found.problems == expected.problems


@pytest.mark.slow
@given(schedules(), st.data())
def test_a_log_with_holes_never_has_a_wrong_outcome(schedule: Schedule, data: st.DataObject) -> None:
    kept = [one for one in schedule.batches if data.draw(st.integers(0, 4))]
    truth = truths([one.append for one in schedule.batches])
    ends_there = bool(kept) and kept[-1] is schedule.batches[-1]
    found = scanned(log_of(kept)).finish(continues=not ends_there)
    for offset, state in states(log_of(kept), found).items():
        assert state in (truth[offset], "unknown", "open" if not ends_there else "unknown")
        if len(kept) == len(schedule.batches):
            assert state == truth[offset]
    if any(state == "unknown" for state in states(log_of(kept), found).values()):
        assert found.problems


@given(schedules(), st.data())
def test_compaction_changes_no_outcome(schedule: Schedule, data: st.DataObject) -> None:
    """The cleaner removes aborted records, any others, and a marker once no record of its transaction is left."""
    appends = [one.append for one in schedule.batches]
    truth = truths(appends)
    open_from = min((first for _, first, end in naive_transactions(appends) if end is None), default=schedule.end)
    bound = min(open_from, schedule.rolls[-1])
    left: dict[int, Written] = {}
    for one in schedule.batches:
        fate = data.draw(st.sampled_from(["keep", "remove", "empty", "thin"]))
        append = one.append
        of_aborted = truth[append.base_offset] == "aborted" and not append.control
        if append.base_offset >= bound or append.control or (fate == "keep" and not of_aborted):
            left[append.base_offset] = one
        elif fate == "empty" and append.producer_id >= 0:
            left[append.base_offset] = Written(append, written(append, 0))
        elif fate == "thin" and append.last_offset > append.base_offset and not of_aborted:
            left[append.base_offset] = Written(append, written(append, 1))
    for producer_id, first, marker in naive_transactions(appends):
        if marker is not None and marker.base_offset < bound and data.draw(st.booleans()):
            own = [one for one in appends if one.producer_id == producer_id and one.transactional]
            of_it = [one.base_offset for one in own if first <= one.base_offset < marker.base_offset]
            if all(
                not any(batch.record_count for batch in read(left[offset].data))  # type: ignore[union-attr]
                for offset in of_it
                if offset in left
            ):
                left.pop(marker.base_offset)
    log = log_of(list(left.values()))
    found = states(log, scanned(log, TransactionScan(cleaned=EVERYWHERE)).finish())
    assert found == {offset: truth[offset] for offset in found}


def data_of(offset: int, producer_id: int = 1) -> bytes:
    return build([Record(b"k")], base_offset=offset, producer_id=producer_id, producer_epoch=0, transactional=True)


def marker(name: str, offset: int, producer_id: int = 1) -> bytes:
    ids = {"producer_id": producer_id, "producer_epoch": 0, "coordinator_epoch": 0}
    return build_marker(name, offset=offset, timestamp=1, **ids)


def test_an_outcome_before_missing_offsets_is_unknown_unless_compaction_removed_them() -> None:
    log = data_of(0) + data_of(2) + marker("ABORT", 3) + data_of(4) + marker("COMMIT", 5)
    ended = {2: "aborted", 3: "aborted", 4: "committed", 5: "committed"}
    found = scanned(log).finish()
    assert states(log, found) == {0: "unknown", **ended}
    assert [one.text for one in found.problems] == ["offsets 1 to 1 are missing"]
    compacted = scanned(log, TransactionScan(cleaned=EVERYWHERE)).finish()
    assert states(log, compacted) == {0: "aborted", **ended}
    assert compacted.problems == ()


@pytest.mark.parametrize(
    ("cleaned", "lost"),
    [
        (Cleaned(0, 0), [(1, 2), (4, 6)]),
        (Cleaned(1, 0), [(1, 2), (4, 6)]),  # the cleaner was up to offset 0
        (Cleaned(2, 0), [(4, 6)]),
        (Cleaned(5, 0), [(5, 6)]),
        (Cleaned(6, 0), []),
    ],
)
def test_missing_offsets_are_lost_where_no_cleaner_has_been(cleaned: Cleaned, lost: list[tuple[int, int]]) -> None:
    log = data_of(0) + data_of(2) + marker("COMMIT", 3) + data_of(6) + marker("COMMIT", 7)
    scan = scanned(log, TransactionScan(cleaned=cleaned))
    least, found = scan.unstable().among(scan.cleaned_to), scan.finish()
    assert [one.text for one in found.problems] == [f"offsets {first} to {end - 1} are missing" for first, end in lost]
    assert least == min([first for first, _ in lost], default=NO_OFFSET)
    expected = dict.fromkeys((0, 2, 3, 6, 7), "committed") | ({0: "unknown"} if (1, 2) in lost else {})
    assert states(log, found) == expected


@pytest.mark.parametrize(("possible", "lost"), [(0, [6]), (8, []), (NO_OFFSET, [])])
def test_a_batch_of_which_records_were_removed_shows_that_a_cleaner_has_been_there(
    possible: int, lost: list[int]
) -> None:
    """As of a replica that was made anew from a leader whose cleaner was there. Behind it, it shows nothing."""
    thinned = build([], base_offset=4, last_offset=5, producer_id=2, producer_epoch=0)
    log = data_of(0) + data_of(2) + thinned + data_of(7) + marker("COMMIT", 8)
    found = scanned(log, TransactionScan(cleaned=Cleaned(0, possible))).finish()
    assert [one.offset for one in found.problems] == lost
    assert states(log, found)[2] == ("unknown" if lost else "committed")


def test_a_transaction_that_begins_behind_missing_offsets_is_certain() -> None:
    scan = scanned(data_of(0) + marker("COMMIT", 1) + data_of(7) + marker("COMMIT", 8))
    assert scan.unsure == set()
    assert scanned(data_of(0) + marker("COMMIT", 1) + data_of(2) + marker("COMMIT", 8)).unsure == {1}


def test_damage_hides_markers_in_compacted_topics_too() -> None:
    scan = scanned(data_of(0), TransactionScan(cleaned=EVERYWHERE))
    scan.damage("orders-0/0.log: at byte 79: crc_mismatch")
    rest = data_of(2) + marker("COMMIT", 3)
    found = scanned(rest, scan).finish()
    assert states(data_of(0) + rest, found) == {0: "unknown", 2: "committed", 3: "committed"}
    assert [one.text for one in found.problems] == ["orders-0/0.log: at byte 79: crc_mismatch"]


def test_damage_between_batches_that_follow_one_another_hides_nothing() -> None:
    scan = scanned(data_of(0))
    scan.damage("garbage")
    rest = data_of(1) + marker("COMMIT", 2)
    assert set(states(data_of(0) + rest, scanned(rest, scan).finish()).values()) == {"committed"}


def test_what_is_open_at_a_damaged_end_is_unknown() -> None:
    scan = scanned(data_of(0))
    scan.damage("truncated")
    assert states(data_of(0), scan.finish()) == {0: "unknown"}


@pytest.mark.parametrize("key", [b"\0\0\0\7", b"\0"])
def test_a_marker_that_cannot_be_read_leaves_the_outcome_unknown(key: bytes) -> None:
    ids = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    strange = build([Record(key)], base_offset=1, control=True, **ids)
    log = data_of(0) + strange + data_of(2) + marker("COMMIT", 3)
    found = scanned(log).finish()
    assert states(log, found) == {0: "unknown", 1: "unknown", 2: "committed", 3: "committed"}
    assert found.problems[0].text == "the marker at offset 1 does not show how producer 1's transaction from 0 on ended"


def test_what_is_open_at_a_marker_that_cannot_be_read_is_unknown_up_to_it() -> None:
    ids = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    log = data_of(0) + build([Record(b"\0")], base_offset=1, control=True, **ids) + data_of(2)
    found = scanned(log).finish()
    assert states(log, found) == {0: "unknown", 1: "unknown", 2: "open"}
    assert found.problems[0].text == "the marker at offset 1 does not show how producer 1's transaction from 0 on ended"


def test_a_marker_that_compaction_removed_leaves_the_outcome_unknown() -> None:
    ids = {"producer_id": 1, "producer_epoch": 0, "transactional": True}
    log = data_of(0) + build([], base_offset=1, last_offset=1, control=True, **ids)
    assert states(log, scanned(log, TransactionScan(cleaned=EVERYWHERE)).finish()) == {0: "unknown"}


@pytest.mark.parametrize("transactional", [True, False])
def test_a_control_batch_ends_no_transaction_without_a_readable_record_and_the_bit(transactional: bool) -> None:
    ids = {"producer_id": 1, "producer_epoch": 0, "transactional": transactional}
    data = bytearray(build([Record(b"\0\0\0\0", b"")], base_offset=1, control=True, **ids))
    if transactional:
        data[61] = 0x7F  # the length of the record
        data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    log = data_of(0) + bytes(data) + marker("COMMIT", 2)
    assert states(log, scanned(log).finish()) == {0: "unknown", 1: "unknown", 2: "committed"}


def test_outcomes_of_a_range_hold_what_it_needs() -> None:
    log = data_of(0) + marker("ABORT", 1) + data_of(2) + marker("ABORT", 3) + data_of(4)
    whole = scanned(log).finish()
    part = whole.within(2, 4)
    assert [len(table.first) for table in (whole.aborted, part.aborted, part.ongoing)] == [2, 1, 0]
    rest = log[len(data_of(0) + marker("ABORT", 1)) : -len(data_of(4))]
    assert states(rest, part) == states(rest, whole) == {2: "aborted", 3: "aborted"}


def test_missing_offsets_between_old_batches_hide_outcomes() -> None:
    old = build([Record(b"k", offset=3), Record(b"k", offset=4)], base_offset=3, magic=1, codec="gzip")
    log = data_of(0) + old + marker("ABORT", 5)
    scan = scanned(data_of(0))
    (batch,) = read(old)
    assert isinstance(batch, Batch)
    scan.add(batch.measured())
    found = scanned(marker("ABORT", 5), scan).finish()
    assert STATES[found.state(next(item for item in read(log) if isinstance(item, Batch)))] == "unknown"
    assert [one.text for one in found.problems] == ["offsets 1 to 2 are missing"]


def test_an_old_batch_may_hold_the_offset_at_which_a_part_begins() -> None:
    old = build([Record(b"k", offset=3), Record(b"k", offset=4)], base_offset=3, magic=1, codec="gzip")
    (batch,) = read(old)
    assert isinstance(batch, Batch)
    scan = TransactionScan(4)
    scan.add(batch.measured())
    found = scan.finish()
    assert (found.end, found.repeated, found.problems) == (5, (), ())


def test_offsets_that_occur_twice_are_unknown() -> None:
    log = data_of(0) + data_of(1) + data_of(0) + marker("COMMIT", 1) + data_of(2) + marker("COMMIT", 3)
    found = scanned(log).finish()
    assert states(log, found) == {0: "unknown", 1: "committed", 2: "committed", 3: "committed"}
    assert found.problems[0].text == "offsets go back from 2 to 0"


def test_a_snapshot_behind_missing_offsets_shows_what_is_still_open() -> None:
    before, behind = data_of(0, 1) + data_of(1, 2), data_of(6, 1) + marker("COMMIT", 7, 1)
    scan = scanned(before)
    scan.settle(6, {1: 0})
    found = states(before + behind, scanned(behind, scan).finish())
    assert found == {0: "committed", 1: "unknown", 6: "committed", 7: "committed"}
