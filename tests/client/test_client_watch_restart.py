"""Three real brokers that restart one after the other, and one that is killed, while they are watched."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator

import pytest

from kafkawire.client import Admin, Search, TopicPartition, Watch
from kafkawire.rows import Change, Poll
from tests.broker_fixture import StartCluster
from tests.client import live
from tools.broker import Cluster
from tools.examples.wire import Producer, Wire

pytestmark = pytest.mark.broker

HOUR_MS = 3_600_000
WATCHED = "watched"
INVENTED = Producer(987_654_321, 0)
#: Shorter than in the field, so that tests do not wait for minutes.
SESSION_MS = 3000
TIMEOUT_S = 60.0
WATCH_S = 0.5
LATE_S = 5.0


@pytest.fixture(scope="module")
def three(start_cluster: StartCluster) -> Iterator[Cluster]:
    config = {
        "transaction.partition.verification.enable": False,
        "broker.session.timeout.ms": SESSION_MS,
        "broker.heartbeat.interval.ms": SESSION_MS // 6,
    }
    with start_cluster(3, config=config, heap="300m") as cluster:

        async def topics() -> None:
            async with Admin.connect(cluster.bootstrap) as admin:
                await live.create_topics(admin, {WATCHED: 3}, replicas=3)

        asyncio.run(topics())
        yield cluster


def test_a_rolling_restart_while_it_is_watched(three: Cluster) -> None:
    """Each poll is a sample or a told failure, what did not take place is told, and what hangs is never called gone.

    At last one is killed: its partitions have no leader until its session is over, and that is told.
    """
    old = int(time.time() * 1000) - 3 * HOUR_MS
    with Wire(three.bootstrap) as wire:
        wire.produce(WATCHED, 0, [b"x"], INVENTED, timestamp=old)
        alive = wire.init_producer("watched-live")
        wire.add_partitions(alive, {WATCHED: [1]})
        wire.produce(WATCHED, 1, [b"x"], alive, timestamp=old)
    told: list[Change | Poll] = []
    search = Search(topics=(WATCHED,), confirm_after_s=0.2, session_s=SESSION_MS / 1000 + 1, timeout_s=20)
    both = {"hanging no_transactional_id": 1, "not_hanging live": 1}

    async def scenario() -> None:
        async with Admin.connect(three.bootstrap, {"socket.connection.setup.timeout.ms": "1500"}) as admin:
            watch = Watch(admin, search, interval_s=WATCH_S)
            more = asyncio.Condition()

            async def collect() -> None:
                async for rows in watch.run():
                    async with more:
                        told.extend(rows)
                        more.notify_all()

            async def seen() -> None:
                """A poll from now on that saw everything."""
                had = len(told)
                async with more:
                    await more.wait_for(lambda: any(_saw(row, both) for row in told[had:]))

            collecting = asyncio.create_task(collect())
            await seen()
            for node in three.nodes:
                assert await asyncio.to_thread(three.restart_node, node.node_id)
                await seen()
            place = TopicPartition(WATCHED, 0)
            leader = (await admin.cluster.metadata([WATCHED])).partitions[place].leader
            assert leader is not None
            await asyncio.to_thread(three.kill_node, leader)
            await seen()
            await asyncio.to_thread(three.start_node, leader)
            await seen()
            collecting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await collecting

    asyncio.run(asyncio.wait_for(scenario(), 3 * TIMEOUT_S))
    polls = [row for row in told if isinstance(row, Poll)]
    assert [poll.poll for poll in polls] == list(range(1, len(polls) + 1))
    assert any(poll.outcome != "complete" or poll.missed for poll in polls)
    # What was due took place, or is told of; a busy machine may wake a poll late.
    accounted = (len(polls) - 1 + sum(poll.missed for poll in polls)) * WATCH_S
    assert accounted - WATCH_S <= (polls[-1].time - polls[0].time) / 1000 <= accounted + LATE_S
    for poll in polls:
        assert (poll.outcome == "failed") == bool(poll.error)
        assert poll.outcome != "complete" or poll.transactions == both, poll
    for change in (row for row in told if isinstance(row, Change) and row.finding is not None):
        assert change.finding is not None
        assert change.change != "gone", change
        wrong = "hanging" if change.finding.producer_id == alive.producer_id else "not_hanging"
        assert change.finding.verdict != wrong or change.finding.reason == "live", change


def _saw(row: Change | Poll, transactions: dict[str, int]) -> bool:
    return isinstance(row, Poll) and row.outcome == "complete" and row.transactions == transactions
