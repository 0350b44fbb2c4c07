"""Streams of logs that a broker works on between micro-batches, and between the plan of one and its tasks: delivered is
what a consumer has, once each."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.spark.errors import SourceError
from kafkawire.spark.segment_columns import RECORDS
from kafkawire.spark.segment_streams import SegmentStream
from kafkawire.spark.sources import SourceOptions
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
