"""Columns give the facts that batches one by one give."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from kafkawire import logdir, rows
from kafkawire.logdir import LogFile
from kafkawire.logdir.splits import ranges
from kafkawire.records import Batch
from kafkawire.records.columns import Batches
from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.records.header import CONTROL, LOG_APPEND_TIME
from kafkawire.transactions import Append, Segment, append_of
from kafkawire.transactions.coordinator.coordinator_log import coordinator_records, registration
from kafkawire.transactions.coordinator.id_columns import IdColumns, coordinator_facts
from kafkawire.transactions.facts import BROKER_WRITTEN, TRANSACTION_STATE, CoordinatorRecord, OffsetGap, Place
from kafkawire.transactions.parts.segment_scan import Appends, PartScan, SegmentState, read_part
from tests.audit_logs import LogDirectory
from tests.random_logs import PRODUCERS, damage, fill, register
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

PLACE = Place("logs", TRANSACTION_STATE, 0)
EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"


def one_by_one(file: LogFile, after: Segment | None) -> Iterator[object]:
    """The facts of a segment, batch by batch: the reference for columns."""
    base_offset = file.offset or 0
    following = None if after is None else after.end_offset
    intact = base_offset if after is None else after.intact_from
    first: int | None = None
    end, leader_epoch, batches, transactional, size = base_offset, -1, 0, 0, 0
    broker_time: int | None = None
    leader_time: tuple[int, int] | None = None
    gap: OffsetGap | None = None
    damaged: list[rows.DamageRow] = []
    for item in file.batches():
        if not isinstance(item, Batch):
            if not item.harmless:
                damaged.append(rows.DamageRow.of(item, **file.place))
            continue
        if item.base_offset != following:
            intact = item.base_offset
        if first is None:
            first = item.base_offset
        elif item.base_offset > end:
            gap = OffsetGap(end, item.base_offset)
        following = item.last_offset + 1
        end = max(end, following)
        batches, size, leader_epoch = batches + 1, size + item.size, max(leader_epoch, item.partition_leader_epoch)
        if file.topic in BROKER_WRITTEN or item.attributes & (CONTROL | LOG_APPEND_TIME):
            broker_time = max(broker_time or 0, item.max_timestamp)
            leader_time = max(leader_time or (-1, 0), (item.partition_leader_epoch, item.max_timestamp))
        append = append_of(item, intact)
        if append is not None:
            yield append
            intact = following if append.control == EMPTY else intact
            transactional += append.transactional
            if append.transactional and append.control == MALFORMED:
                gap = OffsetGap(append.base_offset, following)
        if file.topic == TRANSACTION_STATE:
            yield from coordinator_records(item)
    if damaged and damaged[-1].resumed_at is None:
        gap = OffsetGap(end)
    if not batches and after is not None and after.end_offset < base_offset:
        intact = base_offset
    yield Segment(
        base_offset=base_offset,
        first_offset=base_offset if first is None else first,
        end_offset=end,
        leader_epoch=leader_epoch,
        batches=batches,
        transactional=transactional,
        bytes=size,
        broker_time=broker_time,
        leader_time=leader_time,
        gap=gap,
        damage=tuple(damaged),
        intact_from=intact,
    )


def read_segment(file: LogFile, after: Segment | None) -> Iterator[object]:
    """What is in a segment; last the `Segment`."""
    state = SegmentState(file.offset or 0, after)
    for fact in read_part(file, state):
        if isinstance(fact, PartScan):
            state.take(fact)
        else:
            yield fact
    yield state.segment()


def flat(found: Iterator[object]) -> Iterator[object]:
    for fact in found:
        if isinstance(fact, Appends):
            yield from fact
        elif isinstance(fact, (Batches, Batch)):
            yield from flat(coordinator_facts(fact))
        elif isinstance(fact, IdColumns):
            yield from fact.registrations(PLACE)
        elif isinstance(fact, CoordinatorRecord):
            yield registration(PLACE, fact) or fact
        else:
            yield fact


def by_kind(found: Iterable[object]) -> dict[type, list[object]]:
    """Facts of each kind in their order: among those of other kinds, columns have another one."""
    kinds: dict[type, list[object]] = {}
    for fact in found:
        kinds.setdefault(type(fact), []).append(fact)
    return kinds


def compare(*paths: str) -> int:
    """Compare all segments, whole and in parts; returns how many parts there were."""
    count = 0
    for partition in logdir.open(*paths).partitions:
        after: Segment | None = None
        for file in partition.segments:
            expected = list(flat(one_by_one(file, after)))
            assert by_kind(flat(read_segment(file, after))) == by_kind(expected)
            after = expected[-1]  # type: ignore[assignment]
            assert isinstance(after, Segment)
            parts = [list(flat(read_part(file, None, start=a, end=b))) for a, b in ranges(file, 257)]
            count += len(parts)
            facts = [fact for part in parts for fact in part[:-1]]
            assert by_kind(map(_placed, facts)) == by_kind(map(_placed, expected[:-1]))
    return count


def _placed(fact: object) -> object:
    """What a part has of a batch: nothing that depends on what is before the part."""
    if isinstance(fact, Append):
        return fact.base_offset, fact.timestamp, fact.producer_id, fact.control, fact.coordinator_epoch, fact.problem
    return fact


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_columns_equal_batch_by_batch_on_logs_of_every_kind(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    logs = LogDirectory(tmp_path / "logs", ids=2, compacted=seed % 3 == 2)
    register(random_, logs)
    for number in range(4):
        fill(random_, logs.partition(f"topic{number}", start=random_.choice([0, 100])), range(PRODUCERS))
    path = logs.write()
    if seed % 2:
        damage(random_, logs.root)
    assert compare(path) > 20


@pytest.mark.slow
def test_directories_that_brokers_wrote() -> None:
    assert compare(str(EXAMPLES), *(str(unpacked(name)) for name in LOG_DIRECTORIES))
