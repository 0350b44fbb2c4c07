"""Logs read by several processes: the same facts, and clear errors."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir, transactions
from kafkawire.logdir import LogFile, Unreadable
from kafkawire.transactions.auditing import local_audit, replica_processes
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaMerge, parts_of
from kafkawire.transactions.parts.part_columns import PartColumns
from kafkawire.transactions.parts.part_processes import ProcessError, Work, in_order
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


def read_in_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the native engine is absent: other processes read, and small logs, too."""
    monkeypatch.setattr(local_audit, "BYTES_A_JOB", 1)
    monkeypatch.setattr(local_audit, "THREADS", False)
    monkeypatch.setattr(replica_processes, "SHARES", False)


@pytest.fixture(params=["whole", "parts"])
def given_to_others(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other processes read small logs, too: whole replicas, or parts of replicas."""
    read_in_processes(monkeypatch)
    if request.param == "parts":
        monkeypatch.setattr(replica_processes, "PART_BYTES", 64)


@pytest.mark.usefixtures("given_to_others")
@pytest.mark.parametrize("jobs", [2, 3])
def test_several_processes_give_the_audit_of_one(logs: LogDirectory, jobs: int) -> None:
    directory = logdir.open(logs.root)
    alone: list[int] = []
    shared: list[int] = []
    expected = transactions.audit(directory, progress=alone.append)
    assert transactions.audit(directory, progress=shared.append, jobs=jobs) == expected
    assert sum(shared) == sum(alone) > 0  # of parts of other sizes, where a process is given whole replicas
    assert len(expected.findings) == 5


def doubled(number: int) -> int:
    return 2 * number


def process_of(number: int) -> int:
    return os.getpid()


@pytest.mark.parametrize("count", [0, 1, 50])
def test_results_come_in_order_from_all_processes(count: int) -> None:
    work = Work(here=doubled, there=doubled, back=lambda sent: sent)
    assert list(in_order(range(count), work, 3)) == [2 * number for number in range(count)]


@pytest.mark.parametrize("shares", [False, True])
def test_this_process_works_while_others_start(shares: bool) -> None:
    work = Work(here=process_of, there=process_of, back=lambda sent: sent)
    found = list(in_order(range(20), work, 2, shares=shares))
    assert (found[0] == os.getpid()) is shares


class BrokenReplica(AuditedReplica):
    """A replica whose reading raises, in whatever process."""

    @property
    def id_expiration_ms(self) -> int | None:  # type: ignore[override]
        raise IndexError("out of range")


def test_an_unexpected_error_in_another_process_costs_its_replica(
    logs: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_in_processes(monkeypatch)
    partitions = logdir.open(logs.root).partitions
    some = [(BrokenReplica if one.topic != "orders" else AuditedReplica)(one) for one in partitions]
    found = list(local_audit.read_replicas(some, 2))
    wrong = [one for one in found if isinstance(one, Unreadable)]
    assert [(one.path, one.reason) for one in wrong] == [
        (str(logs.root / "__transaction_state-0"), "unexpected IndexError: out of range")
    ]
    assert len(found) == len(partitions) > 5


def tasks(logs: LogDirectory) -> list[PartTask]:
    return [task for one in logdir.open(logs.root).partitions for _, task in parts_of(AuditedReplica(one))]


class Killed(PartTask):
    """A part whose reader is ended from outside."""

    def read(self) -> PartColumns:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("a process goes on after SIGKILL")


def test_reports_a_process_that_was_ended(logs: LogDirectory) -> None:
    some: list[PartTask] = tasks(logs)
    file: LogFile = some[3].file
    some[3] = Killed(file, 0, 1, 1)
    with pytest.raises(ProcessError, match="perhaps because memory ran out: use fewer"):
        list(in_order([[task] for task in some], replica_processes._WORK, 2, shares=False))


@pytest.mark.parametrize("where", ["part", "merge", "facts"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_an_unexpected_error_costs_the_replica_that_it_is_raised_in(
    logs: LogDirectory, jobs: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have their findings, and the error is named with the replica."""
    read_in_processes(monkeypatch)
    if jobs > 1:  # parts are read elsewhere and merged here
        monkeypatch.setattr(replica_processes, "PART_BYTES", 64)
    bad = str(logs.root / "orders-3")
    if where == "part" and jobs == 1:
        monkeypatch.setattr(ReplicaMerge, "read", _raising_in(bad, ReplicaMerge.read))
    elif where == "part":
        monkeypatch.setattr(replica_processes, "parts_of", _with_a_broken_part)
    elif where == "merge":
        monkeypatch.setattr(ReplicaMerge, "_append", _raising_in(bad, ReplicaMerge._append))
    else:
        monkeypatch.setattr(ReplicaMerge, "facts", _raising_in(bad, ReplicaMerge.facts))
    found = transactions.audit(logdir.open(logs.root), jobs=jobs)
    assert {finding.partition for finding in found.findings} == {0, 1, 2, 4}
    assert not found.read.complete
    assert f"{bad} was not read: unexpected IndexError: out of range" in found.read.gaps


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_replica_whose_parts_cannot_be_listed_is_read_as_a_whole(
    logs: LogDirectory, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reading is what gives the reason, if there is one; the others are read in any case."""
    expected = transactions.audit(logdir.open(logs.root))
    read_in_processes(monkeypatch)
    monkeypatch.setattr(replica_processes, "parts_of", _without_one)
    assert transactions.audit(logdir.open(logs.root), jobs=jobs) == expected
    assert {finding.partition for finding in expected.findings} == {0, 1, 2, 3, 4}


def _without_one(replica: AuditedReplica, part_bytes: int) -> Iterator[tuple[int, PartTask]]:
    if replica.partition.path.endswith("orders-3"):
        raise IndexError("out of range")
    yield from parts_of(replica, part_bytes)


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
