"""The impact of open transactions in copied log directories, compared with what a reader gets."""

from __future__ import annotations

from pathlib import Path

import crc32c
import pytest

from kafkawire import logdir, transactions
from kafkawire.messages import ConfigRecord
from kafkawire.records import Batch, Record
from kafkawire.rows import Audit, Impact
from kafkawire.transactions import Replay, Settings, append_of, read_committed
from tests.audit_logs import NOON, LogDirectory, PartitionLog


def audit(logs: LogDirectory, **settings: int) -> Audit:
    path = logs.write()
    return transactions.audit(logdir.open(path), Settings(transaction_state_partitions=logs.ids, **settings))


def impact(logs: LogDirectory, topic: str = "orders", **settings: int) -> Impact:
    found = next(one for one in audit(logs, **settings).findings if one.topic == topic)
    assert found.impact is not None
    return found.impact


def batches(logs: LogDirectory) -> list[Batch]:
    (partition,) = (one for one in logdir.open(logs.write()).partitions if one.topic == "orders")
    return [one for one in partition if isinstance(one, Batch)]


def readable(logs: LogDirectory) -> int:
    """Records that a read_committed consumer gets."""
    found, replay, aborted = batches(logs), Replay(), []
    for one in found:
        append = append_of(one)
        ended = None if append is None else replay.add(append)
        if ended is not None and ended.aborted is not None:
            aborted.append(ended.aborted)
    stable = min((one.first_offset for one in replay.open()), default=None)
    return sum(one.record_count for one in read_committed(found, aborted, stable))


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    return LogDirectory(tmp_path / "logs")


@pytest.fixture
def orders(logs: LogDirectory) -> PartitionLog:
    return logs.partition("orders")


def held_back(orders: PartitionLog) -> None:
    """An open transaction with three records, before and between data of others, over three segments."""
    for _ in range(20):
        orders.plain(records=10)
    orders.roll()
    orders.data(1, records=2)
    for _ in range(300):
        orders.plain(records=3)
    orders.roll()
    orders.data(1)
    orders.data(2, records=5)
    orders.marker("COMMIT", 2)
    orders.plain(records=7)


def test_the_figures_come_true_with_an_abort(logs: LogDirectory, orders: PartitionLog) -> None:
    held_back(orders)
    logs.high_watermark("orders", 0, orders.end)
    before, readable_before, end = impact(logs), readable(logs), orders.end
    orders.marker("ABORT", 1)
    assert before.data is not None
    assert (before.data.records, before.data.first_offset, before.data.last_offset) == (3, 200, 1102)
    assert (before.held.start_offset, before.held.end_offset, before.held.estimated) == (200, end, False)
    assert before.held.records is not None
    assert readable(logs) == readable_before + before.held.records - before.data.records
    assert before.held.bytes == sum(one.size for one in batches(logs) if 200 <= one.base_offset < end)


def test_shows_the_first_records_of_each(logs: LogDirectory, orders: PartitionLog) -> None:
    held_back(orders)
    found = impact(logs, show_records=2).data
    assert found is not None
    assert [(one.offset, one.value) for one in found.shown] == [(200, "v0"), (201, "v1")]
    none = impact(logs).data
    assert none is not None
    assert none.shown == ()


def test_a_copy_without_a_checkpoint_counts_up_to_the_logs_end(logs: LogDirectory, orders: PartitionLog) -> None:
    held_back(orders)
    found = impact(logs)
    assert found.held.end_offset == orders.end
    assert any("high watermark" in text for text in found.unknown)


def test_damage_behind_its_start_makes_the_figures_estimates(logs: LogDirectory, orders: PartitionLog) -> None:
    held_back(orders)
    orders.segments[1][1][5000:5010] = b"\xff" * 10
    assert impact(logs).held.estimated


def test_compaction_is_held_where_the_cleaner_has_come_to(logs: LogDirectory) -> None:
    offsets = logs.partition("__consumer_offsets", 3)
    offsets.data(1)
    for number in range(100):
        offsets.records([Record(key=b"group-%d" % (number % 10), value=b"v" * 92, timestamp=0)])
    offsets.roll()
    offsets.plain()
    logs.checkpoint("cleaner-offset-checkpoint", "__consumer_offsets", 3, 0)
    logs.high_watermark("__consumer_offsets", 3, offsets.end)
    found = impact(logs, "__consumer_offsets").compaction
    assert found is not None
    assert (found.cleaned_offset, found.held_offset) == (0, 0)
    closed = len(offsets.segments[0][1])
    assert found.bytes == closed
    assert found.freed_bytes is not None
    assert 0.85 < found.freed_bytes / closed < 0.95  # 90 of 100 keys occur again


def test_a_topic_is_compacted_by_its_settings(logs: LogDirectory, orders: PartitionLog) -> None:
    held_back(orders)
    assert impact(logs).compaction is None
    log = logs.partition("__cluster_metadata")
    for name, value in (("cleanup.policy", "compact"), ("remote.storage.enable", "true"), ("retention.ms", "1")):
        config = ConfigRecord(resource_type=2, resource_name="orders", name=name, value=value)
        body = bytes((1, ConfigRecord.spec.api_key or 0, 0)) + config.encode(version=0)
        log.records([Record(value=body, timestamp=NOON)])
    found = impact(logs)
    assert found.compaction is not None
    assert (found.compaction.held_offset, found.retention) == (200, "held")


def test_records_that_cannot_be_read_are_named(logs: LogDirectory, orders: PartitionLog) -> None:
    """The batch is sound by its header and checksum, and what it holds is no record: no damage of the log shows it."""
    orders.data(1)
    orders.data(1)
    data = orders.segments[0][1]
    start = len(data) // 2
    data[start + 61] = 0x7F  # the length of its record
    data[start + 17 : start + 21] = crc32c.crc32c(bytes(data[start + 21 :])).to_bytes(4, "big")
    found = impact(logs, show_records=10)
    assert found.data is not None
    assert (len(found.data.shown), found.data.records, found.data.estimated) == (1, 2, False)
    (unknown,) = (one for one in found.unknown if "records of" in one)
    assert unknown.startswith("the records of the batch at offset 1: ")


def test_what_of_the_log_cannot_be_counted_is_named(logs: LogDirectory, orders: PartitionLog) -> None:
    orders.data(1)
    for _ in range(2):
        start = len(orders.segments[0][1])
        orders.plain()
        orders.segments[0][1][start + 16] = 9  # no version of a batch
        orders.plain()
    found = impact(logs)
    file = logs.root / "orders-0" / f"{0:020}.log"
    (unknown,) = (one for one in found.unknown if str(file) in one)
    assert unknown.startswith(f"{file}: at byte ")
    assert unknown.endswith("; and 1 more")
    assert found.held.estimated
