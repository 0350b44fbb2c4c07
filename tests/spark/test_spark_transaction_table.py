"""The table of transactions has what a replay of each partition finds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkawire import logdir
from kafkawire.records import Batch
from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.transactions import Append
from kafkawire.transactions.coordinator.coordinator_log import IdLog, coordinator_records, registration
from kafkawire.transactions.coordinator.coordinator_rules import state_name
from kafkawire.transactions.facts import CoordinatorRecord, Registration
from kafkawire.transactions.parts.replica_files import place_of
from kafkawire.transactions.parts.segment_scan import Appends, read_part
from tests.audit_logs import HOUR, MINUTE, NOON, LogDirectory
from tests.random_logs import PRODUCERS, damage, fill, register

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"
STATES = {None: "open", "COMMIT": "committed", "ABORT": "aborted", EMPTY: "ended"}
COLUMNS = (
    "directory", "topic", "partition", "producer_id", "producer_epoch", "first_offset", "last_offset", "batches",
    "first_timestamp", "last_timestamp", "state", "marker_offset", "marker_epoch", "marker_timestamp",
)  # fmt: skip

Row = tuple[Any, ...]


def replayed(path: str) -> list[Row]:
    """The transactions of a directory, batch by batch."""
    return [row for partition in logdir.open(path).partitions for row in _of_partition(partition)]


def appends_of(file: logdir.LogFile) -> Iterator[Append]:
    """The batches of producers in a segment."""
    for fact in read_part(file, None):
        if isinstance(fact, Appends):
            yield from fact


def _of_partition(partition: logdir.Partition) -> Iterator[Row]:
    place = place_of(partition)
    begun: dict[int, list[Append]] = {}
    for file in partition.segments:
        for append in appends_of(file):
            if not append.transactional or append.control == MALFORMED:
                continue
            if append.control is None:
                begun.setdefault(append.producer_id, []).append(append)
            elif append.producer_id in begun:
                yield (place.copy, place.topic, place.partition, *_row(begun.pop(append.producer_id), append))
    for data in begun.values():
        yield (place.copy, place.topic, place.partition, *_row(data, None))


def _row(data: list[Append], marker: Append | None) -> Row:
    first, last = data[0], data[-1]
    ended = (marker.base_offset, marker.producer_epoch, marker.timestamp) if marker else (None, None, None)
    return (
        first.producer_id, last.producer_epoch, first.base_offset, last.last_offset, len(data), first.timestamp,
        last.timestamp, STATES[marker.control if marker else None], *ended,
    )  # fmt: skip


def table(session: SparkSession, *paths: str) -> list[dict[str, Any]]:
    from kafkawire import spark

    return [row.asDict() for row in spark.transactions(paths, session).collect()]


def test_all_transactions_of_a_fleet(spark: SparkSession, tmp_path: Path) -> None:
    random_ = random.Random(3)
    paths = []
    for broker in range(3):
        logs = LogDirectory(tmp_path / f"broker-{broker}", ids=2)
        for number in range(6):
            fill(random_, logs.partition(f"topic{number}", start=random_.choice([0, 100])), range(PRODUCERS))
        paths.append(logs.write())
    damage(random_, tmp_path / "broker-2")
    expected = sorted((row for path in paths for row in replayed(path)), key=repr)
    found = table(spark, *paths, str(EXAMPLES))
    own = [row for row in found if row["directory"] in paths]
    assert {row["state"] for row in own} == set(STATES.values())
    assert sorted((tuple(row[name] for name in COLUMNS) for row in own), key=repr) == expected
    examples = [tuple(row[name] for name in COLUMNS) for row in found if row["directory"] not in paths]
    assert sorted(examples, key=repr) == sorted(replayed(str(EXAMPLES)), key=repr)


def test_what_the_coordinator_says(spark: SparkSession, tmp_path: Path) -> None:
    """The newest record of the id that a producer id belongs to, as on one machine."""
    random_ = random.Random(5)
    logs = LogDirectory(tmp_path / "logs", ids=1)
    register(random_, logs)
    fill(random_, logs.partition("orders"), range(PRODUCERS))
    directory = logdir.open(logs.write())
    log = IdLog()
    (state,) = (partition for partition in directory.partitions if partition.topic == "__transaction_state")
    for file in state.segments:
        for batch in file.batches():
            assert isinstance(batch, Batch)
            for record in coordinator_records(batch):
                assert isinstance(record, CoordinatorRecord)
                found = registration(place_of(state), record)
                assert isinstance(found, Registration)
                log.add(found)
    rows = table(spark, str(logs.root))
    assert rows
    for row in rows:
        owner = log.owner(row["producer_id"])
        value = owner.newest.value if owner else None
        assert row["coordinator_state"] == (value and state_name(value.transaction_status))
        assert row["coordinator_producer_epoch"] == (value and value.producer_epoch)
        assert row["transaction_timeout_ms"] == (value and value.transaction_timeout_ms)
        assert row["transaction_start_timestamp"] == (value and value.transaction_start_timestamp_ms)


def test_the_row_of_an_aborted_transaction(spark: SparkSession, tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=1)
    orders = logs.partition("orders")
    orders.data(7, 3, at=NOON, records=2)
    orders.data(7, 3, at=NOON + MINUTE)
    orders.marker("ABORT", 7, 4, at=NOON + HOUR, coordinator_epoch=5)
    orders.marker("ABORT", 7, 4, at=NOON + HOUR)  # of nothing
    logs.id("pay", "CompleteAbort", 7, 4, at=NOON + HOUR, begun=NOON)
    (row,) = table(spark, logs.write())
    assert row == {
        "cluster": "test",
        "directory": str(logs.root),
        "topic": "orders",
        "partition": 0,
        "producer_id": 7,
        "producer_epoch": 3,
        "first_offset": 0,
        "last_offset": 2,
        "batches": 2,
        "first_timestamp": NOON,
        "last_timestamp": NOON + MINUTE,
        "state": "aborted",
        "outcome": "ABORT",
        "marker_offset": 3,
        "marker_epoch": 4,
        "marker_timestamp": NOON + HOUR,
        "coordinator_epoch": 5,
        "duration_ms": HOUR,
        "transactional_id": "pay",
        "coordinator_state": "CompleteAbort",
        "coordinator_producer_id": 7,
        "coordinator_producer_epoch": 4,
        "transaction_timeout_ms": 15 * MINUTE,
        "transaction_start_timestamp": NOON,
        "transaction_last_update_timestamp": NOON + HOUR,
    }
