"""Rows of captures: exchanges, statistics of exchanges, and steps of transactional producers."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from kafkawire.rows.base import Json, Row


class Exchange(Row, frozen=True, kw_only=True):
    """A request and its response (`kafkawire capture`). If one of them was not captured, its fields are None.

    Attributes:
        time: capture time of the packet with the request's first byte, ISO 8601, UTC.
        time_ns, response_time_ns: capture times of the request's and the response's first byte, epoch nanoseconds.
        file: the capture file, as named by the caller.
        connection: number of the TCP connection in the file, from 1.
        client, broker: their addresses, "host:port".
        api: the api's name, for example Fetch, or `UNKNOWN_<n>`.
        api_key: the api's number.
        version: the version of the request.
        latency_ms: time from the request's first byte to the response's first byte.
        request_bytes, response_bytes: sizes of the frames, without their size prefixes of four bytes.
        packet, response_packet: number of the packet with the frame's first byte, from 1.
        errors: number of occurrences of each error code in the response except NONE, by its name.
        problem: what could not be decoded, and why. The bodies then end at the fault: what follows has its defaults.
        note: what is unusual and no problem: bytes after a message, which brokers and clients pass over.
        request, response: the bodies in the JSON form of Kafka's `*JsonConverter`, if bodies were requested; what is
            inside of bytes is beside them, at the field's name and `Decoded`.
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
    note: str | None = None
    request: Json | UnsetType | None = UNSET
    response: Json | UnsetType | None = UNSET


class ExchangeStatistics(Row, frozen=True, kw_only=True):
    """The exchanges of one client with one api in one version (`kafkawire capture --stats`).

    Attributes:
        count: number of exchanges.
        unanswered: number of exchanges whose response was not captured.
        request_bytes, response_bytes: total sizes of the frames.
        latency_p50_ms, latency_p95_ms, latency_p99_ms: quantiles, accurate to 1 %.
        latency_max_ms: exact.
        errors: number of occurrences of each error code except NONE, by its name.
        problems: number of exchanges that could not be decoded completely.
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


class OldClient(Row, frozen=True, kw_only=True):
    """Requests of a client in a version that a release does not speak any more (`kafkawire capture --breaks-at`).

    Attributes:
        host: the client's address, without its port.
        software_name, software_version: of its ApiVersions request (KIP-511); None where it sent none with them on that
            connection.
        release: of Kafka. `speaks`: the versions of the api that it speaks, `4-17`; None: it does not have the api.
        count: number of requests. `packet`: of the first one.
    """

    kind: str = "old_client"
    client_id: str | None = None
    host: str | None = None
    software_name: str | None = None
    software_version: str | None = None
    api: str | None = None
    api_key: int
    version: int
    release: str
    speaks: str | None = None
    count: int
    packet: int


class TimelineStep(Row, frozen=True, kw_only=True):
    """An action of a transactional producer (`kafkawire capture --timeline`).

    Fields of the same name mean the same as in `Exchange`.

    Attributes:
        what: a short description: partitions, records and sequence numbers, commit or abort.
        transactional_id, producer_id: those of the request, if it has exactly one.
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
