"""Logs read by several processes: the same facts, and clear errors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir, transactions
from kafkawire.logdir import LogFile
from kafkawire.transactions.auditing import local_audit
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaMerge, parts_of
from kafkawire.transactions.parts.part_columns import PartColumns
from kafkawire.transactions.parts.part_processes import ProcessError, parts
from kafkawire.transactions.parts.part_scan import PartTask
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


@pytest.mark.parametrize("jobs", [2, 3])
def test_several_processes_give_the_audit_of_one(
    logs: LogDirectory, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_audit, "BYTES_A_JOB", 1)
    directory = logdir.open(logs.root)
    alone: list[int] = []
    shared: list[int] = []
    expected = transactions.audit(directory, progress=alone.append)
    assert transactions.audit(directory, progress=shared.append, jobs=jobs) == expected
    assert shared == alone
    assert len(expected.findings) == 5


def tasks(logs: LogDirectory) -> list[PartTask]:
    return [task for one in logdir.open(logs.root).partitions for _, task in parts_of(AuditedReplica(one))]


class Killed(PartTask):
    """A part whose reader is ended from outside."""

    def read(self) -> PartColumns:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def test_reports_a_process_that_was_ended(logs: LogDirectory) -> None:
    some: list[PartTask] = tasks(logs)
    file: LogFile = some[3].file
    some[3] = Killed(file, 0, 1, 1)
    with pytest.raises(ProcessError, match="perhaps because memory ran out: use fewer"):
        list(parts(some, 2))


@pytest.mark.parametrize("where", ["part", "merge", "facts"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_unexpected_error_costs_the_replica_that_it_is_raised_in(
    logs: LogDirectory, jobs: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have their findings, and the error is named with the replica."""
    monkeypatch.setattr(local_audit, "BYTES_A_JOB", 1)
    bad = str(logs.root / "orders-3")
    if where == "part":
        monkeypatch.setattr(local_audit, "parts_of", _with_a_broken_part)
    elif where == "merge":
        monkeypatch.setattr(ReplicaMerge, "take", _raising_in(bad, ReplicaMerge.take))
    else:
        monkeypatch.setattr(ReplicaMerge, "facts", _raising_in(bad, ReplicaMerge.facts))
    found = transactions.audit(logdir.open(logs.root), jobs=jobs)
    assert {finding.partition for finding in found.findings} == {0, 1, 2, 4}
    assert not found.read.complete
    assert f"{bad} was not read: unexpected IndexError: out of range" in found.read.gaps


class Broken(PartTask):
    """A part whose reading raises."""

    def read(self) -> PartColumns:
        raise IndexError("out of range")


def _with_a_broken_part(replica: AuditedReplica, part_bytes: int) -> Iterator[tuple[int, PartTask]]:
    for segment, task in parts_of(replica, part_bytes):
        bad = replica.partition.path.endswith("orders-3") and segment == 1
        yield segment, Broken(task.file, 0, 1, task.size) if bad else task


def _raising_in(path: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def raising(self: ReplicaMerge, *args: Any) -> Any:
        if self._replica.partition.path == path:
            raise IndexError("out of range")
        return method(self, *args)

    return raising
