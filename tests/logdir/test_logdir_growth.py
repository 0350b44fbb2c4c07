"""The work of opening and dumping log directories grows linearly with what is in them (`tests.doubling`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.logdir.file_rows import rows_of
from kafkawire.logdir.seek import wanted_files
from kafkawire.logdir.selection import Selection
from kafkawire.logdir.stats import by_partition, stats_of
from kafkawire.messages.producer_snapshot import ProducerEntry
from tests.audit_logs import LogDirectory, open_entry
from tests.doubling import assert_linear_steps


def segments(root: Path, n: int) -> None:
    log = LogDirectory(root, ids=0).partition("orders")
    for _ in range(n):
        log.data(7)
        log.roll()
    log.write()


def partitions(root: Path, n: int) -> None:
    """Each named in the checkpoints."""
    logs = LogDirectory(root, ids=0)
    for number in range(n):
        logs.partition("orders", number).data(7)
        logs.high_watermark("orders", number, 1)
        logs.checkpoint("log-start-offset-checkpoint", "orders", number, 0)
    logs.write()


def brokers(root: Path, n: int) -> None:
    for number in range(n):
        partitions(root / str(number), 1)


def batches(root: Path, n: int) -> None:
    """Of as many producers, every other one compressed."""
    log = LogDirectory(root, ids=0).partition("orders")
    for number in range(n):
        log.data(number, codec="gzip" if number % 2 else "none")
    log.write()


def records(root: Path, n: int) -> None:
    """Of one batch."""
    log = LogDirectory(root, ids=0).partition("orders")
    log.data(7, records=n)
    log.write()


def producers(root: Path, n: int) -> None:
    """In a snapshot."""
    log = LogDirectory(root, ids=0).partition("orders")
    entries: list[ProducerEntry] = [open_entry(number, number, number) for number in range(n)]
    log.snapshot(*entries, offset=n)
    log.write()


def damage(root: Path, n: int) -> None:
    """Bytes that are no batch, between batches."""
    log = LogDirectory(root, ids=0).partition("orders")
    for _ in range(n):
        log.data(7)
        log.segments[-1][1].extend(b"no batch")
    log.write()


MADE = [(segments, 20), (partitions, 10), (brokers, 10), (batches, 40), (records, 100), (producers, 50), (damage, 250)]


def opened(root: Path) -> None:
    for partition in logdir.open(root).partitions:
        assert partition.segments is not None
        assert partition.high_watermark is None or partition.log_start_offset == 0


def dumped(root: Path) -> None:
    for file in wanted_files(logdir.open(root).files, Selection(offsets=(1, None))):
        list(rows_of(file))


def counted(root: Path) -> None:
    for group in by_partition(logdir.open(root).files):
        list(stats_of(group))


@pytest.mark.slow
@pytest.mark.parametrize("work", [opened, dumped, counted])
@pytest.mark.parametrize(("make", "n"), MADE)
def test_work_grows_linearly(
    tmp_path: Path, make: Callable[[Path, int], None], n: int, work: Callable[[Path], None]
) -> None:
    def prepare(size: int) -> Callable[[], object]:
        root = tmp_path / str(size)
        if not root.exists():
            make(root, size)
        return lambda: work(root)

    # Behind damage a window of 1 KiB is searched, which is shorter at the end of the file.
    assert_linear_steps(prepare, n, most=1.2 if make is damage else 1.03)
