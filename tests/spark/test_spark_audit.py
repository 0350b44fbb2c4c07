"""The Spark job finds what the replay on one machine finds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from kafkawire import logdir, transactions
from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Record
from kafkawire.rows import Audit
from kafkawire.transactions import Settings
from tests.audit_logs import HOUR, MINUTE, NOON, STATUS, LogDirectory, PartitionLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"
PRODUCERS = 12


def both(session: SparkSession, settings: Settings, *paths: str) -> tuple[Audit, Audit]:
    from kafkawire import spark

    directory = logdir.open(*paths)
    local = transactions.audit(directory, settings, paths=paths)
    # The rules of the log are checked on one machine only; a job says that it has checked none.
    local = replace(local, read=replace(local.read, checks=()), violations=(), answers=())
    return local, spark.audit(directory, settings, paths=paths, spark=session)


def test_real_log_directories(spark: SparkSession) -> None:
    local, by_spark = both(spark, Settings(), str(EXAMPLES))
    assert by_spark == local
    assert {finding.verdict for finding in local.findings} == {"hanging", "not_hanging"}


def fill(random_: random.Random, partition: PartitionLog, others: range) -> None:
    """Any mixture of data and markers, rolled, with holes."""
    for _ in range(random_.randrange(60)):
        producer_id = random_.choice(others)
        at = NOON - random_.randrange(10 * HOUR)
        epoch = random_.randrange(3)
        match random_.randrange(12):
            case 0 | 1 | 2 | 3:
                partition.data(producer_id, epoch, at=at, records=random_.randrange(1, 4))
            case 4 | 5:
                name = random_.choice(["COMMIT", "ABORT"])
                partition.marker(name, producer_id, epoch, at=at, coordinator_epoch=random_.randrange(5))
            case 6:
                partition.empty_marker(producer_id, epoch)
            case 7:
                partition.data(producer_id, transactional=False, at=at)
            case 8:
                partition.data(producer_id, epoch, at=at, append_time=at)
            case 9:
                partition.plain(at=at)
            case 10:
                partition.roll()
            case _:
                if random_.random() < 0.1:
                    partition.skip(random_.randrange(3))


def register(random_: random.Random, logs: LogDirectory) -> None:
    """Any records of the coordinator's, tombstones and unreadable ones among them."""
    for _ in range(60):
        name = random_.choice(["a", "b", "pay", "\udcff\udcfe", "ünïcode", "x" * 200])
        if random_.random() < 0.1:
            logs.id(name, None)
            continue
        logs.id(
            name,
            random_.choice(list(STATUS)),
            random_.randrange(PRODUCERS // 2),  # the others belong to an id by a previous or next one, or to none
            random_.randrange(3),
            *((f"topic{random_.randrange(8)}", 0) for _ in range(random_.randrange(4))),
            at=NOON - random_.randrange(10 * HOUR),
            timeout=random_.choice([MINUTE, 12 * HOUR, 2**31 - 1]),
            version=random_.randrange(3),
            previous=random_.randrange(-1, PRODUCERS),
            next=random_.randrange(-1, PRODUCERS),
        )
    if random_.random() < 0.3:
        logs.id_log("pay").records([Record(key=b"\0\0\0\x03pay", value=b"\0\x09", timestamp=NOON)])


def damage(random_: random.Random, root: Path) -> None:
    for path in sorted(root.rglob("*.log")):
        size = path.stat().st_size
        if size and random_.random() < 0.15:
            data = bytearray(path.read_bytes())
            data[random_.randrange(size)] ^= 1 << random_.randrange(8)
            path.write_bytes(data if random_.random() < 0.7 else data[: random_.randrange(size)])


@pytest.mark.parametrize("seed", range(4))
def test_logs_of_every_kind(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    """Several brokers' copies at once, whole in one half of the runs and damaged in the other."""
    random_ = random.Random(seed)
    paths = []
    for broker in range(3):
        logs = LogDirectory(tmp_path / f"broker-{broker}", ids=2)
        register(random_, logs)
        for number in range(8):
            start = random_.choice([0, 0, 100])
            partition = logs.partition(f"topic{number}", start=start)
            fill(random_, partition, range(PRODUCERS))
            logs.high_watermark(f"topic{number}", 0, start + random_.randrange(60))
            if start:
                partition.snapshot(*(entry(random_, n) for n in range(0, PRODUCERS, 3)))
        paths.append(logs.write())
        if seed % 2:
            damage(random_, logs.root)
    settings = Settings(transaction_state_partitions=2, as_of=NOON if seed < 2 else None)
    local, by_spark = both(spark, settings, *paths)
    assert local.findings
    assert by_spark == local


def entry(random_: random.Random, producer_id: int) -> ProducerEntry:
    start = random_.choice([-1, random_.randrange(130)])
    return ProducerEntry(
        producer_id=producer_id,
        epoch=random_.randrange(3),
        last_sequence=0,
        last_offset=random_.randrange(130),
        offset_delta=0,
        timestamp=NOON - random_.randrange(10 * HOUR),
        coordinator_epoch=random_.randrange(3),
        current_txn_first_offset=start,
    )


def test_logs_without_transactions(spark: SparkSession, tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    logs.partition("orders").plain()
    local, by_spark = both(spark, Settings(), logs.write())
    assert by_spark == local
    assert local.read.complete


def test_a_failing_job_is_one_sentence(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkawire.spark import queries
    from kafkawire.spark.session import SparkError

    monkeypatch.setattr(queries, "OPEN", "SELECT no_such_column FROM {facts}")
    logs = LogDirectory(tmp_path / "logs")
    logs.partition("orders").data(1)
    with pytest.raises(SparkError) as caught:
        both(spark, Settings(), logs.write())
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("the Spark job failed: ")
