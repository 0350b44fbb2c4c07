"""The row of a capture: a request and its response."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from kafkawire.rows.base import Json, Row


class Exchange(Row, frozen=True, kw_only=True):
    """A request and its response (`kafkawire capture`). Where one of them was not captured, its fields are None.

    Attributes:
        time: when the packet with the request's first byte was captured, ISO 8601, UTC.
        time_ns, response_time_ns: of the request's and the response's first byte, epoch nanoseconds.
        file: the capture file, as it was named.
        connection: number of the TCP connection in the file, from 1.
        client, broker: "host:port".
        api: the api's name, Fetch, or `UNKNOWN_<n>`; `api_key` its number; `version` the request's.
        latency_ms: from the request's first byte to the response's.
        request_bytes, response_bytes: sizes of the frames without their four bytes of size.
        packet, response_packet: number of the packet, from 1, that holds the frame's first byte.
        errors: name of each error code but NONE in the response, and how often it is there.
        problem: what could not be decoded, and why.
        request, response: the bodies in the JSON form of Kafka's `*JsonConverter`; only with bodies asked for.
    """

    time: str | None = None
    time_ns: int | None = None
    response_time_ns: int | None = None
    file: str | None = None
    connection: int | None = None
    client: str | None = None
    broker: str | None = None
    api: str | None = None
    api_key: int | None = None
    version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    latency_ms: float | None = None
    request_bytes: int | None = None
    response_bytes: int | None = None
    packet: int | None = None
    response_packet: int | None = None
    errors: dict[str, int] = msgspec.field(default_factory=dict)
    problem: str | None = None
    request: Json | UnsetType | None = UNSET
    response: Json | UnsetType | None = UNSET


class ExchangeStatistics(Row, frozen=True, kw_only=True):
    """What one client asked of one api in one version (`kafkawire capture --stats`).

    Attributes:
        count: exchanges; `unanswered`: those whose response was not captured.
        request_bytes, response_bytes: of all frames together.
        latency_p50_ms, latency_p95_ms, latency_p99_ms: quantiles, right to 1 %; `latency_max_ms` is exact.
        errors: name of each error code but NONE, and how often it came.
        problems: exchanges that could not be decoded wholly.
    """

    api: str | None = None
    api_key: int | None = None
    version: int | None = None
    client_id: str | None = None
    count: int = 0
    unanswered: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    latency_p50_ms: float | None = None
    latency_p95_ms: float | None = None
    latency_p99_ms: float | None = None
    latency_max_ms: float | None = None
    errors: dict[str, int] = msgspec.field(default_factory=dict)
    problems: int = 0


class Step(Row, frozen=True, kw_only=True):
    """Something that a transactional producer did (`kafkawire capture --timeline`); the fields that an exchange has
    too mean the same.

    Attributes:
        what: in a few words: partitions, records and sequence numbers, commit or abort.
        transactional_id, producer_id: where the request names just one.
    """

    time: str | None = None
    time_ns: int | None = None
    file: str | None = None
    connection: int | None = None
    client: str | None = None
    broker: str | None = None
    api: str | None = None
    version: int | None = None
    what: str | None = None
    transactional_id: str | None = None
    producer_id: int | None = None
    latency_ms: float | None = None
    errors: dict[str, int] = msgspec.field(default_factory=dict)
    problem: str | None = None
    packet: int | None = None
