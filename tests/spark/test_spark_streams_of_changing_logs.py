"""Streams of logs that a broker works on between micro-batches, and between the plan of one and its tasks: each record
that a consumer gets is delivered once."""

from __future__ import annotations

import json
import shutil
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.spark.errors import SourceError
from kafkawire.spark.sources.segment_columns import RECORDS
from kafkawire.spark.sources.segment_streams import SegmentStream
from kafkawire.spark.sources.source_base import SourceOptions
from tests.spark.growing_logs import Consumer, GrowingLog

pytestmark = pytest.mark.spark

SEEDS = range(30)
_BATCHES = 25


class Query:
    """A query: a stream with its checkpoint, restarted now and then."""

    def __init__(self, root: Path, random: Random, **options: str) -> None:
        self.options = {"path": str(root), "isolationLevel": "read_uncommitted", **options}
        self.random = random
        self.offset: Any = None
        self.got: list[bytes] = []
        self.errors: list[str] = []
        self.stream = self._stream()

    def _stream(self) -> SegmentStream:
        return SegmentStream(from_arrow_schema(RECORDS), SourceOptions(self.options))

    def trigger(self, between: Any = lambda: None) -> None:
        """A micro-batch. Some are computed twice, by a stream that is started anew."""
        if self.random.random() < 0.3:
            self.stream = self._stream()
        if self.offset is None:
            self.offset = json.loads(json.dumps(self.stream.initialOffset()))
        end = json.loads(json.dumps(self.stream.latestOffset(self.offset, self.stream.getDefaultReadLimit())))
        if end == self.offset:
            return
        if self.random.random() < 0.2:
            between()
            self.stream = self._stream()
        between()
        tasks = self.stream.partitions(self.offset, end)
        between()
        for task in tasks:
            for batch in self.stream.read(task):
                for row in batch.to_pylist():
                    if row["error"]:
                        self.errors.append(row["error"])
                    else:
                        self.got.append(row["value"])
        self.offset = end


@pytest.mark.parametrize("seed", SEEDS)
def test_delivered_is_what_a_consumer_has(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    log = GrowingLog(tmp_path / "logs", random, has_epochs=seed % 3 > 0)
    log.append()
    query, consumer = Query(tmp_path / "logs", random), Consumer()
    done = []
    for _ in range(_BATCHES):
        consumer.poll(log)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            query.trigger()
        assert Counter(query.got) == Counter(consumer.got), done
        done += [log.act() for _ in range(random.randint(1, 4))]
    assert not [error for error in query.errors if error.split(":")[0] not in ("truncated", "out_of_range", "new_log")]


@pytest.mark.parametrize(
    "limit", [{}, {"maxOffsetsPerTrigger": "7"}, {"maxBytesPerTrigger": "400", "maxPartBytes": "300"}]
)
@pytest.mark.parametrize("seed", range(10))
def test_a_log_may_change_between_a_plan_and_its_tasks(tmp_path: Path, seed: int, limit: dict[str, str]) -> None:
    """Nothing twice, and of what is left of the log nothing is missing."""
    random = Random(1000 + seed)
    log = GrowingLog(tmp_path / "logs", random)
    log.append()
    query = Query(tmp_path / "logs", random, **limit)
    for _ in range(_BATCHES):
        query.trigger(lambda: log.act() if random.random() < 0.5 else None)
        log.act()
    log.append()
    for _ in range(200):
        before = query.offset
        query.trigger()
        if query.offset == before:
            break
    assert [value for value, count in Counter(query.got).items() if count > 1] == []
    assert {one.value for one in log.records} <= set(query.got)


def logged(root: Path, seed: int = 1) -> GrowingLog:
    log = GrowingLog(root, Random(seed))
    for _ in range(5):
        log.append()
    return log


def test_a_cleaned_segment_is_a_seek(tmp_path: Path) -> None:
    """The active segment is read to its end, grows, is rolled and cleaned: the rest is delivered."""
    log = logged(tmp_path / "logs")
    query = Query(tmp_path / "logs", Random(1))
    query.trigger()
    log.append()
    log.roll()
    log.append()
    log.roll()
    log.clean()
    query.trigger()
    assert {one.value for one in log.records} <= set(query.got)
    assert (query.errors, max(Counter(query.got).values())) == ([], 1)


@pytest.mark.parametrize("checkpoint", [True, False], ids=["leader-epoch-checkpoint", "epochs of batches"])
def test_what_a_new_leader_wrote_is_delivered(tmp_path: Path, checkpoint: bool) -> None:
    """Offsets 0 to 99 were read; cut to 90, and 90 to 109 are written in a later epoch."""
    log = GrowingLog(tmp_path / "logs", Random(1))
    while log.end < 90:
        log.append()
    cut = log.end
    log.append()
    query = Query(tmp_path / "logs", Random(1))
    query.trigger()
    read = log.end
    cut_off = [one for one in log.records if one.offset >= cut]
    log.random.randint = lambda low, high: cut if high > 50 else high  # type: ignore[method-assign]
    log.elect()
    log.append()
    log.append()
    if not checkpoint:
        (log.folder / "leader-epoch-checkpoint").unlink()
    before = len(query.got)
    query.trigger()
    assert query.got[before:] == [one.value for one in log.records if one.offset >= cut]
    assert cut_off
    assert not {one.value for one in cut_off} & set(query.got[before:])
    (error,) = query.errors
    assert error == (
        f"truncated: offsets {cut} to {read - 1}, which had been read up to leader epoch 0, were cut off after a "
        f"change of leader; what a later leader wrote is delivered from offset {cut} on"
    )
    query.trigger()
    assert len(query.errors) == 1


def test_a_copy_that_is_behind_is_waited_for(tmp_path: Path) -> None:
    """It has no later leader epoch: nothing shows that what it lacks was cut off."""
    log = logged(tmp_path / "logs")
    query = Query(tmp_path / "logs", Random(1))
    query.trigger()
    whole = (log.folder / f"{0:020}.log").read_bytes()
    (log.folder / f"{0:020}.log").write_bytes(whole[: len(whole) // 2])
    before = query.offset
    with pytest.warns(
        RuntimeWarning, match=r"ends before offset \d+, .* no leader epoch after 0: the stream waits for it"
    ):
        query.trigger()
    assert query.offset == before
    (log.folder / f"{0:020}.log").write_bytes(whole)
    log.append()
    query.trigger()
    assert query.got == [one.value for one in log.records]
    assert query.errors == []


def test_a_topic_that_is_created_again_is_a_new_log(tmp_path: Path) -> None:
    log = logged(tmp_path / "logs")
    query = Query(tmp_path / "logs", Random(1))
    query.trigger()
    before, former = list(query.got), log.topic_id
    log.create()
    log.append()
    query.trigger()
    assert query.got == [*before, *(one.value for one in log.records)]
    (error,) = query.errors
    assert error == (
        f"new_log: the topic was created again: its id is {log.topic_id}, that of the log that was read before is "
        f"{former}; the new log is read from offset 0 on"
    )


@pytest.mark.parametrize("read", [False, True])
def test_a_planned_log_that_was_deleted_with_its_topic_is_out_of_range(tmp_path: Path, read: bool) -> None:
    """A driver was killed within a micro-batch, and the topic is another one when its plan is computed again. The id
    is the proof: without a later log, copies are missing, and a log that was known before proves nothing."""
    log = logged(tmp_path / "logs")
    query = Query(tmp_path / "logs", Random(1))
    begun = f"offset {log.end}" if read else "its beginning"
    if read:
        query.trigger()
        log.append()
    start = query.offset or {}
    end, former, reached = query._stream().latestOffset(start), log.topic_id, log.end
    log.create()
    log.append()
    later, created = log.topic_id, query._stream().latestOffset({})

    def errors(before: Any, **options: str) -> list[str]:
        stream = SegmentStream(from_arrow_schema(RECORDS), SourceOptions({**query.options, **options}))
        tasks = stream.partitions(before, end)
        return [row["error"] for task in tasks for batch in stream.read(task) for row in batch.to_pylist()]

    found = (
        f"the log was removed before it was read from {begun} to offset {reached}: the topic {former} was deleted, "
        f"and created again with the id {later}"
    )
    assert errors(start) == [f"out_of_range: {found}"]
    with pytest.raises(SourceError, match=f"out_of_range: {found}"):
        errors(start, failOnDataLoss="true")
    if not read:
        assert [error.split(":")[0] for error in errors(created)] == ["unreadable"]


class Planned(NamedTuple):
    """A micro-batch that was planned: its stream and its tasks."""

    stream: SegmentStream
    tasks: Any
    end: Any

    @classmethod
    def of(cls, query: Query) -> Planned:
        stream = query._stream()
        start = query.offset or stream.initialOffset()
        end = stream.latestOffset(start)
        return cls(stream, stream.partitions(start, end), end)

    def rows(self) -> list[dict[str, Any]]:
        return [row for task in self.tasks for batch in self.stream.read(task) for row in batch.to_pylist()]


@pytest.mark.parametrize("created", [1, 2])
def test_a_topic_created_again_before_the_tasks_read_is_read_once_and_as_itself(tmp_path: Path, created: int) -> None:
    """The offsets that were planned are in the new log, too; they are other records."""
    log = logged(tmp_path / "logs")
    query = Query(log.root, Random(1))
    planned, planned_with_error = Planned.of(query), Planned.of(Query(log.root, Random(1), failOnDataLoss="true"))
    reached, former = log.end, log.topic_id
    for _ in range(created):
        log.create()
        while log.end <= reached:
            log.append()
    (row,) = planned.rows()
    assert row["error"] == (
        f"out_of_range: the log was removed before it was read from offset 0 to offset {reached}: the topic {former} "
        f"was deleted, and created again with the id {log.topic_id}"
    )
    with pytest.raises(SourceError, match=f"was deleted, and created again with the id {log.topic_id}"):
        planned_with_error.rows()
    query.offset = json.loads(json.dumps(planned.end))
    query.trigger()
    assert query.got == [one.value for one in log.records]
    assert [error.split(":")[0] for error in query.errors] == ["new_log"]


def test_a_new_directory_without_a_topic_id_is_not_taken_for_the_log(tmp_path: Path) -> None:
    """A broker writes `partition.metadata` after it has made the directory."""
    log = logged(tmp_path / "logs")
    planned, former = Planned.of(Query(log.root, Random(1))), log.topic_id
    log.create()
    for _ in range(9):
        log.append()
    (log.folder / "partition.metadata").unlink()
    (row,) = planned.rows()
    assert row["error"] == f"unreadable: the directory has no topic id any more; it had {former}"


def deleted(log: GrowingLog) -> None:
    """As a broker deletes: it renames the directory, and removes it after a minute."""
    log.folder.rename(log.root / f"t-0.{'0123456789abcdef' * 2}-delete")


def emptied(log: GrowingLog) -> None:
    for file in log.folder.iterdir():
        file.unlink()


@pytest.mark.parametrize("remove", [deleted, emptied, lambda log: shutil.rmtree(log.folder)])
def test_a_log_deleted_before_the_tasks_read_is_out_of_range(tmp_path: Path, remove: Any) -> None:
    log = logged(tmp_path / "logs")
    GrowingLog(log.root, Random(2), "other-0")
    planned = [Planned.of(Query(log.root, Random(1), failOnDataLoss=option)) for option in ("false", "true")]
    remove(log)
    (row,) = planned[0].rows()
    assert row["error"] == (
        f"out_of_range: offsets 0 to {log.end - 1} were removed before they were read: the log directory has no "
        "replica t-0 any more; its topic was deleted, or the replica was moved"
    )
    with pytest.raises(SourceError, match="out_of_range"):
        planned[1].rows()


def test_a_log_directory_that_is_not_there_is_no_deleted_topic(tmp_path: Path) -> None:
    """A disk that is not mounted."""
    log = logged(tmp_path / "logs")
    planned = Planned.of(Query(log.root, Random(1)))
    log.root.rename(tmp_path / "elsewhere")
    log.root.mkdir()
    (row,) = planned.rows()
    assert row["error"] == (
        f"unreadable: offsets 0 to {log.end - 1}: neither the replica nor `meta.properties` of its log directory is "
        "there"
    )


def test_a_checkpoint_of_an_earlier_version_is_converted(tmp_path: Path) -> None:
    """`{root: {directory: [segment, end, mark, offset]}}`; the segment may have been cleaned since."""
    log = logged(tmp_path / "logs")
    size, offset = (log.folder / f"{0:020}.log").stat().st_size, log.end
    log.roll()
    log.append()
    log.roll()
    log.clean()
    query = Query(tmp_path / "logs", Random(1))
    query.offset = {str(tmp_path / "logs"): {"t-0": [0, size, 12345, offset]}}
    query.trigger()
    assert query.got == [one.value for one in log.records if one.offset >= offset]
    assert list(query.offset) == ["logs"]
    assert query.errors == []


def test_a_position_does_not_depend_on_the_replica_that_is_read(tmp_path: Path) -> None:
    """A follower has other segments, and goes further at times: each record is delivered once."""
    leader = logged(tmp_path / "fleet" / "broker-1")
    follower = GrowingLog(tmp_path / "fleet" / "broker-2", Random(5))
    query, everything = (Query(tmp_path / "fleet", Random(1), **given) for given in ({}, {"replicas": "all"}))

    def copied(batches: int) -> None:
        found = [batch for base in sorted(leader.segments) for batch in leader.segments[base]][:batches]
        follower.segments = {0: found[:3], **({found[3].base: found[3:]} if len(found) > 3 else {})}
        for base in follower.segments:
            follower._write(base)

    for batches in (5, 100, 6, 100):
        copied(batches)
        for root, end in ((leader.root, 1), (follower.root, batches)):
            (root / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {end}\n")
        for one in (query, everything):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                one.options.pop("isolationLevel", None)
                one.stream = one._stream()
                one.trigger()
        leader.append()
    copied(100)
    (follower.root / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {leader.end}\n")
    query.trigger()
    everything.trigger()
    assert query.got == [one.value for one in leader.records]
    assert sorted(everything.got) == sorted(2 * [one.value for one in leader.records])
    assert query.errors == everything.errors == []
