"""The work of an audit grows linearly with each thing that there can be many of (`tests.doubling`)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.messages import AbortedTxn
from kafkawire.transactions.auditing.replica_facts import check
from tests.audit_logs import HOUR, NOON, LogDirectory
from tests.doubling import assert_linear_steps


def segments(root: Path, n: int) -> None:
    logs = LogDirectory(root, ids=1)
    log = logs.partition("orders")
    for number in range(n):
        log.data(number % 5)
        log.marker("ABORT", number % 5)
        log.roll()
    logs.write()
    log.derive()


def partitions(root: Path, n: int) -> None:
    logs = LogDirectory(root, ids=1)
    for number in range(n):
        logs.partition("orders", number).data(number)
    logs.write()


def partitions_of_one_transaction(root: Path, n: int) -> None:
    """No record of its decision was copied."""
    logs = LogDirectory(root, ids=1)
    for number in range(n):
        log = logs.partition("orders", number)
        log.data(7)
        log.marker("COMMIT" if number == n - 1 else "ABORT", 7, 1)
    logs.write()


def partitions_of_ids(root: Path, n: int) -> None:
    """As many as there are open transactions."""
    logs = LogDirectory(root, ids=n)
    for number in range(n):
        logs.partition("orders", number).data(number)
    logs.write()


def producers(root: Path, n: int) -> None:
    logs = LogDirectory(root, ids=1)
    log = logs.partition("orders")
    for number in range(n):
        log.data(number)
        if number % 2:
            log.marker("ABORT", number)
    logs.write()
    log.derive()


def aborts_of_deleted_transactions(root: Path, n: int) -> None:
    """The index alone knows where they began; offsets are missing between their markers."""
    logs = LogDirectory(root, ids=1)
    log = logs.partition("orders", start=n)
    index = b""
    for number in range(n):
        log.skip(1)
        marker = log.marker("ABORT", number)
        index += AbortedTxn(number, number, marker, number).encode_prefixed(version=0)
    logs.write()
    (log.directory / f"{n:020}.txnindex").write_bytes(index)


def files(root: Path, n: int) -> None:
    """As many snapshots as producers, which brokers have forgotten by the next one."""
    logs = LogDirectory(root, ids=1)
    log = logs.partition("orders")
    for number in range(n):
        log.data(number)
        log.marker("COMMIT", number)
        log.roll()
        log.snapshot()
    logs.write()


def brokers(root: Path, n: int) -> None:
    """Of one cluster, each with a copy of its metadata."""
    for number in range(n):
        logs = LogDirectory(root / f"{number}", ids=1)
        logs.partition("orders", number).data(number)
        logs.partition("__cluster_metadata").plain()
        logs.write()


def clusters(root: Path, n: int) -> None:
    brokers(root, n)
    for number in range(n):
        (root / f"{number}/meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={number}\n")


def replicas(root: Path, n: int) -> None:
    """Of one partition."""
    for number in range(n):
        logs = LogDirectory(root / f"{number}", ids=1)
        logs.high_watermark("orders", 0, 1)
        logs.partition("orders").data(7)
        logs.write()


def ids(root: Path, n: int) -> None:
    logs = LogDirectory(root, ids=3)
    log = logs.partition("orders")
    for number in range(n):
        logs.id(f"id-{number}", "Ongoing", number, 0, ("orders", 0))
        log.data(number)
    logs.write()


def decisions(root: Path, n: int, *, version: int = 0, apart_ms: int = 0, markers_ms: int = 0) -> None:
    """Of one id, whose transactions have one epoch."""
    logs = LogDirectory(root, ids=1, compacted=False)
    log = logs.partition("orders")
    for number in range(n):
        at = NOON + number * apart_ms
        outcome = "Commit" if number % 3 else "Abort"
        logs.id("pay", "Ongoing", 7, 0, ("orders", 0), at=at, version=version)
        logs.id("pay", f"Prepare{outcome}", 7, version // 2, ("orders", 0), at=at, version=version)
        log.data(7, at=at)
        log.marker(outcome.upper(), 7, version // 2, at=at + markers_ms)
        logs.id("pay", f"Complete{outcome}", 7, version // 2, at=at, version=version)
    logs.write()


def decisions_at_one_time(root: Path, n: int) -> None:
    decisions(root, n)


def decisions_at_one_time_in_version_2(root: Path, n: int) -> None:
    decisions(root, n, version=2)


def decisions_within_the_difference_of_clocks(root: Path, n: int) -> None:
    decisions(root, n, apart_ms=1)


def decisions_before_all_markers(root: Path, n: int) -> None:
    decisions(root, n, apart_ms=10, markers_ms=HOUR)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "n"),
    [
        (segments, 40),  # snapshots of the first segments have fewer producers
        (partitions, 10),
        (partitions_of_one_transaction, 20),
        (partitions_of_ids, 10),
        (producers, 40),
        (aborts_of_deleted_transactions, 20),
        (files, 30),
        (brokers, 8),
        (clusters, 5),
        (replicas, 8),
        (ids, 40),
        (decisions_at_one_time, 30),
        (decisions_at_one_time_in_version_2, 30),
        (decisions_within_the_difference_of_clocks, 30),
        (decisions_before_all_markers, 30),
    ],
)
def test_an_audit_grows_linearly(tmp_path: Path, make: Callable[[Path, int], None], n: int) -> None:
    def prepare(size: int) -> Callable[[], object]:
        root = tmp_path / str(size)
        shutil.rmtree(root, ignore_errors=True)
        make(root, size)
        return lambda: transactions.audit(logdir.open(root))

    assert_linear_steps(prepare, n)


@pytest.mark.slow
def test_checking_one_partition_grows_linearly_with_its_segments(tmp_path: Path) -> None:
    def prepare(size: int) -> Callable[[], object]:
        segments(tmp_path / str(size), size)
        (found,) = (one for one in logdir.open(tmp_path / str(size)).partitions if one.topic == "orders")
        return lambda: check(found)

    assert_linear_steps(prepare, 40)  # snapshots of the first segments have fewer producers
