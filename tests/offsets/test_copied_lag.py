"""The lag of groups by copies, against what real consumers got: of each recorded cluster, from many offsets on."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from uuid import UUID

import pytest

from kafkawire import logdir
from kafkawire.messages import PartitionRecord, TopicRecord
from kafkawire.offsets.copied_lag import copied_lags
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.records import Record, build
from kafkawire.rows import Lag, LagCount
from kafkawire.transactions.blocking.blockers import GroupView
from tests.audit_logs import NOON, LogDirectory, PartitionLog
from tests.recorded_clusters import CLUSTERS, Copy

pytestmark = pytest.mark.slow

#: Offsets of groups that are tried in each partition, beside its ends.
OFFSETS = 24


def lags_of(copy: Copy, offsets: int = OFFSETS) -> list[tuple[Lag, list[int], list[int]]]:
    """Groups at many offsets of every partition: their lag, and what consumers of both levels got from there on."""
    replicas = LeadingReplicas(logdir.open(copy.path))
    levels = [copy.consumed(level) for level in ("read_committed", "read_uncommitted")]
    chosen = random.Random(copy.cluster)
    found = []
    for place in sorted({*levels[0], *levels[1]}):
        got = [sorted(level.get(place, [])) for level in levels]
        end = max((*got[0], *got[1], 0)) + 1
        for offset in {0, end, *(chosen.randrange(end + 1) for _ in range(offsets))}:
            view = GroupView(group="g", committed={place: offset}, partitions=frozenset({place}))
            (lag,) = copied_lags(replicas, view, as_of=None)
            assert lag.from_offset is not None
            start = lag.from_offset
            found.append((lag, *([one for one in offsets_ if one >= start] for offsets_ in got)))
    return found


def fits(count: LagCount | None, number: int) -> bool:
    return count is not None and count.least <= number <= count.most and (not count.exact or count.least == number)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_consumer_gets_as_many_as_the_lag_says(cluster: str) -> None:
    copy = Copy(cluster, "stopped")
    wrong, exact, places = [], 0, 0
    for lag, committed, uncommitted in lags_of(copy):
        places += 1
        if not fits(lag.read_committed, len(committed)) or not fits(lag.read_uncommitted, len(uncommitted)):
            wrong.append((lag, len(committed), len(uncommitted)))
        exact += bool(lag.read_committed and lag.read_committed.exact)
        if lag.read_committed is not None and lag.read_committed.exact and committed:
            assert lag.oldest_timestamp is not None
    assert wrong == []
    assert places > 50
    print(cluster, places, exact)
    assert exact > 0.8 * places, (exact, places)


@pytest.mark.parametrize("cluster", ["cluster-three", "cluster-standalone-tv0", "cluster-kafka-3.9"])
def test_bounds_hold_on_damaged_copies(cluster: str, tmp_path: Path) -> None:
    """Bytes of any file of any partition are changed, or its end is cut: bounds may become wide, never
    wrong."""
    copy, chosen = Copy(cluster, "stopped"), random.Random(cluster)
    shutil.copytree(copy.path, tmp_path / "copies")
    files = sorted(path for path in (tmp_path / "copies").glob("*/*-[0-9]*/*") if path.suffix in (".log", ".snapshot"))
    levels = [copy.consumed(level) for level in ("read_committed", "read_uncommitted")]
    wrong = []
    for _ in range(60):
        file = chosen.choice(files)
        topic, _, number = file.parent.name.rpartition("-")
        place = topic, int(number)
        if place not in levels[0] or not file.stat().st_size:
            continue
        whole = file.read_bytes()
        data = bytearray(whole)
        if chosen.random() < 0.3:
            data = data[: chosen.randrange(len(data))]
        else:
            for _ in range(chosen.choice((1, 1, 40))):
                data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
        file.write_bytes(data)
        offset = chosen.randrange(max(levels[1].get(place, [0]), default=0) + 1)
        view = GroupView(group="g", committed={place: offset}, partitions=frozenset({place}))
        (lag,) = copied_lags(LeadingReplicas(logdir.open(tmp_path / "copies")), view, as_of=None)
        file.write_bytes(whole)
        start = lag.from_offset or 0
        got = [sum(one >= start for one in level.get(place, [])) for level in levels]
        if not (fits(lag.read_committed, got[0]) and fits(lag.read_uncommitted, got[1])):
            wrong.append((str(file.relative_to(tmp_path)), offset, got, lag))
    assert wrong == []


@pytest.mark.parametrize(("cleaned", "count"), [(6, (6, 6)), (4, (6, 8)), (0, (6, 8))])
def test_offsets_missing_between_batches_are_unknown_where_no_cleaner_has_been(
    tmp_path: Path, cleaned: int, count: tuple[int, int]
) -> None:
    log = PartitionLog(tmp_path / "orders-0")
    for _ in range(4):
        log.plain()
    log.skip(2)
    for _ in range(2):
        log.plain()
    log.write()
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 8\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {cleaned}\n")
    view = GroupView(group="g", committed={("orders", 0): 0}, partitions=frozenset({("orders", 0)}))
    (lag,) = copied_lags(LeadingReplicas(logdir.open(tmp_path)), view, as_of=None)
    assert lag.read_uncommitted is not None
    assert (lag.read_uncommitted.least, lag.read_uncommitted.most) == count


def test_a_compressed_batch_of_magic_1_has_its_offsets_inside(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "orders-0")
    for base in (0, 5):
        records = [Record(key=b"k", value=b"v", timestamp=NOON, offset=base + number) for number in range(5)]
        log._append(build(records, base_offset=base, magic=1, codec="gzip"), 5)
    log.write()
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n0\n")
    view = GroupView(group="g", committed={("orders", 0): 3}, partitions=frozenset({("orders", 0)}))
    (lag,) = copied_lags(LeadingReplicas(logdir.open(tmp_path)), view, as_of=None)
    assert lag.read_committed is not None
    assert (lag.read_committed.least, lag.read_committed.most, lag.bounds) == (7, 7, ())


@pytest.mark.parametrize("disks", [("data", "data-2"), ("data-2", "data")])
def test_of_two_copies_on_disks_of_the_leader_the_later_one_counts(tmp_path: Path, disks: tuple[str, str]) -> None:
    """A replica that moved to another disk while the disks were copied is on both, as it was before and after."""
    logs = [LogDirectory(tmp_path / disk, ids=0) for disk in disks]
    for one, count in zip(logs, (2, 5), strict=True):
        one.partition("orders", 0).plain(records=count)
        one.high_watermark("orders", 0, count)
    topic = TopicRecord(name="orders", topic_id=UUID(int=7))
    led = PartitionRecord(partition_id=0, topic_id=UUID(int=7), replicas=(1,), isr=(1,), leader=1, leader_epoch=0)
    metadata = logs[0].partition("__cluster_metadata")
    for record in (topic, led):
        value = bytes((1, record.spec.api_key or 0, 0)) + record.encode(version=0)
        metadata.records([Record(value=value, timestamp=NOON)])
    for one in logs:
        one.write()
        (one.root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=test\n")
    view = GroupView(group="g", committed={("orders", 0): 0}, partitions=frozenset({("orders", 0)}))
    (lag,) = copied_lags(LeadingReplicas(logdir.open(tmp_path)), view, as_of=None)
    assert lag.read_committed is not None
    assert (lag.read_committed.least, lag.read_committed.most) == (5, 5)


@pytest.mark.parametrize(
    ("epochs", "checkpoint", "committed", "doubt"),
    [(0, None, 0, False), (4, None, 0, True), (4, None, 4, False), (4, 4, 0, False), (4, None, None, True)],
)
def test_leader_epochs_show_deleted_records_where_no_checkpoint_does(
    tmp_path: Path, epochs: int, checkpoint: int | None, committed: int | None, doubt: bool
) -> None:
    """DeleteRecords leaves the segment, and moves the first leader epoch."""
    logs = LogDirectory(tmp_path, ids=0)
    for _ in range(3):
        logs.partition("orders").plain(records=2)
    if checkpoint is not None:
        logs.checkpoint("log-start-offset-checkpoint", "orders", 0, checkpoint)
    path = logs.write()
    (tmp_path / "orders-0/leader-epoch-checkpoint").write_text(f"0\n1\n0 {epochs}\n")
    known = {} if committed is None else {("orders", 0): committed}
    view = GroupView(group="g", committed=known, partitions=frozenset({("orders", 0)}))
    (lag,) = copied_lags(LeadingReplicas(logdir.open(path)), view, as_of=None)
    assert [f"leader epochs begin at offset {epochs}" in problem for problem in lag.problems] == [True] * doubt
    assert lag.lost_offsets == (4 if checkpoint and committed == 0 else 0)
