"""Setups in which a transaction hangs on a real broker, or only seems to: all that were seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from kafkawire.client import Admin
from tools.recordings.raw_client import RawCluster, RawProducer

Verdict = tuple[str, str]
NOT_IN = ("hanging", "partition_not_in_transaction")
ENDED = ("hanging", "transaction_ended")
BUMPED = ("hanging", "epoch_bumped")
NAMELESS = ("hanging", "no_transactional_id")
LIVE = ("not_hanging", "live")
STUCK = ("not_hanging", "stuck_prepare")

INVALID_TXN_STATE = 48
#: A coordinator's epoch that no coordinator comes to.
OVERSHOOT = 1_000_000
INVENTED_ID = 987_654_321


class Scene(NamedTuple):
    """Where a setup is made: in partitions of a topic from `first` on; `at` is the time of its batches."""

    wire: RawCluster
    topic: str
    first: int
    at: int

    def producer(self, name: str) -> RawProducer:
        return self.wire.init_producer(f"{self.topic}-{name}")

    def add(self, producer: RawProducer, partition: int = 0) -> None:
        self.wire.add_partitions(producer, {self.topic: [self.first + partition]})

    def write(self, producer: RawProducer, partition: int = 0, *, version: int = 9, sequence: int = 0) -> None:
        place = self.topic, self.first + partition
        self.wire.produce(*place, [b"x"], producer, timestamp=self.at, version=version, sequence=sequence)


class Setup(NamedTuple):
    """What is done, and the verdict on each of its partitions; None: nothing is open there.

    since: the release whose brokers can do it.
    """

    name: str
    act: Callable[[Scene], None]
    verdicts: tuple[Verdict | None, ...]
    since: int = 3


def _never_begun(scene: Scene, *, version: int) -> None:
    producer = scene.producer(f"never-begun-{version}")
    scene.write(producer, version=version)
    assert scene.wire.end(producer, committed=True) == INVALID_TXN_STATE


def _added_by_the_broker(scene: Scene) -> None:
    scene.write(scene.producer("added"), version=12)


def _two_partitions(scene: Scene) -> None:
    both = scene.producer("live")
    scene.add(both)
    scene.write(both)
    scene.write(both, 1)


def _finished(scene: Scene, *, committed: bool, version: int = 9) -> None:
    name = f"finished-{committed}-{version}"
    producer = scene.producer(name)
    if version < 12:
        scene.add(producer)
    scene.write(producer, version=version)
    assert scene.wire.end(producer, committed=committed, version=5 if version >= 12 else 3) == 0
    until(scene.wire, f"{scene.topic}-{name}", "CompleteCommit" if committed else "CompleteAbort")


def _late_batch(scene: Scene, *, version: int) -> None:
    producer = scene.producer(f"late-{version}")
    scene.add(producer)
    scene.write(producer)
    assert scene.wire.end(producer, committed=True) == 0
    until(scene.wire, f"{scene.topic}-late-{version}", "CompleteCommit")
    scene.write(producer, sequence=1, version=version)


def _begun_anew(scene: Scene) -> None:
    """A producer that comes back: its batch was in no transaction, so nothing ends it."""
    scene.write(scene.producer("anew"))
    assert scene.producer("anew").epoch == 1


def _fenced(scene: Scene) -> None:
    """The coordinator aborts in the partition that was added, and raises the epoch twice."""
    producer = scene.producer("fenced")
    scene.add(producer)
    scene.write(producer)
    scene.write(producer, 1)
    assert scene.producer("fenced").epoch == 2


def _invented(scene: Scene) -> None:
    scene.write(RawProducer(INVENTED_ID, 0))


def _stuck(scene: Scene, *, committed: bool) -> None:
    producer = scene.producer(f"stuck-{committed}")
    scene.add(producer)
    scene.wire.write_marker(scene.topic, scene.first, producer, coordinator_epoch=OVERSHOOT)
    scene.write(producer)
    assert scene.wire.end(producer, committed=committed) == 0


def until(wire: RawCluster, transactional_id: str, state: str) -> None:
    """EndTxn is answered before its markers are written."""

    async def wait() -> None:
        async with Admin.connect(wire.bootstrap) as admin:
            deadline = admin.cluster.deadline()
            while (await admin.describe_transactions([transactional_id]))[transactional_id].state != state:
                assert await deadline.sleep(0.02)

    asyncio.run(wait())


#: One of each kind: partitions 0 to 5.
ONE_OF_EACH = (
    Setup("never begun", partial(_never_begun, version=9), (NOT_IN,)),
    Setup("two partitions, one of them added", _two_partitions, (LIVE, NOT_IN)),
    Setup("a late batch", partial(_late_batch, version=9), (ENDED,)),
    Setup("an invented producer id", _invented, (NAMELESS,)),
    Setup("a stuck commit", partial(_stuck, committed=True), (STUCK,)),
)
ALL = (
    *ONE_OF_EACH,
    *(Setup(f"never begun, Produce {v}", partial(_never_begun, version=v), (NOT_IN,)) for v in (3, 8, 10, 11)),
    Setup("a late batch, Produce 11", partial(_late_batch, version=11), (ENDED,)),
    Setup("its producer began anew", _begun_anew, (BUMPED,)),
    Setup("fenced, of two partitions one added", _fenced, (None, BUMPED)),
    Setup("a stuck abort", partial(_stuck, committed=False), (STUCK,)),
    Setup("committed", partial(_finished, committed=True), (None,)),
    Setup("aborted", partial(_finished, committed=False), (None,)),
    Setup("added by the broker", _added_by_the_broker, (LIVE,), since=4),
    Setup("added by the broker, committed", partial(_finished, committed=True, version=12), (None,), since=4),
)


def size(setups: Sequence[Setup]) -> int:
    """How many partitions they take."""
    return sum(len(setup.verdicts) for setup in setups)


def make(wire: RawCluster, topic: str, at: int, setups: Sequence[Setup] = ONE_OF_EACH) -> dict[int, Verdict]:
    """Makes them in a topic, one behind the other; the verdicts by partition."""
    expected: dict[int, Verdict] = {}
    first = 0
    for setup in setups:
        setup.act(Scene(wire, topic, first, at))
        for partition, verdict in enumerate(setup.verdicts, first):
            if verdict is not None:
                expected[partition] = verdict
        first += len(setup.verdicts)
    return expected
