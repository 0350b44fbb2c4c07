"""`python -m tools.soak.changing_logs SEED STEPS [FORMAT]`: a cluster that works on its logs, and a stream of these.

Between every two micro-batches something happens to the logs, chosen by the seed: records, transactions, a roll, the
cleaner, retention, DeleteRecords, another leader, a leader that is lost with what its follower did not have (an unclean
election, and truncation), a topic that is deleted and created again, a reassignment. A trigger may be computed twice,
by a stream that restarts from its checkpoint, as after a driver was killed. A task may run twice, as after an executor
was killed. With a format (parquet, delta, iceberg), the stream is a query of Spark's into a table, and its driver and
executors are killed (`killed_query`).

The stream has to deliver each record that a real consumer gets, exactly once. The consumer is librdkafka, with the
check of leader epochs that Kafka's own consumer makes. It reads before and after each micro-batch, since brokers work
at any time: the stream has delivered every record of the later reading, and no record that is missing in the earlier
one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.client import Cluster, Config
from kafkawire.messages import OffsetForLeaderEpochRequest
from kafkawire.messages.offset_for_leader_epoch_request import OffsetForLeaderPartition, OffsetForLeaderTopic
from kafkawire.spark.sources.segment_columns import RECORDS
from kafkawire.spark.sources.segment_streams import SegmentStream
from kafkawire.spark.sources.source_base import SourceOptions
from tools.broker import RunningCluster, cluster

from .child_process import SoakError
from .killed_query import FORMATS, KilledQuery
from .log_changes import BROKERS, TOPICS, WAIT_S, Changes

#: The reasons of rows that are no records.
_EXPECTED = frozenset(("truncated", "out_of_range", "new_log"))


class Position(NamedTuple):
    """Where a consumer is."""

    offset: int = 0
    epoch: int = -1


class Reading:
    """A consumer with a position in each topic, which goes back where a later leader has less (KIP-320).

    A position is the offset after the last record that it got, with that record's epoch; markers do not move it.
    """

    def __init__(self, bootstrap: str, isolation: str) -> None:
        self.bootstrap, self.isolation = bootstrap, isolation
        self.at: dict[str, Position] = {}

    def forget(self, topic: str) -> None:
        """Of a topic that was created again all is new."""
        self.at.pop(topic, None)

    def read(self) -> tuple[Counter[bytes], dict[str, Position]]:
        """All that is behind the positions, and the positions then."""
        found: Counter[bytes] = Counter()
        after = {}
        for topic in TOPICS:
            values, after[topic] = self._of(topic, self.at.get(topic, Position()))
            found += Counter(values)
        return found, after

    def _of(self, topic: str, position: Position) -> tuple[list[bytes], Position]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "soak",
                "isolation.level": self.isolation,
                "auto.offset.reset": "error",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,
                "log_level": 2,
            }
        )
        values: list[bytes] = []
        try:
            position = self._validated(topic, position)
            consumer.assign([TopicPartition(topic, 0, position.offset)])
            deadline = time.monotonic() + WAIT_S
            while time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    values.append(message.value() or b"")
                    offset, epoch = message.offset(), message.leader_epoch()
                    assert offset is not None
                    position = Position(offset + 1, -1 if epoch is None else epoch)
                elif error.code() == KafkaError._PARTITION_EOF:
                    return values, position
                elif error.code() == KafkaError._AUTO_OFFSET_RESET or error.code() == KafkaError.OFFSET_OUT_OF_RANGE:
                    low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
                    position = Position(low if position.offset < low else high)
                    consumer.assign([TopicPartition(topic, 0, position.offset)])
                elif error.fatal():
                    raise SoakError(f"the consumer of {topic} at {position}: {error}")
        finally:
            consumer.close()
        raise SoakError(f"the consumer of {topic} at {position} does not come to the end")

    def _validated(self, topic: str, position: Position) -> Position:
        """The position, or where the epoch of its record ends by the leader's answer, as Kafka's own consumer does.
        (librdkafka validates where the leader changes while it runs, and a new one is made for each reading.)"""
        if position.epoch < 0:
            return position
        end = asyncio.run(_end_of_epoch(self.bootstrap, topic, position.epoch))
        return position if end < 0 or end >= position.offset else Position(end)


async def _end_of_epoch(bootstrap: str, topic: str, epoch: int) -> int:
    asked = OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=(OffsetForLeaderTopic(topic=topic, partitions=(asked,)),)
    )
    async with Cluster(Config.of(bootstrap)) as connected:
        answer = await connected.ask(request, topic=topic, partition=0)
    found: int = answer.topics[0].partitions[0].end_offset
    return found


class Stream:
    """A query without Spark: its source, with a checkpoint that is JSON."""

    def __init__(self, options: dict[str, str], random: Random) -> None:
        self.options = options
        self.random = random
        self.offset: Any = None
        self.errors: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self._stream = self._started()

    def _started(self) -> SegmentStream:
        return SegmentStream(from_arrow_schema(RECORDS), SourceOptions(self.options))

    def close(self) -> None:
        """There is no process."""

    def trigger(self) -> Counter[bytes]:
        """A micro-batch: what it delivers."""
        if self.random.random() < 0.3:
            self._stream = self._started()  # the driver was killed
        if self.offset is None:
            self.offset = json.loads(json.dumps(self._stream.initialOffset()))
        end = json.loads(json.dumps(self._stream.latestOffset(self.offset, self._stream.getDefaultReadLimit())))
        if self.random.random() < 0.3:
            self._stream = self._started()
        found: Counter[bytes] = Counter()
        for task in self._stream.partitions(self.offset, end) if end != self.offset else ():
            if self.random.random() < 0.2:
                next(iter(self._stream.read(task)), None)  # the executor was killed: the task runs again
            for batch in self._stream.read(task):
                for row in batch.to_pylist():
                    if row["error"]:
                        self.errors[row["error"]] += 1
                    else:
                        found[row["value"]] += 1
        self.offset = end
        return found


def disagreement(
    before: Counter[bytes], found: Counter[bytes], after: Counter[bytes], every: Counter[bytes]
) -> str | None:
    """What is wrong with a micro-batch, with the first twenty records; None: nothing.

    Args:
        before, after: what the consumer got from the same position before and after it. `found`: what it delivered.
        every: what all micro-batches delivered.
    """
    wrong = {
        "not delivered": after - found,
        "delivered, and no consumer has": found - before,
        "delivered twice": [value for value, count in every.items() if count > 1],
    }
    texts = (f"{what}: {sorted(values, key=int)[:20]}" for what, values in wrong.items() if values)
    return "; ".join(texts) or None


class Outcome(NamedTuple):
    """What a run found: micro-batches, delivered records, what was done, rows with errors by reason, kills."""

    batches: int
    records: int
    acts: Counter[str]
    errors: Counter[str]
    kills: Counter[str]


def run_beside(
    running: RunningCluster,
    folder: Path,
    seed: int,
    steps: int,
    announce: Callable[[str], None] = lambda text: None,
    *,
    into: str | None = None,
) -> Outcome:
    """Micro-batches beside a cluster of two brokers with the properties `BROKERS`.

    Args:
        folder: of the cluster. `seed`: of what happens. `steps`: micro-batches.
        into: the format of a table: a query of Spark's, whose processes are killed. None: a stream without Spark.

    Raises:
        SoakError: something was delivered twice, or is missing.
    """
    random = Random(seed)
    isolation = ("read_uncommitted", "read_committed")[seed % 2]
    changes = Changes(running, random)
    reading = Reading(running.bootstrap, isolation)
    path = f"{folder.resolve()}/node-*/data"
    options = {"path": path, "isolationLevel": isolation, "subscribe": ",".join(TOPICS)}
    stream = Stream(options, random) if into is None else KilledQuery(options, folder / "query", random, into)
    done: Counter[str] = Counter()
    every: Counter[bytes] = Counter()
    allowed: Counter[bytes] = Counter()
    recent: list[str] = []
    batches = 0

    def batch() -> bool:
        """Whether it ended. What a killed driver has committed is seen with the next one."""
        nonlocal batches, every, allowed
        changes.settle()
        before, _ = reading.read()
        allowed |= before
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            found = stream.trigger()
        batches += 1
        if found is None:
            return False
        after, reading.at = reading.read()
        every += found
        if wrong := disagreement(allowed, found, after, every):
            raise SoakError(f"seed {seed}, micro-batch {batches}, {recent[-8:]}: {wrong}")
        allowed = Counter()
        return True

    changes.between = batch  # type: ignore[assignment, method-assign]
    changes.recreated = reading.forget  # type: ignore[method-assign]
    try:
        ended = batch()
        while batches < steps or not ended:
            for _ in range(random.randint(1, 3)):
                recent.append(changes.act())
                done[recent[-1]] += 1
            ended = batch()
            announce(f"seed {seed}: micro-batch {batches}, {sum(every.values())} records, {recent[-1]}")
    finally:
        stream.close()
    texts = {reason_of(text): text for text in sorted(stream.errors)}
    if unexpected := [text for reason, text in texts.items() if reason not in _EXPECTED]:
        raise SoakError(f"seed {seed}: rows with errors, one text per reason: {unexpected}; {dict(done)}, {recent}")
    errors: Counter[str] = Counter()
    for text, count in stream.errors.items():
        errors[reason_of(text)] += count
    return Outcome(batches, sum(every.values()), done, errors, stream.kills)


def reason_of(error: str) -> str:
    """The reason of a row that is no record."""
    return error.partition(":")[0]


def main(words: list[str]) -> Iterator[str]:
    seed, steps = map(int, words[:2])
    (into,) = words[2:] or (None,)
    if into is not None and into not in FORMATS:
        raise SystemExit(f"FORMAT is {', '.join(FORMATS)}, not {into}")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "cluster")
        with cluster(2, controllers=1, config=BROKERS, folder=place) as running:
            found = run_beside(running, place, seed, steps, lambda text: print(text, flush=True), into=into)
    yield (
        f"{found.batches} micro-batches, {found.records} records, {dict(found.acts)}, rows {dict(found.errors)}, "
        f"killed {dict(found.kills)}"
    )


if __name__ == "__main__":
    for line in main(sys.argv[1:]):
        print(line)
