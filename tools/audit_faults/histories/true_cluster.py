"""`Cluster`: brokers with clocks of their own, the true log of each partition, and the metadata of the cluster; and
`Timeline`: tasks that act one after the other, in the order of true time.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from kafkawire.messages import ConfigRecord, PartitionChangeRecord, PartitionRecord, ProducerIdsRecord, TopicRecord
from kafkawire.records import Record
from kafkawire.records.header import CONTROL
from kafkawire.transactions.facts import CLUSTER_METADATA, TRANSACTION_STATE
from tests.audit_logs import NOON, PartitionLog

#: A task: what it does happens between its values, each of which is how long it waits, in milliseconds.
Steps = Iterator[int]


class Timeline:
    """True time, and the events in it.

    Attributes:
        draw: of the seed.
        now: epoch milliseconds, on no broker's clock.
        moments: the time of each event: an append to a log. Its number is its place here.
    """

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.now = NOON
        self.moments: list[int] = []
        self._started = 0
        self._due: list[tuple[int, int, Steps]] = []

    def event(self) -> int:
        """A new event; returns its number."""
        self.moments.append(self.now)
        return len(self.moments) - 1

    def start(self, steps: Steps, after: int = 0) -> None:
        """Begin a task after some milliseconds."""
        self._started += 1
        heapq.heappush(self._due, (self.now + after, self._started, steps))

    def run(self, until: int | None = None) -> None:
        """Let all tasks act, to their ends; with `until`, those that are due before that time."""
        while self._due and (until is None or self._due[0][0] < until):
            self.now, _, steps = heapq.heappop(self._due)
            wait = next(steps, None)
            if wait is not None:
                self.start(steps, wait)
        self.now = max(self.now, until or 0)


#: Topic and partition.
Place = tuple[str, int]

IDS = 3
#: Partitions of data; those of the last topic have the broker's time of append.
ORDERS, EVENTS = "orders", "events"
DATA: tuple[Place, ...] = ((ORDERS, 0), (ORDERS, 1), (EVENTS, 0))
STATE: tuple[Place, ...] = tuple((TRANSACTION_STATE, number) for number in range(IDS))
METADATA: Place = (CLUSTER_METADATA, 0)
_UUIDS = {topic: UUID(int=number) for number, topic in enumerate((TRANSACTION_STATE, ORDERS, EVENTS), 1)}
_FRAME = 1
_TOPIC = 2
#: Where the low byte of a batch's attributes is.
_ATTRIBUTES = 22


_Controlled = TopicRecord | ConfigRecord | PartitionRecord | PartitionChangeRecord | ProducerIdsRecord


class Appended(NamedTuple):
    """Bytes in a log.

    Attributes:
        event: when they were appended. `end`: the log's end then.
        stamped: whether they have a broker's time.
    """

    event: int
    end: int
    data: bytes
    stamped: bool


class TrueLog(PartitionLog):
    """The log of a partition as it truly is: it has lost nothing.

    Attributes:
        by_clients: whether its data has the times of clients.
        appended: by event. `rolls`: the base offsets of its segments with the events at which they began.
        leaders: the broker that leads it, from each event on.
    """

    def __init__(self, timeline: Timeline, place: Place, leader: int) -> None:
        super().__init__(Path())
        self.by_clients = place[0] == ORDERS
        self.timeline = timeline
        self.appended: list[Appended] = []
        self.rolls: list[tuple[int, int]] = [(0, 0)]
        self.leaders: list[tuple[int, int]] = [(0, leader)]

    @property
    def leader(self) -> int:
        return self.leaders[-1][1]

    def led_at(self, event: int) -> int:
        """The leader at an event."""
        return next(leader for since, leader in reversed(self.leaders) if since <= event)

    def end_at(self, event: int) -> int:
        """The log's end after an event."""
        return next((one.end for one in reversed(self.appended) if one.event <= event), 0)

    def roll(self) -> None:
        if self.end > self.rolls[-1][0]:
            self.rolls.append((self.end, len(self.timeline.moments)))

    def _append(self, data: bytes, offsets: int) -> int:
        self.end += offsets
        stamped = not self.by_clients or bool(data[_ATTRIBUTES] & CONTROL)
        self.appended.append(Appended(self.timeline.event(), self.end, bytes(data), stamped))
        return self.end - offsets


class Cluster:
    """Brokers, each a replica of every partition, and the controller.

    Attributes:
        clocks: of each broker: how far it is ahead of true time, milliseconds.
        logs: by partition. `next_producer_id`: that is not in use yet.
        electable: the brokers that may lead.
    """

    def __init__(self, timeline: Timeline, clocks: list[int], electable: list[int]) -> None:
        draw = timeline.draw
        self.timeline = timeline
        self.clocks = clocks
        self.electable = electable
        self.logs = {place: TrueLog(timeline, place, draw.choice(electable)) for place in (METADATA, *STATE, *DATA)}
        self.next_producer_id = 1000
        brokers = tuple(range(len(clocks)))
        for topic, uuid in _UUIDS.items():
            self._control(
                TopicRecord(name=topic, topic_id=uuid),
                *(
                    PartitionRecord(
                        partition_id=number,
                        topic_id=uuid,
                        replicas=brokers,
                        isr=brokers,
                        leader=log.leader,
                        leader_epoch=0,
                    )
                    for (name, number), log in self.logs.items()
                    if name == topic
                ),
            )
        self._control(
            ConfigRecord(
                resource_type=_TOPIC, resource_name=EVENTS, name="message.timestamp.type", value="LogAppendTime"
            )
        )
        self._control(ProducerIdsRecord(broker_id=0, broker_epoch=1, next_producer_id=2000))

    def clock(self, place: Place) -> int:
        """The time on the clock of a partition's leader."""
        return self.timeline.now + self.clocks[self.logs[place].leader]

    def producer_id(self) -> int:
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def elect(self, place: Place, leader: int) -> None:
        """A partition gets another leader, which has all of its log."""
        log = self.logs[place]
        topic, number = place
        self._control(PartitionChangeRecord(partition_id=number, topic_id=_UUIDS[topic], leader=leader))
        log.leader_epoch += 1
        log.leaders.append((len(self.timeline.moments), leader))

    def hand_out(self) -> None:
        """The controller hands out another block of producer ids, which nothing uses."""
        self._control(ProducerIdsRecord(broker_id=0, broker_epoch=1, next_producer_id=3000))

    def _control(self, *messages: _Controlled) -> None:
        """The controller appends records, in one batch."""
        records = []
        for message in messages:
            key = message.spec.api_key
            assert key is not None
            value = bytes((_FRAME, key, 0)) + message.encode(version=0)
            records.append(Record(value=value, timestamp=self.clock(METADATA)))
        self.logs[METADATA].records(records)
