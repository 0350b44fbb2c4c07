"""`ProducerOverlaps`: producers that two connections use at the same time, with one producer id and epoch (zombies).

A producer has one connection to each broker, and may have another one for its transactions. So two connections are
those of two producers if their clients are different hosts, or if both send the same kind of requests to one broker.
They are used at the same time if one is used, then the other, then the first one again. A reconnect is not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire import records
from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name, kafka_name_of
from kafkawire.capture.named_entities import PRODUCER, PRODUCER_EPOCH, PRODUCER_ID

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

#: Limits: producers that are remembered, connections of each, overlaps that are listed.
MOST_PRODUCERS, _MOST_CONNECTIONS, _MOST_LISTED = 10_000, 64, 100
_PRODUCE, _ADD_PARTITIONS, _ADD_OFFSETS, _END = 0, 24, 25, 26
#: The requests that a producer sends with its id and epoch, by their api keys.
APIS = frozenset((_PRODUCE, _ADD_PARTITIONS, _ADD_OFFSETS, _END))
#: From this version on brokers send AddPartitionsToTxn, too, to verify what producers sent.
_BROKERS_ADD_PARTITIONS = 4


#: A connection, its client and its broker.
_Ends = tuple[int, str, str]


class _Use(msgspec.Struct):
    """The last use of a producer id and epoch by a connection."""

    connection: int
    client: str
    broker: str
    produces: bool
    order: int
    time_ns: int

    def is_other_producer(self, other: _Use) -> bool:
        """Whether the two connections cannot be those of one producer."""
        if self.client.rpartition(":")[0] != other.client.rpartition(":")[0]:
            return True
        return self.connection != other.connection and (self.broker, self.produces) == (other.broker, other.produces)

    def __str__(self) -> str:
        return f"connection {self.connection} ({self.client} - {self.broker})"


class ProducerOverlap(msgspec.Struct):
    """Two connections that use one producer id and epoch at the same time.

    Attributes:
        connections: both, as text. `first_ns`, `last_ns`: from when to when they took turns, epoch nanoseconds.
        turns: how often a request of the one followed requests of the other.
    """

    producer_id: int
    epoch: int
    connections: tuple[str, str]
    first_ns: int
    last_ns: int
    turns: int = 0


class ProducerOverlaps:
    """Finds overlaps. Its memory is bounded: of many producers those are forgotten that were used least recently.

    Attributes:
        found: the overlaps, by producer id, epoch and connections; the first ones.
    """

    def __init__(self) -> None:
        self.found: dict[tuple[int, int, int, int], ProducerOverlap] = {}
        self._uses: OrderedDict[tuple[int, int], dict[tuple[int, bool], _Use]] = OrderedDict()
        self._order = 0

    def add(self, matched: CapturedExchange) -> str | None:
        """Takes the next exchange in order, with its request; returns the sentence for one that overlaps another's.

        Exchanges of other apis and without a request are passed over.
        """
        row = matched.row
        if matched.request is None or row.connection is None or row.time_ns is None:
            return None
        producers = _producers(matched.request, row.api_key, matched.version)
        return self._use(row.api_key, (row.connection, row.client or "", row.broker or ""), row.time_ns, producers)

    def add_uses(self, uses: Iterable[tuple[int, _Ends, int, list[tuple[int, int]]]]) -> None:
        """Takes requests that the native engine has read: api key, connection, time, and producer ids with epochs. Of
        several in a row with equal ones, it gives the last."""
        for api_key, ends, time_ns, producers in uses:
            self._use(api_key, ends, time_ns, {each for each in producers if each[0] >= 0})

    def _use(self, api_key: int | None, ends: _Ends, time_ns: int, producers: set[tuple[int, int]]) -> str | None:
        sentence = None
        connection, client, broker = ends
        self._order += 1
        for producer_id, epoch in producers:
            uses = self._uses.setdefault((producer_id, epoch), {})
            self._uses.move_to_end((producer_id, epoch))
            produces = api_key == _PRODUCE
            mine = _Use(connection, client, broker, produces, self._order, time_ns)
            before = uses.pop((connection, produces), None)
            for other in uses.values():
                if before is not None and other.order > before.order and mine.is_other_producer(other):
                    self._note(producer_id, epoch, before, other, mine)
                    sentence = f"producer id {producer_id} epoch {epoch} is used at the same time by {other}"
            uses[connection, produces] = mine
            if len(uses) > _MOST_CONNECTIONS:
                del uses[next(iter(uses))]
        while len(self._uses) > MOST_PRODUCERS:
            self._uses.popitem(last=False)
        return sentence

    def _note(self, producer_id: int, epoch: int, before: _Use, other: _Use, mine: _Use) -> None:
        ends = (mine.connection, other.connection)
        key = (producer_id, epoch, min(ends), max(ends))
        found = self.found.get(key)
        if found is None:
            if len(self.found) >= _MOST_LISTED:
                return
            first, second = sorted((mine, other), key=lambda use: use.connection)
            found = ProducerOverlap(producer_id, epoch, (str(first), str(second)), before.time_ns, mine.time_ns)
            self.found[key] = found
        found.last_ns = mine.time_ns
        found.turns += 1


def producer_codes(cls: type[Message]) -> dict[str, int]:
    """The fields of a request with its producer ids and epochs, by their names."""
    if kafka_name_of(cls) is None or cls.spec.kind != "request" or cls.spec.api_key not in APIS:
        return {}
    before = "V3AndBelow" if cls.spec.api_key == _ADD_PARTITIONS else ""
    of_batches = {"Records": PRODUCER} if cls.spec.api_key == _PRODUCE else {}
    return of_batches or {f"{before}ProducerId": PRODUCER_ID, f"{before}ProducerEpoch": PRODUCER_EPOCH}


def _producers(request: Any, api_key: int | None, version: int) -> set[tuple[int, int]]:
    """The producer ids and epochs that a request is sent with."""
    if kafka_name(request) is None:
        return set()
    if api_key == _PRODUCE:
        found = {
            (batch.producer_id, batch.producer_epoch)
            for topic in request.topic_data
            for part in topic.partition_data
            for batch in records.read(part.records or b"", check_crc=False, check_offsets=False)
            if isinstance(batch, records.Batch)
        }
    elif api_key == _ADD_PARTITIONS and version < _BROKERS_ADD_PARTITIONS:
        found = {(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)}
    elif api_key in (_ADD_OFFSETS, _END):
        found = {(request.producer_id, request.producer_epoch)}
    else:
        found = set()
    return {each for each in found if each[0] >= 0}
