"""`History`: what a cluster did, chosen by a seed, up to the end of every transaction that does not hang.

Its truth: the fate of each transaction, and the records that consumers get.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.records import Batch, read
from kafkawire.transactions.coordinator.coordinator_rules import partition_of_id
from tests.audit_logs import HOUR, MINUTE
from tools.audit_faults.histories.producers import HANGS, PLAUSIBLE, SECOND, STAMPS, Application, running
from tools.audit_faults.histories.true_cluster import DATA, IDS, STATE, Cluster, Place, Steps, Timeline, TrueLog

#: Clocks ahead of true time or behind it: right, seconds, minutes.
_CLOCKS = (0, 0, 0, 2 * SECOND, -3 * SECOND, 4 * MINUTE, -5 * MINUTE)
_FAR = (-26 * HOUR, 30 * HOUR)
_TIMEOUTS = (MINUTE, 5 * MINUTE, 15 * MINUTE)


class History:
    """A history, run to its end.

    Attributes:
        brokers: how many. `stale`: a broker that never leads, and has replicated nothing since an event; None: none.
        lags: of each broker, how far its replicas are behind while it follows, milliseconds.
        far: the broker whose clock is far from all others; None: none is.
        hangs: the names of what hangs in it. `stamps`: of its producers.
        busy: the event from which on nothing begins: what runs then is ended.
    """

    def __init__(self, seed: int) -> None:
        self.timeline = timeline = Timeline(seed)
        draw = timeline.draw
        self.brokers = draw.choice([1, 1, 2, 3])
        clocks = [draw.choice(_CLOCKS) for _ in range(self.brokers)]
        self.far = draw.randrange(self.brokers) if self.brokers > 1 and draw.random() < 0.15 else None
        if self.far is not None:
            clocks[self.far] = draw.choice(_FAR)
        self.lags = [draw.choice([0, 0, 500, 20 * SECOND]) for _ in range(self.brokers)]
        stale = draw.randrange(self.brokers) if self.brokers > 1 and draw.random() < 0.3 else None
        electable = [broker for broker in range(self.brokers) if broker != stale]
        self.cluster = Cluster(timeline, clocks, electable)
        self.stamps = {"now"} if draw.random() < 0.4 else set(draw.sample(list(STAMPS), 3))
        self.hangs: list[str] = []
        self.applications = [self._application(number) for number in range(draw.randrange(1, 4))]
        for app in self.applications:
            timeline.start(running(app, draw.randrange(2, 8)), draw.randrange(20 * MINUTE))
        timeline.start(self._brokers(draw.randrange(8)), draw.randrange(10 * MINUTE))
        if draw.random() < 0.4:
            name = draw.choice(list(HANGS))
            self.hangs.append(name)
            timeline.start(
                HANGS[name](self._application(9, version=0 if name == "late batch" else None)), draw.randrange(HOUR)
            )
        timeline.run(until=timeline.now + draw.choice([20 * MINUTE, HOUR, 3 * HOUR]))
        self.busy = len(timeline.moments) - 1
        timeline.run()
        self.stale = None if stale is None else (stale, draw.randrange(len(timeline.moments)))
        timeline.now += 3 * HOUR  # what hangs is older than any limit, by a clock that is two hours ahead, too
        self._last_words()

    @property
    def plausible(self) -> bool:
        """Whether every stamp of a client may be right."""
        return self.stamps <= set(PLAUSIBLE)

    @property
    def clocks_apart(self) -> int:
        """How far the clocks of brokers differ, but for one that is far from all, milliseconds."""
        near = [clock for broker, clock in enumerate(self.cluster.clocks) if broker != self.far]
        return max(near) - min(near)

    @property
    def end(self) -> int:
        """The last event."""
        return len(self.timeline.moments) - 1

    @property
    def logs(self) -> dict[Place, TrueLog]:
        return self.cluster.logs

    def moment(self, event: int) -> int:
        """The true time of an event."""
        return self.timeline.moments[event]

    def clock_at(self, place: Place, event: int) -> int:
        """How far the clock of a partition's leader was ahead of true time."""
        return self.cluster.clocks[self.logs[place].led_at(event)]

    def event_before(self, event: int, milliseconds: int) -> int:
        """The last event that is so long before another."""
        moments = self.timeline.moments
        return next((number for number in range(event, 0, -1) if moments[number] <= moments[event] - milliseconds), 0)

    def _application(self, number: int, version: int | None = None) -> Application:
        draw = self.timeline.draw
        return Application(
            self.cluster,
            f"app-{number}-{draw.randrange(1000)}",
            draw.choice([0, 2]) if version is None else version,
            draw.choice(sorted(self.stamps)),
            draw.choice(_TIMEOUTS),
            self.cluster.producer_id(),
        )

    def _brokers(self, events: int) -> Steps:
        """Segments that roll, and leaders that move."""
        draw = self.timeline.draw
        for _ in range(events):
            yield draw.randrange(20 * MINUTE)
            if draw.random() < 0.5:
                self.logs[draw.choice(DATA)].roll()
            else:
                self.cluster.elect(draw.choice([*STATE, *DATA]), draw.choice(self.cluster.electable))

    def _last_words(self) -> None:
        """The controller and each coordinator write once more."""
        self.cluster.hand_out()
        for _, number in STATE:
            name = next(name for name in map("last-{}".format, range(1000)) if partition_of_id(name, IDS) == number)
            Application(self.cluster, name, 2, "now", MINUTE, self.cluster.producer_id()).write("Empty")


# The truth ------------------------------------------------------------------------------------------------------------


class TrueTransaction(NamedTuple):
    """A transaction in one partition.

    Attributes:
        start: its first offset. `opened`: the event at which that was appended.
        ended: the event of the marker that ends it; None: nothing ever does.
        committed: by its marker.
        begun: when the producer's first partition of it got data.
    """

    place: Place
    producer_id: int
    start: int
    opened: int
    ended: int | None = None
    committed: bool = False
    begun: int = 0

    def open_at(self, event: int) -> bool:
        """Whether it has begun and not ended."""
        return self.opened <= event and (self.ended is None or self.ended > event)


class Truth(NamedTuple):
    """Of a history.

    Attributes:
        transactions: by partition and first offset.
        consumed: by partition, the offsets of records that a read_committed consumer gets.
    """

    transactions: dict[tuple[Place, int], TrueTransaction]
    consumed: dict[Place, list[int]]


def truth_of(history: History) -> Truth:
    """Of all partitions of data."""
    transactions: dict[tuple[Place, int], TrueTransaction] = {}
    consumed = {}
    for place in DATA:
        found, consumed[place] = _replayed(place, history.logs[place])
        transactions |= {(place, one.start): one for one in found}
    return Truth(
        {key: one._replace(begun=_begun(one, transactions.values())) for key, one in transactions.items()}, consumed
    )


def _begun(one: TrueTransaction, all_: Iterable[TrueTransaction]) -> int:
    """The first event of what its producer had open when it opened."""
    return min(other.opened for other in all_ if other.producer_id == one.producer_id and other.open_at(one.opened))


def _replayed(place: Place, log: TrueLog) -> tuple[list[TrueTransaction], list[int]]:
    """From a producer's first transactional batch to its next marker is a transaction."""
    running: dict[int, TrueTransaction] = {}
    ended: dict[int, TrueTransaction] = {}
    data: list[tuple[range, int | None]] = []
    for appended in log.appended:
        for batch in read(appended.data):
            assert isinstance(batch, Batch)
            producer = batch.producer_id
            if batch.is_control:
                if (one := running.pop(producer, None)) is not None:
                    committed = batch.control is not None and batch.control.name == "COMMIT"
                    ended[one.start] = one._replace(ended=appended.event, committed=committed)
                continue
            if batch.transactional and producer not in running:
                running[producer] = TrueTransaction(place, producer, batch.base_offset, appended.event)
            start = running[producer].start if batch.transactional else None
            data.append((range(batch.base_offset, batch.last_offset + 1), start))
    stable = min([log.end, *(one.start for one in running.values())])
    read_ = [
        offset
        for offsets, start in data
        if offsets.start < stable and (start is None or ended[start].committed)
        for offset in offsets
    ]
    return [*ended.values(), *running.values()], read_
