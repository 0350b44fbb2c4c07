"""`ExchangeSelection`: the criteria by which exchanges are chosen."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import msgspec

from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.named_entities import (
    NAMED_TOPIC_ID,
    PRODUCER,
    PRODUCER_ID,
    TOPIC,
    TOPIC_ID,
    TRANSACTIONAL_ID,
    NamedEntities,
)
from kafkawire.capture.topic_names import TopicNames
from kafkawire.rows import Exchange

_MOST = 1 << 63


class ExchangeSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Criteria for exchanges. An exchange must match each criterion by one of its values; unset criteria match all.

    Attributes:
        apis: names of apis, in any case (`Produce`), or api keys as text.
        client_ids, topics, transactional_ids, producer_ids: named by the request or by the response.
        errors: only exchanges with an error code in the response, or with a problem.
        slow_ms: least latency in milliseconds; a request without a response is slow.
        connections: numbers of TCP connections in the file.
        ports: of the broker or the client.
        times: half-open range of the request's time, epoch milliseconds; None: no bound.
    """

    apis: tuple[str, ...] = ()
    client_ids: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    transactional_ids: tuple[str, ...] = ()
    producer_ids: tuple[int, ...] = ()
    errors: bool = False
    slow_ms: float | None = None
    connections: tuple[int, ...] = ()
    ports: tuple[int, ...] = ()
    times: tuple[int | None, int | None] | None = None

    @property
    def all(self) -> bool:
        """Whether all exchanges match."""
        return self == ExchangeSelection()

    @property
    def looks_inside(self) -> bool:
        """Whether the criteria need decoded messages."""
        return bool(self.topics or self.transactional_ids or self.producer_ids)


class Criteria(msgspec.Struct, frozen=True, kw_only=True):
    """A selection as the native engine has it (`native/src/capture/selection.rs`)."""

    apis: bool
    client_ids: list[str]
    errors: bool
    slow_ms: float | None
    connections: tuple[int, ...]
    ports: tuple[int, ...]
    times: tuple[int | None, int | None] | None
    topics: set[bytes]
    transactional_ids: set[bytes]
    producer_ids: set[int]
    never: bool
    topic_ids: set[bytes]


class Selector:
    """Matches exchanges with a selection. It learns the ids of topics from responses.

    Attributes:
        topic_ids: those of the selected topics, as far as the native engine has read responses that contain them.
        new_topic_ids: those that the last exchange contained.
    """

    def __init__(self, selection: ExchangeSelection) -> None:
        self._selection = selection
        self._apis = {api.lower() for api in selection.apis}
        self._topics = frozenset(selection.topics)
        self._names_of_ids = TopicNames()
        self.topic_ids: set[bytes] = set()
        self.new_topic_ids: list[bytes] = []

    @property
    def looks_inside(self) -> bool:
        return self._selection.looks_inside

    @property
    def criteria(self) -> Criteria:
        wanted = self._selection
        client_ids = [each for each in wanted.client_ids if _is_utf8(each)]
        return Criteria(
            apis=bool(wanted.apis),
            client_ids=client_ids,
            errors=wanted.errors,
            slow_ms=wanted.slow_ms,
            connections=_int64(wanted.connections),
            ports=_int64(wanted.ports),
            times=wanted.times and (_nanoseconds(wanted.times[0]), _nanoseconds(wanted.times[1])),
            topics={topic.encode("utf-8", "surrogateescape") for topic in wanted.topics},
            transactional_ids={each.encode("utf-8", "surrogateescape") for each in wanted.transactional_ids},
            producer_ids={*_int64(wanted.producer_ids)},
            # Of what cannot be on the wire, nothing is left to match.
            never=any(
                given and not left
                for given, left in (
                    (wanted.client_ids, client_ids),
                    (wanted.connections, _int64(wanted.connections)),
                    (wanted.ports, _int64(wanted.ports)),
                    (wanted.producer_ids, _int64(wanted.producer_ids)),
                )
            ),
            topic_ids=set(),
        )

    @property
    def names(self) -> set[int]:
        """The names that have to be found in messages (`named_entities`)."""
        wanted = self._selection
        return {
            *((TOPIC, TOPIC_ID, NAMED_TOPIC_ID) if wanted.topics else ()),
            *((TRANSACTIONAL_ID,) if wanted.transactional_ids else ()),
            *((PRODUCER_ID, PRODUCER) if wanted.producer_ids else ()),
        }

    def takes_api(self, name: str, api_key: int) -> bool:
        return not self._apis or name.lower() in self._apis or str(api_key) in self._apis

    def selects(self, matched: CapturedExchange, names: Iterable[tuple[int, bytes]] = ()) -> bool:
        """Whether the exchange matches. Call it for all exchanges, in their order.

        Args:
            matched: the exchange.
            names: what the native engine found in a request or a response that is no object.
        """
        wanted, row = self._selection, matched.row
        if wanted.topics:
            new = self._names_of_ids.learn(matched.response)
            self.new_topic_ids = [each.bytes for each in self._names_of_ids.ids_of(self._topics)] if new else []
        if self._apis and (row.api or "").lower() not in self._apis and str(row.api_key) not in self._apis:
            return False
        if wanted.client_ids and row.client_id not in wanted.client_ids:
            return False
        if wanted.errors and not row.errors and row.problem is None:
            return False
        if wanted.slow_ms is not None and not _slow(wanted.slow_ms, row):
            return False
        if wanted.connections and row.connection not in wanted.connections:
            return False
        if wanted.ports and not any(_port(end) in wanted.ports for end in (row.client, row.broker)):
            return False
        time_ns = row.response_time_ns if row.time_ns is None else row.time_ns
        if wanted.times is not None and not _within(wanted.times, time_ns):
            return False
        return not wanted.looks_inside or self._names(matched, names)

    def _names(self, matched: CapturedExchange, names: Iterable[tuple[int, bytes]]) -> bool:
        found = NamedEntities().add_values(names)
        for message in (matched.request, matched.response):
            if message is not None:
                found.add(message, matched.version)
        wanted = self._selection
        return (
            (not wanted.topics or any(self._is_selected(topic) for topic in found.topics))
            and (not wanted.transactional_ids or not found.transactional_ids.isdisjoint(wanted.transactional_ids))
            and (not wanted.producer_ids or not found.producer_ids.isdisjoint(wanted.producer_ids))
        )

    def _is_selected(self, topic: str | UUID) -> bool:
        if not isinstance(topic, UUID):
            return topic in self._topics
        return topic.bytes in self.topic_ids or self._names_of_ids.name_of(topic) in self._topics


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _int64(numbers: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(number for number in numbers if -_MOST <= number < _MOST)


def _nanoseconds(milliseconds: int | None) -> int | None:
    return None if milliseconds is None else max(-_MOST, min(milliseconds * 1_000_000, _MOST - 1))


def _slow(at_least_ms: float, row: Exchange) -> bool:
    if row.latency_ms is not None:
        return row.latency_ms >= at_least_ms
    # A Produce request with acks=0 has no response and no problem.
    return row.request_bytes is not None and row.problem is not None


def _port(end: str | None) -> int | None:
    return None if end is None else int(end.rpartition(":")[2])


def _within(times: tuple[int | None, int | None], time_ns: int | None) -> bool:
    if time_ns is None:
        return False
    first, last = times
    return (first is None or time_ns >= first * 1_000_000) and (last is None or time_ns < last * 1_000_000)
