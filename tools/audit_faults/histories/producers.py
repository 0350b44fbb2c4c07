"""Producers, coordinators and accidents as tasks of a timeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kafkawire.messages import TransactionLogKey, TransactionLogValue
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.records import Record
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from kafkawire.transactions.facts import TRANSACTION_STATE
from tests.audit_logs import HOUR, MINUTE, STATUS
from tools.audit_faults.histories.true_cluster import DATA, EVENTS, IDS, Cluster, Place, Steps

SECOND = 1000
#: Stamps of clients: from the time on their clock, what they write.
STAMPS: dict[str, Callable[[int], int]] = {
    "now": lambda now: now,
    "event time": lambda now: now - 3 * HOUR,
    "days old": lambda now: now - 72 * HOUR,
    "ahead": lambda now: now + 2 * HOUR,
    "none": lambda now: -1,
    "microseconds": lambda now: now * 1000,
    "highest": lambda now: 2**63 - 1,
}
#: Those that may be right.
PLAUSIBLE = ("now", "event time", "days old")
#: What ends a transaction's marker: a coordinator epoch that no coordinator has.
_OVERSHOT = 1_000_000


@dataclass
class Application:
    """A transactional id, its producer and what its coordinator holds.

    Attributes:
        version: of its transactions. `stamp`: of its records.
        partitions, started: of the coordinator's record. `state`: of the same.
        begun: number of its transactions. `avoided`: partitions that refuse its markers.
    """

    cluster: Cluster
    name: str
    version: int
    stamp: str
    timeout: int
    producer_id: int
    epoch: int = 0
    state: str = "Empty"
    partitions: tuple[Place, ...] = ()
    started: int = -1
    fenced: bool = False
    begun: int = 0
    avoided: set[Place] = field(default_factory=set)

    def is_fenced(self) -> bool:
        """Whether its coordinator has ended its transaction over its time; any wait may change that."""
        return self.fenced

    @property
    def place(self) -> Place:
        return TRANSACTION_STATE, partition_of_id(self.name, IDS)

    def write(self, state: str) -> None:
        """The coordinator appends a record of the id in a state."""
        cluster, now = self.cluster, self.cluster.clock(self.place)
        self.state = state
        if state == "Empty":
            self.started = -1
        if state in ("Empty", "CompleteCommit", "CompleteAbort"):
            self.partitions = ()
        listed = tuple(PartitionsSchema(topic=topic, partition_ids=(number,)) for topic, number in self.partitions)
        value = TransactionLogValue(
            producer_id=self.producer_id,
            previous_producer_id=self.producer_id,
            producer_epoch=self.epoch,
            transaction_timeout_ms=self.timeout,
            transaction_status=STATUS[state],
            transaction_partitions=None if state == "Empty" else listed,
            transaction_last_update_timestamp_ms=now,
            transaction_start_timestamp_ms=self.started,
            client_transaction_version=self.version,
        )
        key = TransactionLogKey(transactional_id=self.name).encode_prefixed(version=0)
        record = Record(key=key, value=value.encode_prefixed(version=1), timestamp=now)
        cluster.logs[self.place].records([record])

    def add(self, place: Place) -> None:
        """The coordinator adds a partition to the transaction, and begins one where none is running."""
        if place in self.partitions:
            return
        if self.state != "Ongoing":
            self.started = self.cluster.clock(self.place)
            self.begun += 1
            self.cluster.timeline.start(_expiry(self, self.begun), self.timeout)
        self.partitions = (*self.partitions, place)
        self.write("Ongoing")

    def data(self, place: Place, *, epoch: int | None = None, records: int = 1) -> None:
        """A batch of the producer in a partition."""
        append(self.cluster, place, self.producer_id, self.epoch if epoch is None else epoch, self.stamp, records)


def append(cluster: Cluster, place: Place, producer_id: int, epoch: int, stamp: str, records: int = 1) -> None:
    """A transactional batch, with the client's stamp; the broker's as well, where the topic has that."""
    cluster.logs[place].data(
        producer_id,
        epoch,
        at=STAMPS[stamp](cluster.timeline.now),
        records=records,
        append_time=cluster.clock(place) if place[0] == EVENTS else None,
    )


def _expiry(app: Application, begun: int) -> Steps:
    """The coordinator ends a transaction over its time, and fences its producer."""
    yield app.cluster.timeline.draw.randrange(
        10 * SECOND
    )  # transaction.abort.timed.out.transaction.cleanup.interval.ms
    if app.begun == begun and app.state == "Ongoing":
        app.fenced = True
        app.epoch += app.version < 2
        yield from ending(app, commit=False)


def ending(app: Application, *, commit: bool) -> Steps:
    """Prepare, a marker for each partition, Complete. A partition that refuses its marker keeps it prepared."""
    draw = app.cluster.timeline.draw
    numbers = list(app.partitions)
    app.epoch += app.version >= 2
    app.write("PrepareCommit" if commit else "PrepareAbort")
    draw.shuffle(numbers)
    refused = False
    for place in numbers:
        yield draw.choice([2, 2, 50, 3 * SECOND])
        refused = refused or place in app.avoided
        if place not in app.avoided:
            marker(app, place, commit=commit)
    yield draw.choice([1, 20])
    if not refused:
        app.write("CompleteCommit" if commit else "CompleteAbort")


def marker(app: Application, place: Place, *, commit: bool, coordinator_epoch: int | None = None) -> None:
    """A marker in a partition; `coordinator_epoch`: by default that of the coordinator."""
    cluster = app.cluster
    cluster.logs[place].marker(
        "COMMIT" if commit else "ABORT",
        app.producer_id,
        app.epoch,
        at=cluster.clock(place),
        coordinator_epoch=cluster.logs[app.place].leader_epoch if coordinator_epoch is None else coordinator_epoch,
    )


def transaction(app: Application, places: list[Place], *, pause: int, commit: bool | None) -> Steps:
    """A transaction over partitions. `pause`: between its steps, ms; `commit`: None: its producer goes silent."""
    draw = app.cluster.timeline.draw
    for place in places:
        if app.is_fenced():
            return
        app.add(place)
        yield 5
        if app.is_fenced():
            return
        app.data(place, records=draw.randrange(1, 4))
        yield draw.randrange(1, pause)
    if draw.random() < 0.4 and not app.is_fenced():
        app.data(places[0])
        yield draw.randrange(1, pause)
    if commit is None or app.is_fenced():
        return
    yield from ending(app, commit=commit)


def initialised(app: Application) -> Steps:
    """InitProducerId: waits for what its coordinator is ending; gets a new epoch."""
    while app.state not in ("Empty", "CompleteCommit", "CompleteAbort"):
        yield 5 * SECOND
    app.fenced = False
    app.epoch += 1
    app.write("Empty")
    yield 10


def running(app: Application, transactions: int) -> Steps:
    """Transactions one after the other, short and long; some end over their time."""
    draw = app.cluster.timeline.draw
    app.write("Empty")
    for _ in range(transactions):
        yield draw.choice([20, 5 * SECOND, 2 * MINUTE, 10 * MINUTE])
        places = [place for place in DATA if place not in app.avoided]
        chosen = draw.sample(places, draw.randrange(1, len(places) + 1))
        pause = draw.choice([10, 5 * SECOND, 2 * MINUTE])
        commit = draw.choice([True, True, True, False, None])
        yield from transaction(app, chosen, pause=pause, commit=commit)
        if commit is None or app.is_fenced():
            yield from initialised(app)


# What hangs -----------------------------------------------------------------------------------------------------------


def late_batch(app: Application) -> Steps:
    """A batch of the same epoch arrives after the marker (below transaction version 2)."""
    yield from _whole(app)
    yield 30
    app.data(DATA[0], epoch=app.epoch - (app.version >= 2))


def never_added(app: Application) -> Steps:
    """A batch of a running transaction in a partition that it does not have."""
    app.write("Empty")
    yield 20
    app.add(DATA[1])
    yield 5
    app.data(DATA[1])
    app.data(DATA[0])
    yield 30 * SECOND
    yield from ending(app, commit=True)


def zombie(app: Application) -> Steps:
    """The process before, fenced by a newer one, writes where nothing of the newer one's is."""
    yield from _whole(app, DATA[1])
    yield from initialised(app)
    yield 5 * SECOND
    app.data(DATA[0], epoch=app.epoch - 1)
    yield 5 * SECOND
    yield from transaction(app, [DATA[1]], pause=SECOND, commit=True)


def ownerless(app: Application) -> Steps:
    """A transactional batch of a producer without a transactional id."""
    yield 10
    append(app.cluster, app.cluster.timeline.draw.choice(DATA), app.cluster.producer_id(), 0, app.stamp)


def fenced_marker(app: Application) -> Steps:
    """A marker by hand, with a coordinator epoch that no coordinator has; the id's next transaction stays prepared."""
    app.write("Empty")
    yield 20
    marker(app, DATA[0], commit=False, coordinator_epoch=_OVERSHOT)
    app.avoided.add(DATA[0])
    yield 5 * SECOND
    yield from transaction(app, [DATA[1], DATA[0]], pause=SECOND, commit=True)


def _whole(app: Application, place: Place = DATA[0]) -> Steps:
    """A transaction that commits."""
    app.write("Empty")
    yield 20
    yield from transaction(app, [place], pause=5 * SECOND, commit=True)


#: By name; after each of these the application is silent.
HANGS: dict[str, Callable[[Application], Steps]] = {
    "late batch": late_batch,
    "never added": never_added,
    "zombie": zombie,
    "ownerless": ownerless,
    "fenced marker": fenced_marker,
}
