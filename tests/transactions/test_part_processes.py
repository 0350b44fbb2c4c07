"""Logs read by several processes: the same facts, and clear errors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir, transactions
from kafkawire.logdir import Unreadable
from kafkawire.transactions.auditing import local_audit
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaMerge
from kafkawire.transactions.auditing.replica_workers import ProcessError
from tests.audit_logs import HOUR, NOON, LogDirectory

pytestmark = pytest.mark.slow


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    logs = LogDirectory(tmp_path / "logs", ids=2)
    for number in range(5):
        log = logs.partition("orders", number)
        for producer in range(20):
            log.data(producer, at=NOON - 3 * HOUR)
            log.marker("ABORT", producer)
            log.roll()
        log.data(77, at=NOON - 3 * HOUR)
    logs.id("pay", "CompleteCommit", 77, 1)
    logs.write()
    for number in range(5):
        logs.partition("orders", number).derive()
    return logs


@pytest.fixture(autouse=True)
def read_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the native engine is absent: other processes read, and small logs, too."""
    monkeypatch.setattr(local_audit, "BYTES_A_JOB", 1)
    monkeypatch.setattr(local_audit, "THREADS", False)


@pytest.mark.parametrize("jobs", [2, 3])
def test_several_processes_give_the_audit_of_one(logs: LogDirectory, jobs: int) -> None:
    directory = logdir.open(logs.root)
    alone: list[int] = []
    shared: list[int] = []
    expected = transactions.audit(directory, progress=alone.append)
    assert transactions.audit(directory, progress=shared.append, jobs=jobs) == expected
    assert sum(shared) == sum(alone) > 0
    assert len(expected.findings) == 5


class BrokenReplica(AuditedReplica):
    """A replica whose reading raises, in whatever process."""

    @property
    def id_expiration_ms(self) -> int | None:  # type: ignore[override]
        raise IndexError("out of range")


def test_an_unexpected_error_in_another_process_costs_its_replica(logs: LogDirectory) -> None:
    partitions = logdir.open(logs.root).partitions
    some = [(BrokenReplica if one.topic != "orders" else AuditedReplica)(one) for one in partitions]
    found = list(local_audit.read_replicas(some, 2))
    wrong = [one for one in found if isinstance(one, Unreadable)]
    assert [(one.path, one.reason) for one in wrong] == [
        (str(logs.root / "__transaction_state-0"), "unexpected IndexError: out of range")
    ]
    assert len(found) == len(partitions) > 5


class Killed(AuditedReplica):
    """A replica whose reader is ended from outside."""

    @property
    def id_expiration_ms(self) -> int | None:  # type: ignore[override]
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process goes on after SIGKILL")


def test_reports_a_process_that_was_ended(logs: LogDirectory) -> None:
    partitions = logdir.open(logs.root).partitions
    some = [(Killed if one.topic != "orders" else AuditedReplica)(one) for one in partitions]
    with pytest.raises(ProcessError, match="perhaps because memory ran out: use fewer"):
        list(local_audit.read_replicas(some, 2))


def test_processes_read_in_other_processes(logs: LogDirectory) -> None:
    partitions = logdir.open(logs.root).partitions
    found = list(local_audit.read_replicas([ReadBy(one) for one in partitions], 2))
    readers = {one.reason for one in found if isinstance(one, Unreadable)}
    assert readers
    assert f"unexpected IndexError: read by {os.getpid()}" not in readers


class ReadBy(AuditedReplica):
    """A replica whose reading names its process."""

    @property
    def id_expiration_ms(self) -> int | None:  # type: ignore[override]
        raise IndexError(f"read by {os.getpid()}")


@pytest.mark.parametrize("where", ["read", "_append", "facts"])
def test_an_unexpected_error_costs_the_replica_that_it_is_raised_in(
    logs: LogDirectory, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have their findings, and the error is named with the replica."""
    bad = str(logs.root / "orders-3")
    monkeypatch.setattr(ReplicaMerge, where, _raising_in(bad, getattr(ReplicaMerge, where)))
    found = transactions.audit(logdir.open(logs.root), jobs=1)
    assert {finding.partition for finding in found.findings} == {0, 1, 2, 4}
    assert not found.read.complete
    assert f"{bad} was not read: unexpected IndexError: out of range" in found.read.gaps


def _raising_in(path: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def raising(self: ReplicaMerge, *args: Any) -> Any:
        if self._replica.partition.path == path:
            raise IndexError("out of range")
        return method(self, *args)

    return raising
