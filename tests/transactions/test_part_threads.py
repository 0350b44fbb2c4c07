"""Logs read by several threads: the facts of one, whatever is in the logs and whatever happens in the meantime."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import logdir, transactions
from kafkawire.logdir import LogFile, Unreadable
from kafkawire.records import Record, build
from kafkawire.transactions.auditing import local_audit, replica_workers
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge
from kafkawire.transactions.auditing.replica_reading import outcome_of
from kafkawire.transactions.log import endings
from kafkawire.transactions.log.endings import Each, Endings, JoinedEndings
from kafkawire.transactions.parts import cut_parts
from kafkawire.transactions.parts.part_scan import read_range
from kafkawire.transactions.parts.part_threads import Stopped, Threads
from kafkawire.wire.backend import native
from tests.audit_logs import HOUR, NOON, LogDirectory
from tests.random_logs import random_partitions
from tests.references.sequential_replay import comparable
from tests.transactions.schedules import Schedule, schedules
from tests.transactions.test_part_scan import EXAMPLES, damaged, long_log, write, write_segments
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

pytestmark = pytest.mark.slow

NAME = "kafkawire-log"
#: By default.
_THREADS = local_audit.THREADS


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several threads read small logs, too, in small parts."""
    monkeypatch.setattr(local_audit, "BYTES_A_JOB", 1)
    monkeypatch.setattr(local_audit, "THREADS", True)
    monkeypatch.setattr(replica_workers, "PART_BYTES", 300)


@pytest.fixture
def read_on(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where segments were read in one go from, after parts that could not be taken."""
    read, found = ReplicaMerge.read, list[int]()

    def noted(self: ReplicaMerge, segment: int, seen: Any = None, start: int = 0, size: int = 0) -> None:
        found.append(start)
        read(self, segment, seen, start, size)

    monkeypatch.setattr(ReplicaMerge, "read", noted)
    return found


def facts(path: str | Path, jobs: int) -> list[Any]:
    """The facts of each replica, in a form that can be compared."""
    found = local_audit.read_replicas([AuditedReplica(one) for one in logdir.open(path).partitions], jobs)
    return [comparable(one) if isinstance(one, ReplicaFacts) else one for one in found]


def compare(path: str | Path) -> None:
    alone = facts(path, 1)
    assert facts(path, 2) == alone
    assert facts(path, 3) == alone
    directory = logdir.open(path)
    assert transactions.audit(directory, jobs=2) == transactions.audit(directory)


def test_threads_read_where_the_native_engine_is() -> None:
    assert native is not None
    assert _THREADS


@pytest.mark.parametrize("seed", range(16))
def test_any_batches_and_damage(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(seed)
    monkeypatch.setattr(replica_workers, "PART_BYTES", random_.choice([70, 300, 1000]))
    compare(random_partitions(random_, tmp_path / "logs", seed, log_starts=True).root)


def test_directories_that_brokers_wrote() -> None:
    for root in (EXAMPLES, *map(unpacked, [*LOG_DIRECTORIES, "read-committed", "hanging-transactions"])):
        compare(root)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(schedules(most=90), st.integers(0, 2**32))
def test_damaged_and_compacted_logs(tmp_path: Path, schedule: Schedule, seed: int) -> None:
    write_segments(tmp_path / "logs", damaged(schedule, random.Random(seed)))
    compare(tmp_path / "logs")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(schedules(most=90))
def test_zeros_after_the_last_batch(tmp_path: Path, schedule: Schedule) -> None:
    segments = {base: data + bytes(2000) for base, data in schedule.segments().items()}
    write_segments(tmp_path / "logs", segments)
    compare(tmp_path / "logs")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(schedules(most=90))
def test_a_sound_log_is_read_once(tmp_path: Path, read_on: list[int], schedule: Schedule) -> None:
    write(tmp_path / "logs", schedule)
    read_on.clear()
    facts(tmp_path / "logs", 2)
    assert not any(read_on)


@pytest.mark.parametrize("batches", [1, 3])
def test_a_batch_in_the_value_of_a_record_is_no_place_to_cut(
    tmp_path: Path, batches: int, read_on: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checksum proves it, and so do those of more after it."""
    monkeypatch.setattr(replica_workers, "PART_BYTES", 1000)
    logs = LogDirectory(tmp_path / "logs", ids=0)
    log = logs.partition("orders")
    long_log(log, 10)
    inner = b"".join(
        build([Record(key=b"k", value=bytes(300), timestamp=NOON)], base_offset=10_000 + at, producer_id=5000 + at,
              producer_epoch=0, base_sequence=0, transactional=True)
        for at in range(batches)
    )  # fmt: skip
    record = Record(key=b"k", value=bytes(900) + inner + bytes(1500), timestamp=NOON)
    start = len(log.segments[-1][1])
    log._append(build([record], base_offset=log.end, producer_id=7, producer_epoch=0, base_sequence=0), 1)
    long_log(log, 10)
    logs.write()
    compare(logs.root)
    assert any(start - 1000 < position <= start for position in read_on), (start, read_on)


def test_a_part_that_cannot_be_read_is_read_by_the_replicas_own_thread(
    tmp_path: Path, read_on: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    long_log(logs.partition("orders"), 30)
    logs.write()
    expected = facts(logs.root, 1)
    read_on.clear()
    read = read_range

    def broken(file: LogFile, start: int = 0, end: int | None = None, size: int = 0) -> Any:
        if start > 1000:
            raise OSError(5, "Input/output error", file.path)
        return read(file, start, end, size)

    monkeypatch.setattr(cut_parts, "read_range", broken)
    assert facts(logs.root, 2) == expected
    (position,) = read_on
    assert position > 1000


def test_a_file_that_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is opened, not when it is listed."""
    logs = LogDirectory(tmp_path / "logs", ids=0)
    for number in range(2):
        log = logs.partition("orders", number)
        long_log(log, 20)
        log.roll()
        long_log(log, 20)
    logs.write()
    directory = logdir.open(logs.root)
    opened = LogFile.raw

    def gone(self: LogFile, path: str) -> Any:
        if path.endswith(".log") and "orders-1" in path and "0" * 20 not in path:
            raise FileNotFoundError(2, "No such file or directory", path)
        return opened(self, path)

    monkeypatch.setattr(LogFile, "raw", gone)
    alone, together = transactions.audit(directory), transactions.audit(directory, jobs=2)
    assert together == alone
    assert [damage.reason for damage in together.damage] == ["unreadable"]


@pytest.mark.parametrize("seed", range(0, 6, 2))
def test_ended_transactions_are_grouped_side_by_side(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In groups of few producer ids, while others are judged."""
    monkeypatch.setattr(endings, "_AT_ONCE", 5)
    made, threads = JoinedEndings.groups, set[str]()

    def noted(found: Iterable[Endings], each: Each) -> Iterator[JoinedEndings]:
        def in_thread(group: Any, numbers: range) -> Iterator[Any]:
            def work(number: int) -> Any:
                threads.add(threading.current_thread().name)
                time.sleep(0.01)
                return group(number)

            return each(work, numbers)

        return made(found, in_thread)

    logs = random_partitions(random.Random(seed), tmp_path / "logs", seed)
    directory = logdir.open(logs.root)
    alone = transactions.audit(directory)
    monkeypatch.setattr(JoinedEndings, "groups", noted)
    assert transactions.audit(directory) == alone
    assert threads == {threading.current_thread().name}
    assert transactions.audit(directory, jobs=2) == alone
    assert len(threads) == 2


def test_progress_is_reported_by_the_callers_thread(tmp_path: Path) -> None:
    logs = random_partitions(random.Random(2), tmp_path / "logs", 2)
    directory = logdir.open(logs.root)
    sizes: list[int] = []
    threads: set[str] = set()

    def progress(size: int) -> None:
        sizes.append(size)
        threads.add(threading.current_thread().name)

    audit = transactions.audit(directory, jobs=2, progress=progress)
    assert sum(sizes) == audit.read.bytes > 0
    assert threads == {threading.current_thread().name}


@pytest.mark.parametrize("where", ["_append", "facts"])
def test_an_unexpected_error_costs_its_replica(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=2)
    for number in range(5):
        log = logs.partition("orders", number)
        long_log(log, 20)
        log.data(77, at=NOON - 3 * HOUR)
    logs.write()
    bad, method = str(logs.root / "orders-3"), getattr(ReplicaMerge, where)

    def raising(self: ReplicaMerge, *args: Any) -> Any:
        if self._replica.partition.path == bad:
            raise IndexError("out of range")
        return method(self, *args)

    monkeypatch.setattr(ReplicaMerge, where, raising)
    found = transactions.audit(logdir.open(logs.root), jobs=2)
    assert {finding.partition for finding in found.findings} == {0, 1, 2, 4}
    assert f"{bad} was not read: unexpected IndexError: out of range" in found.read.gaps


def running() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(NAME)]


def wait_for_the_end() -> None:
    deadline = time.monotonic() + 30
    while running() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not running()


def test_ctrl_c_ends_the_audit_and_its_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    for number in range(5):
        long_log(logs.partition("orders", number), 20)
    logs.write()
    read, reading, resumed = read_range, threading.Event(), threading.Event()
    parts: list[int] = []

    def slow(file: LogFile, start: int = 0, end: int | None = None, size: int = 0) -> Any:
        parts.append(start)
        reading.set()
        resumed.wait(5)
        return read(file, start, end, size)

    monkeypatch.setattr(cut_parts, "read_range", slow)

    def interrupt() -> None:
        reading.wait(30)
        os.kill(os.getpid(), signal.SIGINT)  # of the process, as Ctrl-C is

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            transactions.audit(logdir.open(logs.root), jobs=2)
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    at_the_time = len(parts)
    resumed.set()
    wait_for_the_end()
    assert at_the_time <= len(parts) <= at_the_time + 2  # what each was about to read, no more


def test_what_open_transactions_hold_back_is_not_read_to_its_end_once_threads_stop(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    log = logs.partition("orders")
    log.data(99, at=NOON)
    long_log(log, 20)
    logs.write()
    replica = AuditedReplica(logdir.open(logs.root).partitions[0])
    with Threads(1) as threads:
        pass
    with pytest.raises(Stopped):
        outcome_of(replica, ReplicaMerge.read_all, threads.check)


def test_the_threads_of_an_audit_that_is_not_read_to_its_end_stop(tmp_path: Path) -> None:
    logs = random_partitions(random.Random(2), tmp_path / "logs", 2)
    found = local_audit.read_replicas([AuditedReplica(one) for one in logdir.open(logs.root).partitions], 2)
    assert not isinstance(next(found), Unreadable)
    assert running()
    found.close()  # type: ignore[attr-defined]
    wait_for_the_end()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("tasks", [0, 1, 50])
def test_results_come_in_order_with_a_bounded_number_of_them_waiting(count: int, tasks: int) -> None:
    """Also where all threads are occupied by those that wait for results."""
    taken, most = 0, 0

    def numbers() -> Iterator[int]:
        nonlocal taken
        for number in range(tasks):
            taken += 1
            yield number

    def doubled(number: int) -> int:
        time.sleep(0.001 * (number % 3))
        return 2 * number

    with Threads(count) as threads:

        def all_of(_: int) -> list[int]:
            nonlocal most
            found = []
            for result in threads.in_order(numbers(), doubled):
                found.append(result)
                most = max(most, taken - len(found))
            return found

        alone = threads.submit(all_of, 0).result(30)
        assert alone == [2 * number for number in range(tasks)]
        assert most <= 3 * count
        together = [threads.submit(all_of, number) for number in range(6)]
        assert [one.result(30) for one in together] == [alone] * 6


def test_a_thread_that_is_not_wanted_any_more_stops() -> None:
    with Threads(1) as threads:
        threads.check()
    with pytest.raises(Stopped):
        threads.check()
    with pytest.raises(Stopped):
        next(threads.in_order([1], str))
