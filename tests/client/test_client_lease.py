"""No live transaction is ended: a pause at every await of an abort and of a termination, in which the application goes
on, under each transaction version. A mock broker with Kafka's coordinator and partitions is the judge: it commits the
application's next transaction, and its records are there or lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from kafkawire.client import Admin, Search
from kafkawire.client.actions import lease
from kafkawire.client.actions.aborting import abort, look_at
from kafkawire.client.actions.lease import JudgeAgain, Lease
from kafkawire.client.actions.terminating import describe_one, terminate
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    InitProducerIdRequest,
    ProduceRequest,
    WriteTxnMarkersRequest,
)
from kafkawire.rows import Finding
from kafkawire.testing import MockBroker
from kafkawire.transactions.verdict.abort_rules import Refused, TransactionSpec, choose
from tests.client.pauses import Pauses
from tools.recordings.raw_client import RawCluster

SEARCH = Search(confirm_after_s=0.0, session_s=0.0)
NAMED = TransactionSpec(topic="orders", partition=0, start_offset=0)
ID = "app"
#: In all runs the same, so that what hangs is, too.
LONG_AGO = int(time.time() * 1000) - 5 * 3_600_000
SHORT_S, LONG_S = 0.3, 20.0
#: A run of an abort has about 200 awaits, of a termination 40; a count that is far off means that nothing was counted.
FEWEST_AWAITS, MOST_AWAITS = 15, 1000
#: Of these, those at which the last answer may have come already: tasks that go on between its request and itself.
MOST_UNNOTICED = 4


class Clocks:
    """A monotonic and a wall clock that a pause puts forward."""

    def __init__(self) -> None:
        self.ahead_s = [0.0, 0.0]

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lease, "CLOCKS", (lambda: self._now(0), lambda: self._now(1)))

    def _now(self, which: int) -> float:
        return time.monotonic() + self.ahead_s[which]

    def pause(self, seconds: float, *, suspended: bool) -> None:
        """A sleep; `suspended`: of the machine, in which the monotonic clock stands still."""
        self.ahead_s[1] += seconds
        if not suspended:
            self.ahead_s[0] += seconds


class Application:
    """A producer with a transactional id: its last transaction has ended, and left an old one hanging in orders-0.

    Attributes:
        live: whether it has begun its next transaction, in orders-0.
    """

    def __init__(self, wire: RawCluster, version: int) -> None:
        self._wire = wire
        self._version = version
        self._producer = wire.init_producer(ID)
        self._sequence = 0
        self.live = False

    def hang(self) -> None:
        self._wire.add_partitions(self._producer, {"orders": [1]})
        self._wire.produce("orders", 1, [b"x"], self._producer, timestamp=LONG_AGO)
        self._wire.produce("orders", 0, [b"hangs"], self._producer, timestamp=LONG_AGO)
        assert self._end() == 0
        self._sequence = 0 if self._version == 2 else 1

    def be_open(self) -> None:
        """Leaves its transaction in orders-0 open."""
        self._write(b"open", 0)
        self._sequence = 1

    def begin(self) -> None:
        self._write(b"live", self._sequence)
        self.live = True

    def end_and_begin(self) -> None:
        if self._end() == 0:  # it was not fenced
            self._sequence = 0 if self._version == 2 else 1
            self.begin()

    def commit(self) -> None:
        self._end()

    def _write(self, value: bytes, sequence: int) -> None:
        now = int(time.time() * 1000)
        if self._version < 2:
            self._wire.add_partitions(self._producer, {"orders": [0]})
        version = 12 if self._version == 2 else 9
        self._wire.produce("orders", 0, [value], self._producer, timestamp=now, sequence=sequence, version=version)

    def _end(self) -> int:
        code = self._wire.end(self._producer, committed=True, version=5 if self._version == 2 else 3)
        self._producer.epoch += self._version == 2 and code == 0
        return code


Attempt = Callable[[Admin, Pauses], Coroutine[Any, Any, Any]]


class Run:
    """One attempt with one pause: whether the application's next transaction is lost, and what the attempt returned."""

    def __init__(self, version: int, at: int, pause: Callable[[], None], attempt: Attempt, *, hanging: bool) -> None:
        topics = {"orders": 2}
        with (
            MockBroker(topics, transaction_version=version, verify_transactions=False) as broker,
            RawCluster(broker.address) as wire,
        ):
            application = Application(wire, version)
            (application.hang if hanging else application.be_open)()

            def action() -> None:
                (application.begin if hanging else application.end_and_begin)()
                pause()

            pauses = Pauses(at, action)
            self.outcome: Any = asyncio.run(self._run(broker.address, pauses, attempt))
            self.awaits = pauses.count
            self.kinds = [type(request.body) for request in broker.requests]
            was_live = application.live
            application.commit()
            committed = [record.value for record in broker.records("orders", 0, committed=True)]
            self.lost = was_live and b"live" not in committed

    async def _run(self, address: str, pauses: Pauses, attempt: Attempt) -> Any:
        pauses.install()
        async with Admin.connect(address) as admin:
            try:
                return await attempt(admin, pauses)
            except Refused as refused:
                return refused

    def began_after(self, reading: type, sent: type) -> bool:
        """Whether the application wrote between the last reading and the request, where nothing sees it."""
        last = max(at for at, kind in enumerate(self.kinds) if kind is sent)
        read = max(at for at, kind in enumerate(self.kinds[:last]) if kind is reading)
        return ProduceRequest in self.kinds[read:last]


class AnAbort:
    """Of what hangs, which is the same in each run: it is found in the first one, and judged again in all."""

    def __init__(self) -> None:
        self._found: Finding | None = None

    async def __call__(self, admin: Admin, pauses: Pauses) -> Any:
        if self._found is None:
            self._found = choose((await look_at(admin.cluster, NAMED, SEARCH)).findings, NAMED)
            assert self._found.verdict == "hanging"
        else:
            await admin.cluster.metadata(())  # the connection is open, as after a search
        pauses.arm()
        return await asyncio.create_task(abort(admin.cluster, self._found, SEARCH, record=lambda *_: None))


async def a_termination(admin: Admin, pauses: Pauses) -> Any:
    found, _ = await describe_one(admin.cluster, ID, SEARCH)
    assert found.state == "Ongoing"
    pauses.arm()
    return await asyncio.create_task(terminate(admin.cluster, found, SEARCH, record=lambda *_: None))


def every_await(version: int, pause: Callable[[int], None], attempt: Attempt, *, hanging: bool) -> list[Run]:
    """A run for each await: the first, the second, ..., up to one that has fewer."""
    runs: list[Run] = []
    while not runs or runs[-1].awaits >= len(runs):
        at = len(runs) + 1
        assert at < MOST_AWAITS
        runs.append(Run(version, at, lambda at=at: pause(at), attempt, hanging=hanging))  # type: ignore[misc]
    assert len(runs) > FEWEST_AWAITS
    assert any(map(ended, runs[1:])), "no pause, or one that came too early or too late to matter"
    return runs


def ended(run: Run) -> bool:
    return getattr(run.outcome, "outcome", "") in ("aborted", "terminated")


def action_of(name: str) -> tuple[Attempt, bool]:
    """The action, and whether it is about what hangs."""
    return (AnAbort(), True) if name == "abort" else (a_termination, False)


ACTIONS = ("abort", "force_terminate")


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_long_pause_at_any_await_ends_no_live_transaction(
    action: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 s, in every other run with a monotonic clock that stands still meanwhile."""
    clocks = Clocks()
    clocks.install(monkeypatch)
    attempt, hanging = action_of(action)
    runs = every_await(version, lambda at: clocks.pause(LONG_S, suspended=at % 2 == 0), attempt, hanging=hanging)
    assert [at for at, run in enumerate(runs, 1) if run.lost] == []
    assert any(isinstance(run.outcome, Refused) for run in runs)


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize("action", ACTIONS)
def test_a_short_pause_is_noticed_up_to_the_last_answer(
    action: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What begins after the leader's last answer, and before the marker is appended, no request can exclude. That is
    the await of this answer, and the outcome names the records."""
    clocks = Clocks()
    clocks.install(monkeypatch)
    attempt, hanging = action_of(action)
    runs = every_await(version, lambda _: clocks.pause(SHORT_S, suspended=False), attempt, hanging=hanging)
    lost = [run for run in runs if run.lost]
    reading, sent = (
        (DescribeProducersRequest, WriteTxnMarkersRequest)
        if hanging
        else (DescribeTransactionsRequest, InitProducerIdRequest)
    )
    assert len(lost) <= MOST_UNNOTICED
    for run in lost:
        assert run.began_after(reading, sent)
        if hanging:
            assert "its producer wrote from offset" in run.outcome.problem
    if hanging and version == 2:
        assert not lost  # the next transaction has another epoch: the leader refuses the marker


# The clocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead_s", [[1.1, 1.1], [0.0, 1.1], [1.1, 0.0], [0.0, -1.1]])
def test_a_lease_ends_by_each_clock(ahead_s: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """Slept; suspended; a wall clock that was set back meanwhile; set back by more than the lease."""
    monkeypatch.setattr(lease, "CLOCKS", (lambda: now[0], lambda: now[1]))
    now = [5.0, 5.0]
    held = Lease()
    held.check()
    now = [5.0 + more for more in ahead_s]
    with pytest.raises(JudgeAgain, match=r"1.1 s passed since what it rests on was read again, and 1 s may"):
        held.check()


@pytest.mark.parametrize("name", ["monotonic", "time", "clock_gettime"])
def test_each_clock_of_the_system_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGSTOP stops none of them. A machine that is suspended stops the monotonic one, and the wall clock may be set
    back meanwhile: Linux has one more, since the start of the machine."""
    if name == "clock_gettime" and not hasattr(time, "CLOCK_BOOTTIME"):
        pytest.skip("Linux has it")
    usual, ahead = getattr(time, name), [0.0]
    monkeypatch.setattr(time, name, lambda *which: usual(*which) + ahead[0])
    monkeypatch.setattr(lease, "CLOCKS", lease._clocks())
    held = Lease()
    held.check()
    ahead[0] = lease.LIMIT_S + 0.1
    with pytest.raises(JudgeAgain):
        held.check()
