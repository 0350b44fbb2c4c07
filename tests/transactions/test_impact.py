"""What open transactions hold back, from counts and settings: the same rows whatever the source."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.records import Batch, Record, build, build_marker, read
from kafkawire.rows import Finding, GroupLag, Impact, OffsetRange, TransactionData
from kafkawire.transactions.impact.held_back import (
    HeldLog,
    HeldLogCounter,
    KeyRepetition,
    PartitionImpact,
    TopicPolicy,
    aged,
    with_impacts,
)


def finding(start: int = 40, producer_id: int = 7, **fields: Any) -> Finding:
    given = {"last_stable_offset": 40, "high_watermark": 100, "log_start_offset": 0, "blocked": True, **fields}
    return Finding(
        verdict="hanging",
        reason="transaction_ended",
        topic="orders",
        partition=0,
        producer_id=producer_id,
        producer_epoch=0,
        start_offset=start,
        **given,
    )


def batch(offset: int, records: int = 1, producer_id: int = 7, transactional: bool = True, key: bytes = b"k") -> Batch:
    listed = [Record(key=key, value=b"v%d" % i, timestamp=0) for i in range(records)]
    data = build(
        listed, base_offset=offset, producer_id=producer_id, base_sequence=0, transactional=transactional
    )  # fmt: skip
    (found,) = read(data)
    assert isinstance(found, Batch)
    return found


def marker(offset: int, producer_id: int) -> Batch:
    data = build_marker(
        "COMMIT", offset=offset, timestamp=0, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0
    )
    (found,) = read(data)
    assert isinstance(found, Batch)
    return found


def counted(*batches: Batch, end: int = 100, whole: bool = True, show: int = 0, **starts: int) -> HeldLog:
    counter = HeldLogCounter({int(name[1:]): start for name, start in (starts or {"p7": 40}).items()}, 0, end, show)
    for one in batches:
        counter.add(one)
    return counter.held(whole=whole)


def impact(facts: PartitionImpact, *findings: Finding) -> Impact:
    made = with_impacts(findings or (finding(),), lambda _: facts)[0].impact
    assert made is not None
    return made


# What is held back ----------------------------------------------------------------------------------------------------


def test_counts_records_without_markers_and_bytes_with_them() -> None:
    batches = batch(40, 3), marker(43, 9), batch(44, 56, 9, transactional=False)
    made = impact(PartitionImpact(held=counted(*batches)))
    size = sum(one.size for one in batches)
    assert made.held == made.released == OffsetRange(start_offset=40, end_offset=100, records=59, bytes=size)


def test_data_of_the_transaction_is_apart_from_that_of_others() -> None:
    own, other, later = batch(40, 3), batch(43, 2, 9), batch(45, 1)
    held = counted(own, other, later, end=46, show=4)
    data = impact(PartitionImpact(held=held), finding(high_watermark=46)).data
    assert data is not None
    assert (data.first_offset, data.last_offset, data.records) == (40, 45, 4)
    assert (data.bytes, data.estimated) == (own.size + later.size, False)
    assert [(one.offset, one.key, one.value) for one in data.shown] == [
        (40, "k", "v0"), (41, "k", "v1"), (42, "k", "v2"), (45, "k", "v0"),
    ]  # fmt: skip


def test_batches_at_the_high_watermark_are_not_held_back() -> None:
    made = impact(PartitionImpact(held=counted(batch(40, 60), batch(100, 5))))
    assert (made.held.records, made.held.end_offset) == (60, 100)


def test_ending_one_of_two_releases_up_to_the_other() -> None:
    first, second = batch(40, 10), batch(50, 50, 8)
    facts = PartitionImpact(held=counted(first, second, p7=40, p8=50))
    one, other = (found.impact for found in with_impacts((finding(), finding(50, 8, blocked=False)), lambda _: facts))
    assert one is not None
    assert other is not None
    assert one.released == OffsetRange(start_offset=40, end_offset=50, records=10, bytes=first.size)
    assert (one.held.end_offset, one.held.records) == (100, 60)
    assert other.released == OffsetRange(start_offset=50, end_offset=50, records=0, bytes=0)
    assert (other.held.start_offset, other.held.records) == (50, 50)


def test_a_ghost_holds_back_what_the_log_still_has() -> None:
    made = impact(PartitionImpact(held=counted(batch(60, 40, 9), p7=60)), finding(log_start_offset=60))
    assert (made.held.start_offset, made.held.records) == (60, 40)
    assert made.data == TransactionData()


# Estimates ------------------------------------------------------------------------------------------------------------


def test_what_was_not_counted_is_estimated_from_the_whole_log() -> None:
    held = counted(read_part := batch(40, 20), whole=False)
    made = impact(PartitionImpact(held=held, log_bytes=5000))  # 50 bytes an offset
    assert made.held == OffsetRange(
        start_offset=40, end_offset=100, records=60, bytes=read_part.size + 40 * 50, estimated=True
    )
    assert made.data is not None
    assert made.data.estimated


def test_without_the_size_of_the_log_the_counted_part_counts_for_the_rest() -> None:
    held = counted(part := batch(40, 20), whole=False)
    assert impact(PartitionImpact(held=held)).held.bytes == 3 * part.size


def test_offsets_alone_have_no_bytes() -> None:
    made = impact(PartitionImpact())
    assert made.held == OffsetRange(start_offset=40, end_offset=100, records=60, bytes=None, estimated=True)
    assert (made.data, made.groups, made.retention) == (None, None, None)


def test_there_is_no_impact_where_no_end_is_known() -> None:
    (one,) = with_impacts([finding(high_watermark=None)], lambda _: PartitionImpact())
    assert one.impact is None


def test_an_unknown_high_watermark_is_named() -> None:
    held = counted(batch(40, 20), end=1000)
    made = impact(PartitionImpact(held=held), finding(high_watermark=None))
    assert made.held.end_offset == 60
    assert "the high watermark" in made.unknown[0]


def test_an_earlier_impact_grows_with_the_high_watermark() -> None:
    before = impact(PartitionImpact(held=counted(batch(40, 60)), measured_at=1))
    size = before.held.bytes
    assert size is not None
    now = aged(finding(high_watermark=160), before)
    assert now.held == OffsetRange(start_offset=40, end_offset=160, records=120, bytes=2 * size, estimated=True)
    assert now.data == before.data
    assert aged(finding(), before) == before


# Groups, compaction, retention ----------------------------------------------------------------------------------------


def test_a_group_at_the_last_stable_offset_waits() -> None:
    made = impact(PartitionImpact(committed={"early": 10, "ahead": 70, "there": 40}))
    assert made.groups == (
        GroupLag(group="there", committed_offset=40, waits=True, committed_lag=0, lag=60),
        GroupLag(group="early", committed_offset=10, waits=False, committed_lag=30, lag=90),
        GroupLag(group="ahead", committed_offset=70, waits=False, committed_lag=0, lag=30),
    )


@pytest.mark.parametrize(
    ("settings", "retention", "compacted"),
    [
        ({}, "not_held", False),
        ({"cleanup.policy": "compact"}, "none", True),
        ({"cleanup.policy": "compact,delete"}, "not_held", True),
        ({"cleanup.policy": "delete", "remote.storage.enable": "true"}, "held", False),
    ],
)
def test_retention_and_compaction_follow_the_topics_settings(
    settings: dict[str, str], retention: str, compacted: bool
) -> None:
    """UnifiedLog.deletableSegments looks at the high watermark, and with a tier at what was copied; the cleaner
    (LogCleanerManager.cleanableOffsets) at the last stable offset."""
    made = impact(PartitionImpact(policy=TopicPolicy.of("orders", settings), cleaned_offset=30))
    assert made.retention == retention
    assert (made.compaction is not None) == compacted
    if made.compaction is not None:
        assert (made.compaction.cleaned_offset, made.compaction.held_offset) == (30, 40)


def test_internal_topics_are_compacted_by_default() -> None:
    assert TopicPolicy.of("__consumer_offsets", {}) == TopicPolicy(compacted=True, deleted=False)


def test_repeated_keys_are_what_compaction_frees() -> None:
    repetition = KeyRepetition()
    assert repetition.share is None
    repetition.add(batch(0, 4))
    repetition.add(batch(4, 1, key=b"o"))
    assert repetition.share == 3 / 5


def test_repeated_keys_count_by_the_bytes_of_their_records() -> None:
    repetition = KeyRepetition()
    repetition.add(batch(0, 2, key=b"k" * 91))  # 101 bytes each, with two of the value and eight of the timestamp
    repetition.add(batch(2, 1, key=b"o"))
    assert repetition.share == 101 / 213


@pytest.mark.parametrize(("size", "repeated", "freed"), [(1000, 0.25, 250), (None, 0.25, None), (1000, None, None)])
def test_compaction_would_free_a_share_of_the_closed_segments(
    size: int | None, repeated: float | None, freed: int | None
) -> None:
    held = replace(counted(batch(40)), closed_bytes=size, repeated=repeated)
    compaction = impact(PartitionImpact(held=held, policy=TopicPolicy(compacted=True, deleted=False))).compaction
    assert compaction is not None
    assert (compaction.bytes, compaction.freed_bytes) == (size, freed)
