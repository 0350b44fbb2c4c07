"""The state after the parts of a log is that of Kafka's own ProducerStateManager after the same batches."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import logdir
from kafkawire.logdir import Partition
from kafkawire.logdir.entries import SnapshotEntry
from kafkawire.logdir.indexes import producer_snapshot
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records.control import ABORT_CODE
from kafkawire.transactions.log.ordered_replay import OrderedReplay, ordered_replay
from kafkawire.transactions.parts.part_columns import PartColumns
from tests.transactions.schedules import Schedule, schedules
from tests.transactions.test_part_columns import parts
from tests.transactions.test_part_scan import EXAMPLES, write
from tools.broker import BrokerUnavailableError, jars
from tools.oracle import Oracle, OracleUnavailableError
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

pytestmark = [pytest.mark.broker, pytest.mark.slow]

Completed = list[list[int]]


@pytest.fixture(scope="module")
def java() -> Iterator[Oracle]:
    try:
        with Oracle(jars.BROKER_VERSION, sorted(jars.broker_jars().glob("*.jar"))) as oracle:
            yield oracle
    except (OracleUnavailableError, BrokerUnavailableError) as error:
        if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
            raise
        pytest.skip(str(error))


def replay_of(taken: list[PartColumns]) -> tuple[OrderedReplay, Completed]:
    """The producers after the last part, and the transactions that ended: id, first and last offset, aborted."""
    replay = ordered_replay()
    completed: Completed = []
    for part in taken:
        for appends in part.appends:
            for row in replay.run(appends).rows.tolist():
                completed.append([row[0], row[3], row[1], row[6] == ABORT_CODE])
    return replay, completed


def entries(data: bytes) -> list[ProducerEntry]:
    found = list(producer_snapshot(data))
    assert all(isinstance(item, SnapshotEntry) for item in found)
    return sorted((item.producer for item in found if isinstance(item, SnapshotEntry)), key=lambda one: one.producer_id)


def compare(java: Oracle, partition: Partition, random_: random.Random) -> bool:
    """Returns whether Kafka's class takes the log."""
    data = b"".join(Path(file.path).read_bytes() for file in partition.segments)
    taken = [part for _, part in parts(partition, random_)]
    end = max((part.scan.reached for part in taken), default=0)
    high_watermark = random_.randrange(end + 1)
    answer = java.one(op="producers.replay", bytes=data.hex(), highWatermark=high_watermark)
    assert "error" not in answer, answer
    replay, completed = replay_of(taken)
    snapshot = sorted((one.entry() for one in replay.all()), key=lambda one: one.producer_id)
    assert snapshot == entries(bytes.fromhex(answer["snapshot"]))
    assert completed == answer["completed"]
    undecided = [one.first_offset for one in replay.open()]
    assert [*undecided, -1][0] == answer["firstUndecidedOffset"]
    unreplicated = [first for _, first, last, _ in completed if last >= high_watermark]
    assert min([*undecided[:1], *unreplicated], default=-1) == answer["firstUnstableOffset"]
    return len(replay) > 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(schedules(most=90), st.sampled_from([0.0, 0.1, 0.4]), st.integers(0, 2**32))
def test_generated_logs_whole_and_compacted(
    tmp_path: Path, java: Oracle, schedule: Schedule, removed: float, seed: int
) -> None:
    """Batches that compaction removed leave gaps, and transactions without markers or without data."""
    random_ = random.Random(seed)
    kept = [one for one in schedule.batches if random_.random() >= removed]
    compare(java, write(tmp_path / "logs", Schedule(kept, schedule.rolls)), random_)


def test_logs_that_brokers_wrote(java: Oracle) -> None:
    random_ = random.Random(5)
    roots = [EXAMPLES, *map(unpacked, [*LOG_DIRECTORIES, "read-committed", "hanging-transactions"])]
    compared = [compare(java, partition, random_) for partition in logdir.open(*map(str, roots)).partitions]
    assert sum(compared) > 20
