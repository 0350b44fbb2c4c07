"""The state after the summaries of parts is that of Kafka's own ProducerStateManager after the same batches."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import logdir
from kafkawire.logdir import Partition
from kafkawire.logdir.entries import SnapshotEntry
from kafkawire.logdir.indexes import producer_snapshot
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.transactions import Replay, span_scan
from kafkawire.transactions.endings import ABORT_CODE, PACKED, packed
from kafkawire.transactions.part_summary import PartSummary
from tests.transactions.schedules import Schedule, schedules
from tests.transactions.test_part_scan import EXAMPLES, write
from tests.transactions.test_part_summary import parts
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


@pytest.fixture(autouse=True)
def arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays judge producers with few batches, too."""
    monkeypatch.setattr(span_scan, "FEW", 4)


def of_summaries(summaries: list[PartSummary]) -> tuple[Replay, Completed]:
    """The producers after the last part, and the transactions that ended: id, first and last offset, aborted."""
    replay = Replay()
    completed: Completed = []
    for summary in summaries:
        for span in summary.spans:
            followed = replay.followed(span, 0)
            assert followed is not None
            replay.take(span, followed)
            for row in np.concatenate(
                [np.frombuffer(span.endings, PACKED), packed([ending for _, ending in followed.ended])]
            ).tolist():
                completed.append([row[0], row[3], row[1], row[6] == ABORT_CODE])
    return replay, sorted(completed, key=lambda one: one[2])


def entries(data: bytes) -> list[ProducerEntry]:
    found = list(producer_snapshot(data))
    assert all(isinstance(item, SnapshotEntry) for item in found)
    return sorted((item.producer for item in found if isinstance(item, SnapshotEntry)), key=lambda one: one.producer_id)


def compare(java: Oracle, partition: Partition, random_: random.Random) -> bool:
    """Returns whether Kafka's class takes the log."""
    data = b"".join(Path(file.path).read_bytes() for file in partition.segments)
    summaries = [summary for _, summary in parts(partition, random_)]
    end = max((summary.scan.reached for summary in summaries), default=0)
    high_watermark = random_.randrange(end + 1)
    answer = java.one(op="producers.replay", bytes=data.hex(), highWatermark=high_watermark)
    assert "error" not in answer, answer
    replay, completed = of_summaries(summaries)
    assert replay.snapshot() == entries(bytes.fromhex(answer["snapshot"]))
    assert completed == answer["completed"]
    assert next(iter(replay.ongoing.values()), -1) == answer["firstUndecidedOffset"]
    replay.unreplicated = {first: last for _, first, last, _ in completed if last >= high_watermark}
    unstable = replay.first_unstable_offset
    assert (-1 if unstable is None else unstable) == answer["firstUnstableOffset"]
    return bool(replay.producers)


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
