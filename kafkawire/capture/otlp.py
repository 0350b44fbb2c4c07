"""`export`: exchanges as OpenTelemetry spans, in the messages that OTLP exporters write.

A span is one exchange: the client's call of an api. Attributes follow the semantic conventions for messaging with
Kafka; those without a convention begin with `kafkawire.`. Ids are derived from the exchange, so that every run on a
capture gives the same spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import pairwise
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.capture.named_entities import NAMED_TOPIC_ID, PARTITION, PARTITIONS, NamedEntities
from kafkawire.capture.topic_names import TopicNames
from kafkawire.capture.tracker import FoundExchanges, SpansOfExchanges
from kafkawire.rows import Exchange
from kafkawire.wire.json_form import uuid_text

#: Limits of one message: spans, and characters of their attributes.
_MOST_SPANS, _MOST_CHARACTERS = 500, 1 << 20
_CLIENT_KIND, _ERROR_STATUS = 3, 2

#: api -> `messaging.operation.type`
_OPERATIONS = {
    "Produce": "send",
    "Fetch": "receive",
    "ShareFetch": "receive",
    "OffsetCommit": "settle",
    "TxnOffsetCommit": "settle",
    "ShareAcknowledge": "settle",
}
#: The fields of a row that identify its exchange.
_IDENTITY = (
    "time_ns", "packet", "response_time_ns", "response_packet", "client", "broker", "connection", "correlation_id",
    "api_key", "request_bytes",
)  # fmt: skip

Json = dict[str, Any]


class TraceExport(msgspec.Struct, frozen=True, rename="camel"):
    """An `ExportTraceServiceRequest` in the JSON form of OTLP."""

    resource_spans: list[Json]


def export(exchanges: Iterable[FoundExchanges], *, version: str, live: bool = False) -> Iterator[TraceExport]:
    """The spans of exchanges, in messages of at most 500 spans and about a mebibyte.

    Args:
        exchanges: in their order, with their messages (`keep` of `capture.read`), or as spans. Rows without a request
            and a response are problems, not exchanges, and have no span.
        version: of the instrumentation scope.
        live: a message for each span, as soon as its exchange is complete.
    """
    batch: list[msgspec.Raw] = []
    size = 0
    for span, weight in _weighed(exchanges):
        batch.append(msgspec.Raw(span))
        size += weight
        if live or len(batch) >= _MOST_SPANS or size >= _MOST_CHARACTERS:
            yield _message(batch, version)
            batch, size = [], 0
    if batch:
        yield _message(batch, version)


def _weighed(exchanges: Iterable[FoundExchanges]) -> Iterator[tuple[bytes, int]]:
    """Spans as JSON, with their weights."""
    writer = SpanWriter()
    for found in exchanges:
        if isinstance(found, SpansOfExchanges):
            yield from zip(found.spans, found.weights, strict=True)
        elif isinstance(found, CapturedExchange):
            span = writer.written(found) if found.span is UNSET else found.span
            if span is not None:
                yield span


def _message(spans: list[msgspec.Raw], version: str) -> TraceExport:
    scope = {"name": "kafkawire", "version": version}
    resource = {"attributes": _attributes({"service.name": "kafkawire"})}
    return TraceExport([{"resource": resource, "scopeSpans": [{"scope": scope, "spans": spans}]}])


class SpanWriter:
    """Turns exchanges into spans. It learns the names of topics from responses.

    The native engine (`native/src/capture/spans.rs`) writes spans of what is plain, and asks `digest` and `topic`.
    """

    def __init__(self) -> None:
        self._topics = TopicNames()
        self._last = b""
        self._repeated = 0

    def learn(self, name: bytes, topic_id: bytes) -> None:
        """Takes the name of a topic from a response, as on the wire."""
        self._topics.add(UUID(bytes=topic_id), name.decode("utf-8", "surrogateescape"))

    def topic(self, topic_id: bytes) -> tuple[bool, bytes]:
        """Whether the name of an id is known, and the name or the id's text."""
        found = UUID(bytes=topic_id)
        name = self._topics.name_of(found)
        return name is not None, (name or uuid_text(found)).encode("utf-8", "surrogateescape")

    def with_span(self, matched: CapturedExchange, names: list[tuple[int, bytes]]) -> CapturedExchange:
        """The exchange with its span. `names`: what the engine found in a request or a response that is no object."""
        for (_, name), (what, topic_id) in pairwise(names):
            if what == NAMED_TOPIC_ID:
                self.learn(name, topic_id)
        return replace(matched, span=self.written(matched, names))

    def written(self, matched: CapturedExchange, names: Iterable[tuple[int, bytes]] = ()) -> tuple[bytes, int] | None:
        """The span of an exchange as JSON, with its weight; None where it has none."""
        span = self.span(matched, [*names])
        if span is None:
            return None
        weight = sum(len(each["key"]) + len(str(each["value"])) for each in span["attributes"]) + len(span["name"])
        return msgspec.json.encode(span), weight

    def digest(self, identity: bytes) -> str:
        """Hexadecimal digits that identify an exchange, whatever the selection and the file's name."""
        # Equal ones, in one packet, are neighbours.
        self._repeated = self._repeated + 1 if identity == self._last else 0
        self._last = identity
        return sha256(identity + (str(self._repeated).encode() if self._repeated else b"")).hexdigest()

    def span(self, matched: CapturedExchange, names: list[tuple[int, bytes]]) -> Json | None:
        row = matched.row
        self._topics.learn(matched.response)
        start = row.response_time_ns if row.time_ns is None else row.time_ns
        if start is None or (row.request_bytes is None and row.response_bytes is None):
            return None
        end = start if row.response_time_ns is None else max(start, row.response_time_ns)
        operation = row.api or "unknown"
        attributes = {**self._attributes_of(matched, names), **_attributes_of_row(row, operation)}
        destination = attributes.get("messaging.destination.name")
        digest = self.digest(repr([getattr(row, name) for name in _IDENTITY]).encode())
        span: Json = {
            "traceId": digest[:32],
            "spanId": digest[32:48],
            "name": _text(operation if destination is None else f"{operation} {destination}"),
            "kind": _CLIENT_KIND,
            "startTimeUnixNano": _time(start),
            "endTimeUnixNano": _time(end),
            "attributes": _attributes(attributes),
        }
        if row.errors:
            errors = ", ".join(f"{name} ({count})" for name, count in row.errors.items())
            span["status"] = {"code": _ERROR_STATUS, "message": errors}
        return span

    def _attributes_of(self, matched: CapturedExchange, names: list[tuple[int, bytes]]) -> Json:
        """What the messages name, where it is one: topic, partition, consumer group."""
        found = NamedEntities().add_values(names)
        partitions = {int.from_bytes(value, signed=True) for what, value in names if what == PARTITION}
        for message in (matched.request, matched.response):
            if message is not None:
                found.add(message, matched.version)
                partitions |= _partitions(message)
        topics = {
            (self._topics.name_of(topic) or topic) if isinstance(topic, UUID) else topic
            for topic in found.topics
            if topic and topic != UUID(int=0)
        }
        attributes: Json = {}
        if len(topics) == 1:
            (topic,) = topics
            key = "kafkawire.topic.id" if isinstance(topic, UUID) else "messaging.destination.name"
            attributes[key] = uuid_text(topic) if isinstance(topic, UUID) else topic
            if len(partitions) == 1:
                attributes["messaging.destination.partition.id"] = str(*partitions)
        groups = found.groups - {""}
        if len(groups) == 1:
            attributes["messaging.consumer.group.name"] = next(iter(groups))
        return attributes


def _attributes_of_row(row: Exchange, operation: str) -> Json:
    host, port = _address(row.broker)
    client_host, client_port = _address(row.client)
    error = max(row.errors.items(), key=lambda found: found[1])[0] if row.errors else None
    return {
        "messaging.system": "kafka",
        "messaging.operation.name": operation,
        "messaging.operation.type": _OPERATIONS.get(operation),
        "messaging.client.id": row.client_id or None,
        "server.address": host,
        "server.port": port,
        "client.address": client_host,
        "client.port": client_port,
        "error.type": error,
        "kafkawire.api.key": row.api_key,
        "kafkawire.api.version": row.version,
        "kafkawire.correlation_id": row.correlation_id,
        "kafkawire.request.bytes": row.request_bytes,
        "kafkawire.response.bytes": row.response_bytes,
        "kafkawire.connection": row.connection,
        "kafkawire.packet": row.packet,
        "kafkawire.file": row.file,
        "kafkawire.problem": row.problem,
    }


def _partitions(message: Any) -> set[int]:
    places = PARTITIONS.get(kafka_name(message) or "")
    if places is None:
        return set()
    topics, partitions, number = places
    return {getattr(part, number) for topic in getattr(message, topics) for part in getattr(topic, partitions)}


def _address(end: str | None) -> tuple[str | None, int | None]:
    if end is None:
        return None, None
    host, _, port = end.rpartition(":")
    return host.strip("[]"), int(port)


def _attributes(values: Json) -> list[Json]:
    """Attributes as OTLP has them; integers of 64 bits are strings in JSON."""
    return [
        {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": _text(value)}}
        for key, value in values.items()
        if value is not None
    ]


def _time(time_ns: int) -> str:
    return str(min(max(time_ns, 0), (1 << 64) - 1))


def _text(text: str) -> str:
    """Text that UTF-8 can carry: names of files may not be text."""
    return text.encode("utf-8", "replace").decode()
