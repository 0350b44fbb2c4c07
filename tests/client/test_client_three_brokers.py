"""Three real brokers: the verdict on each transaction that hangs or seems to is right, and one that hangs can be ended;
brokers restart or stop while they are watched."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import pytest

from kafkawire.client import Admin, BrokerError, ClientError, ConnectError, Search, TopicPartition, Watch
from kafkawire.client.actions.aborting import abort
from kafkawire.rows import Audit, Change, Poll
from tests.broker_fixture import SESSION_MS
from tests.client import real_cluster, setups
from tools.broker import RunningCluster
from tools.recordings import RecordingError
from tools.recordings.raw_client import RawCluster, RawProducer

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
GONE, MADE, BLOCKED, ALONE, BESIDE = "gone", "made", "blocked", "alone", "beside"
VERIFIED, WATCHED, SINGLE = "verified", "watched", "single"
INVENTED = RawProducer(setups.INVENTED_ID + 1, 0)
VERIFIED_PARTITIONS = 4
VERIFICATION = "transaction.partition.verification.enable"
TIMEOUT_S = 60.0
#: From one poll to the next, and what a busy machine may be late.
WATCH_S, LATE_S = 0.5, 5.0

T = TypeVar("T")


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(scenario, TIMEOUT_S))


@pytest.fixture(scope="module")
def three(three_voters: RunningCluster) -> RunningCluster:
    async def topics() -> None:
        async with Admin.connect(three_voters.bootstrap) as admin:
            counts = {
                GONE: 5,
                BESIDE: 1,
                MADE: setups.size(setups.ALL),
                BLOCKED: 1,
                VERIFIED: VERIFIED_PARTITIONS,
                WATCHED: 3,
            }
            await real_cluster.create_topics(admin, counts, replicas=3)
            await real_cluster.create_topics(admin, {ALONE: 1, SINGLE: 6})

    asyncio.run(topics())
    return three_voters


@pytest.fixture(scope="module")
def wire(three: RunningCluster) -> Iterator[RawCluster]:
    with RawCluster(three.bootstrap) as wire:
        yield wire


def old() -> int:
    return int(time.time() * 1000) - 3 * HOUR_MS


def search(topic: str) -> Search:
    return Search(topics=(topic,), confirm_after_s=0.2, session_s=SESSION_MS / 1000 + 3, timeout_s=20)


def connected(cluster: RunningCluster) -> Admin:
    """Does not wait long for a broker that is gone."""
    return Admin.connect(cluster.bootstrap, {"socket.connection.setup.timeout.ms": "1500"})


async def find(cluster: RunningCluster, topic: str) -> Audit:
    async with connected(cluster) as admin:
        return await admin.find_hanging_transactions(search(topic))


# What hangs and what does not -----------------------------------------------------------------------------------------


def test_every_setup_is_called_what_it_is(three: RunningCluster, wire: RawCluster) -> None:
    """Without an authorizer it is enough that every coordinator has loaded what it leads, and answered."""
    expected = setups.make(wire, MADE, old(), setups.ALL)
    audit = run(find(three, MADE))
    assert {one.partition: (one.verdict, one.reason) for one in audit.findings} == expected
    assert audit.read.complete
    assert (audit.read.brokers, audit.read.transaction_state) == ((1, 2, 3), ())
    (nameless,) = (one for one in audit.findings if one.reason == "no_transactional_id")
    assert "all coordinators have loaded their ids, and all brokers answered: 1, 2, 3" in nameless.evidence[1]
    stuck = [one for one in audit.findings if one.reason == "stuck_prepare"]
    assert [one.coordinator_state for one in stuck] == ["PrepareCommit", "PrepareAbort"]


def test_a_hang_is_found_and_ended_and_consumers_move_on(three: RunningCluster, wire: RawCluster) -> None:
    place = TopicPartition(BLOCKED, 0)
    hanging = wire.init_producer("blocked-hanging")
    wire.produce(*place, [b"lost"], hanging, timestamp=old())
    after = wire.init_producer("blocked-after")
    wire.add_partitions(after, {BLOCKED: [0]})
    wire.produce(*place, [b"waiting"], after, timestamp=old())
    assert wire.end(after, committed=True) == 0
    setups.until(wire, "blocked-after", "CompleteCommit")
    confluent = pytest.importorskip("confluent_kafka")
    properties = {"bootstrap.servers": three.bootstrap, "group.id": "readers", "isolation.level": "read_committed"}
    reader = confluent.Consumer(properties)
    try:
        reader.assign([confluent.TopicPartition(*place, 0)])
        assert _next(reader, 0.5) is None
        run(_found_and_aborted(three, place, hanging))
        assert _next(reader, TIMEOUT_S) == b"waiting"
    finally:
        reader.close()


def _next(reader: Any, wait_s: float) -> bytes | None:
    """The next value that a consumer gets; None where none comes in time."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        message = reader.poll(0.1)
        if message is not None and message.error() is None:
            return bytes(message.value())
    return None


async def _found_and_aborted(three: RunningCluster, place: TopicPartition, hanging: RawProducer) -> None:
    async with Admin.connect(three.bootstrap) as admin:
        (finding,) = (await admin.find_hanging_transactions(search(BLOCKED))).findings
        assert (finding.verdict, finding.reason) == setups.NOT_IN
        assert (finding.transactional_id, finding.start_offset, finding.blocked) == ("blocked-hanging", 0, True)
        assert (finding.last_stable_offset, finding.high_watermark) == (0, 3)
        assert finding.producer_id == hanging.producer_id
        done = await abort(admin.cluster, finding, search(BLOCKED), record=lambda *_: None)
        assert (done.outcome, done.marker_offset, done.last_stable_offset) == ("aborted", 3, 4)
        assert (await admin.find_hanging_transactions(search(BLOCKED))).findings == ()


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "name"),
    [(0, 6, "TRANSACTION_COORDINATOR_FENCED"), (-1, 8, "INVALID_PRODUCER_EPOCH")],
)
def test_markers_that_a_partition_refuses(wire: RawCluster, epoch: int, coordinator_epoch: int, name: str) -> None:
    """A coordinator's epoch below the one that it has seen (7); an epoch below the producer's (5)."""
    place = TopicPartition(ALONE, 0)
    producer = RawProducer(555, 5)
    wire.write_marker(*place, producer, coordinator_epoch=7)

    async def scenario() -> None:
        async with Admin.connect(wire.bootstrap) as admin:
            with pytest.raises(BrokerError, match=f"^alone-0: no marker was written: {name}"):
                await admin.abort_transaction(
                    place, producer_id=555, producer_epoch=5 + epoch, coordinator_epoch=coordinator_epoch
                )

    run(scenario())


def test_a_stuck_prepare_is_not_fenced(wire: RawCluster) -> None:
    """Its coordinator answers CONCURRENT_TRANSACTIONS forever: the call ends in time, and names the wait."""
    if "made-stuck-True" not in _ids(wire):
        pytest.skip("made by the test of all setups")

    async def scenario() -> ClientError:
        async with Admin.connect(wire.bootstrap) as admin:
            return (await admin.fence_producers(["made-stuck-True"], timeout_s=0.5)).errors["made-stuck-True"]

    assert str(run(scenario())) == "transactional id made-stuck-True: CONCURRENT_TRANSACTIONS (after 0.5 s)"


def _ids(wire: RawCluster) -> set[str]:
    async def scenario() -> set[str]:
        async with Admin.connect(wire.bootstrap) as admin:
            found = (await admin.list_transactions()).all()
            return {one.transactional_id for listed in found.values() for one in listed}

    return run(scenario())


# Verification (KIP-890) -----------------------------------------------------------------------------------------------


@pytest.fixture
def verifying(wire: RawCluster) -> Iterator[None]:
    """Brokers that verify with the coordinator that a partition is part of the transaction, as they do by default."""

    def switch(on: bool) -> None:
        async def alter() -> None:
            async with Admin.connect(wire.bootstrap) as admin:
                await real_cluster.set_broker_config(admin, VERIFICATION, str(on).lower())

        run(alter())
        deadline = time.monotonic() + TIMEOUT_S
        for partition in range(VERIFIED_PARTITIONS):  # of every leader: each broker learns it by itself
            while _refusal(wire, partition, 9) != (setups.INVALID_TXN_STATE if on else None):
                assert time.monotonic() < deadline
                time.sleep(0.02)

    switch(True)
    yield
    switch(False)


def _refusal(wire: RawCluster, partition: int, version: int) -> int | None:
    """The error code of a batch whose partition was never added; None where it is accepted."""
    producer = wire.init_producer(f"verified-{partition}-{version}")
    try:
        wire.produce(VERIFIED, partition, [b"x"], producer, timestamp=old(), version=version)
    except RecordingError as error:
        return int(str(error).rpartition(" ")[2])
    return None


def test_with_verification_no_transaction_hangs(three: RunningCluster, wire: RawCluster, verifying: None) -> None:
    codes = {version: _refusal(wire, 1, version) for version in (3, 8, 9, 10, 11, 12)}
    assert codes == {3: 48, 8: 48, 9: 48, 10: 48, 11: 120, 12: None}
    found = {one.transactional_id: (one.verdict, one.reason) for one in run(find(three, VERIFIED)).findings}
    assert found.pop("verified-1-12") == setups.LIVE
    assert found.keys() <= {f"verified-{n}-9" for n in range(VERIFIED_PARTITIONS)}, "made before it was switched on"


# Replicas and brokers that go -----------------------------------------------------------------------------------------


def test_followers_describe_their_producers(three: RunningCluster, wire: RawCluster) -> None:
    """Followers answer DescribeProducers, too; a broker without a replica is named."""
    wire.produce(BESIDE, 0, [b"x"], INVENTED, timestamp=old())
    leader = wire.leaders([ALONE])[ALONE, 0]

    async def scenario() -> None:
        async with Admin.connect(three.bootstrap) as admin:
            place, alone = TopicPartition(BESIDE, 0), TopicPartition(ALONE, 0)
            states = [(await admin.describe_producers([place], broker_id=n)).all()[place] for n in (1, 2, 3)]
            assert [[one.producer_id for one in found] for found in states] == [[INVENTED.producer_id]] * 3
            other = leader % 3 + 1
            error = (await admin.describe_producers([alone], broker_id=other)).errors[alone]
            assert str(error) == f"alone-0: broker {other} has no replica of it; brokers {leader} have"

    run(scenario())


def test_restarts_while_it_is_watched(three: RunningCluster) -> None:
    """Each poll is a sample or a reported failure, missed polls are counted, and what hangs is never called gone.

    The leader of what hangs and the coordinator of what lives are restarted, one after the other. At last that leader
    is killed: its partitions have no leader until its session is over, and that is reported.
    """
    with RawCluster(three.bootstrap) as wire:
        wire.produce(WATCHED, 0, [b"x"], INVENTED, timestamp=old())
        alive = wire.init_producer("watched-live")
        wire.add_partitions(alive, {WATCHED: [1]})
        wire.produce(WATCHED, 1, [b"x"], alive, timestamp=old())
        restarted = dict.fromkeys((wire.leaders([WATCHED])[WATCHED, 0], wire.coordinator("watched-live")))
    rows_seen: list[Change | Poll] = []
    both = {"hanging no_transactional_id": 1, "not_hanging live": 1}

    async def scenario() -> None:
        async with connected(three) as admin:
            watch = Watch(admin, search(WATCHED), interval_s=WATCH_S)
            more = asyncio.Condition()

            async def collect() -> None:
                async for rows in watch.run():
                    async with more:
                        rows_seen.extend(rows)
                        more.notify_all()

            async def seen() -> None:
                """A poll from now on that saw everything."""
                had = len(rows_seen)
                async with more:
                    await more.wait_for(lambda: any(_saw(row, both) for row in rows_seen[had:]))

            collecting = asyncio.create_task(collect())
            await seen()
            for node in restarted:
                assert await asyncio.to_thread(three.restart_node, node)
                await seen()
            leader = (await admin.cluster.metadata([WATCHED])).partitions[TopicPartition(WATCHED, 0)].leader
            assert leader is not None
            await asyncio.to_thread(three.kill_node, leader)
            await seen()
            await asyncio.to_thread(three.start_node, leader)
            await seen()
            collecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await collecting

    asyncio.run(asyncio.wait_for(scenario(), 3 * TIMEOUT_S))
    polls = [row for row in rows_seen if isinstance(row, Poll)]
    assert [poll.poll for poll in polls] == list(range(1, len(polls) + 1))
    assert any(poll.outcome != "complete" or poll.missed for poll in polls)
    # Polls that were due took place or are counted; a busy machine may wake a poll late.
    accounted = (len(polls) - 1 + sum(poll.missed for poll in polls)) * WATCH_S
    assert accounted - WATCH_S <= (polls[-1].time - polls[0].time) / 1000 <= accounted + LATE_S
    for poll in polls:
        assert (poll.outcome == "failed") == bool(poll.error)
        assert poll.outcome != "complete" or poll.transactions == both, poll
    for change in (row for row in rows_seen if isinstance(row, Change) and row.finding is not None):
        assert change.finding is not None
        assert change.change != "gone", change
        wrong = "hanging" if change.finding.producer_id == alive.producer_id else "not_hanging"
        assert change.finding.verdict != wrong or change.finding.reason == "live", change


def _saw(row: Change | Poll, transactions: dict[str, int]) -> bool:
    return isinstance(row, Poll) and row.outcome == "complete" and row.transactions == transactions


def test_a_broker_that_is_killed(three: RunningCluster) -> None:
    """Until its session is over, metadata names it and no broker lists its ids. What was hanging stays hanging or
    is unknown, and nothing that lives is ever called hanging; then the others take over."""
    with RawCluster(three.bootstrap) as wire:  # those of before are lost with the brokers that restarted
        for partition in range(5):
            wire.produce(GONE, partition, [b"x"], INVENTED, timestamp=old())
        for i in range(4):
            producer = wire.init_producer(f"live-{i}")
            wire.add_partitions(producer, {GONE: [i]})
            wire.produce(GONE, i, [b"x"], producer, timestamp=old())
    everything = ["hanging"] * 5 + ["not_hanging"] * 4
    before = run(find(three, GONE))
    assert _verdicts(before) == everything
    assert before.read.complete
    three.kill_node(2)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        assert time.monotonic() < deadline
        try:
            audit = run(find(three, GONE))
        except ConnectError:  # it led every partition: nothing could be read, which is no answer
            continue
        for finding in audit.findings:
            right = "hanging" if finding.producer_id == INVENTED.producer_id else "not_hanging"
            assert finding.verdict in (right, "unknown"), finding  # whatever was missing, never the wrong one
        if _verdicts(audit) == everything:
            break


def test_partitions_of_a_broker_that_is_gone_are_named(three: RunningCluster) -> None:
    """Each with the reason, whatever was found in the others; when it is back, the answer is complete."""

    async def hosts() -> dict[int, int]:
        async with connected(three) as admin:
            found = (await admin.cluster.metadata([SINGLE])).partitions
        return {place.partition: info.replicas[0] for place, info in found.items()}

    on = run(hosts())
    gone = [partition for partition, broker in sorted(on.items()) if broker == 2]
    there = min(partition for partition, broker in on.items() if broker != 2)
    assert 0 < len(gone) < len(on) == 6
    if not three.node(2).running:  # another test has killed it
        three.start_node(2)
    with RawCluster(three.bootstrap) as wire:
        wire.produce(SINGLE, there, [b"x"], INVENTED, timestamp=old())
    three.kill_node(2)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        assert time.monotonic() < deadline
        audit = run(find(three, SINGLE))
        assert [one.partition for one in audit.unread] == gone
        assert all(one.reason for one in audit.unread)
        assert (audit.read.partitions, audit.read.partitions_chosen) == (6 - len(gone), 6)
        assert not audit.read.complete
        assert all(any(f"{SINGLE}-{partition}" in gap for gap in audit.read.gaps) for partition in gone)
        if _verdicts(audit) == ["hanging"]:
            break
    three.start_node(2)
    deadline = time.monotonic() + TIMEOUT_S
    while not (audit := run(find(three, SINGLE))).read.complete:
        assert time.monotonic() < deadline
    assert (_verdicts(audit), audit.unread, audit.read.partitions) == (["hanging"], (), 6)


def _verdicts(audit: Audit) -> list[str]:
    return sorted(finding.verdict for finding in audit.findings)
