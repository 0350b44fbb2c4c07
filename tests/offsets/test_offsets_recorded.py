"""Every status, forced on real brokers: sums by kafka-get-offsets, records by consumers of both isolation levels."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from kafkawire import logdir, offsets, rows
from tests.offsets.naive import name_of, ranges_of, statuses_of
from tools.recordings.archive import unpacked

ROOT = unpacked("every-offset")
TOPICS = ("mixed", "hanging", "compacted", "deleted", "retained", "repeated", "waiting")


@cache
def truth() -> Any:
    return json.loads((ROOT / "truth.json").read_text("utf-8"))


@cache
def directory() -> logdir.LogDirectory:
    return logdir.open(ROOT / "node-3")


def replica(topic: str, *folders: str) -> offsets.Replica:
    """The replica in the last of the folders, with those before as other copies."""
    opened = logdir.open(*(ROOT / folder for folder in folders)) if folders else directory()
    found = offsets.replicas(opened, topic, 0)
    return next(one for one in found if not folders or f"/{folders[-1]}/" in one.partition.path)


@pytest.mark.parametrize("topic", TOPICS)
def test_ranges_have_the_offsets_of_the_broker_and_the_records_of_its_consumers(topic: str) -> None:
    one = replica(topic)
    statuses = statuses_of(ranges_of(one))
    of_broker = truth()["offsets"][topic]
    assert (one.bounds.log_start_offset, one.bounds.high_watermark) == (of_broker["earliest"], of_broker["latest"])
    deleted = [offset for offset, status in statuses.items() if status == "deleted"]
    assert deleted == list(range(of_broker["earliest"]))
    consumed = {level: truth()["consumed"][level][topic] for level in ("read_committed", "read_uncommitted")}
    assert [offset for offset, status in statuses.items() if status.startswith("record_")] == consumed[
        "read_uncommitted"
    ]
    readable = [
        offset
        for offset, status in statuses.items()
        if status in ("record_none", "record_committed") and offset < one.bounds.last_stable_offset
    ]
    assert readable == consumed["read_committed"]


def test_every_status_was_forced() -> None:
    seen = {status for topic in TOPICS for status in statuses_of(ranges_of(replica(topic))).values()}
    seen |= set(statuses_of(ranges_of(replica("unclean", "old-leader", "new-leader"))).values())
    assert seen == {
        "record_none", "record_committed", "record_aborted", "record_open", "marker_commit", "marker_abort",
        "compacted", "deleted", "above_high_watermark", "truncated",
    }  # fmt: skip


def test_offsets_that_an_unclean_election_dropped_are_truncated_where_an_older_copy_has_them() -> None:
    alone, elected = replica("unclean", "new-leader"), replica("unclean", "old-leader", "new-leader")
    assert alone.bounds.end_offset == elected.bounds.log_end_offset < elected.bounds.end_offset
    (row,) = (row for row in ranges_of(elected) if row.status == "truncated")
    assert (row.first_offset, row.reason) == (alone.bounds.end_offset, "unclean_election")
    assert row.segment is not None
    assert "/old-leader/" in row.segment
    # The copy of the old leader has them, and another log goes on where they begin.
    old = replica("unclean", "new-leader", "old-leader")
    assert old.bounds.diverges_at == alone.bounds.end_offset
    assert old.bounds.end_offset == elected.bounds.end_offset
    rejoined = replica("unclean", "old-leader", "rejoined")
    assert (rejoined.bounds.diverges_at, rejoined.bounds.log_end_offset) == (
        None,
        truth()["offsets"]["unclean"]["latest"],
    )


def test_compaction_left_part_of_a_transaction() -> None:
    found = list(offsets.explain(replica("compacted")))
    parts = [row for row in found if isinstance(row, rows.PartialTransaction)]
    (total,) = (row for row in found if isinstance(row, rows.PartialTransactionTotal))
    assert total.transactions == len(parts) > 0
    statuses = statuses_of(ranges_of(replica("compacted")))
    for row in parts:
        inside = [statuses[offset] for offset in range(row.first_offset, row.last_offset)]
        assert inside.count(f"record_{row.transaction}") == row.left > 0
        assert statuses[row.last_offset] == "marker_commit"
        assert row.removed > 0


def test_records_of_a_producer_that_lost_its_state_are_found_when_asked_for() -> None:
    one = replica("repeated")
    assert not any(isinstance(row, rows.EqualRecords) for row in offsets.explain(one))
    (row,) = (row for row in offsets.explain(one, equal_records=True) if isinstance(row, rows.EqualRecords))
    assert (row.earlier_first_offset, row.earlier_last_offset) == (0, 2)
    assert (row.first_offset, row.last_offset, row.offsets) == (4, 6, 3)
    assert row.producer_id != row.earlier_producer_id
    for topic in TOPICS:
        if topic != "repeated":
            found = offsets.explain(replica(topic), equal_records=True)
            assert not any(isinstance(row, rows.EqualRecords) for row in found), topic


def test_the_sum_of_merged_ranges_is_the_span() -> None:
    for topic in TOPICS:
        one = replica(topic)
        merged = [row for row in offsets.explain(one, most=3) if isinstance(row, rows.StatusRange)]
        assert len(merged) <= 3
        assert sum(row.offsets for row in merged) == one.bounds.end_offset
        assert {name_of(row) for row in merged} <= {"mixed", *statuses_of(ranges_of(one)).values()}
