"""Tests whether a broker is ready, with two requests that are packed by hand.

They do not use kafkawire's codecs: a broken codec must not look like a broken broker.
Both functions raise OSError while the broker does not answer, and struct.error for an answer that is no Kafka response.
Layouts: request header v1, ApiVersions v0 and Metadata v1 (Kafka's `ApiVersionsRequest.json`, `MetadataRequest.json`).
"""

from __future__ import annotations

import socket
import struct

_API_VERSIONS, _METADATA = 18, 3
_CLIENT_ID = b"tools.broker"
_MAX_RESPONSE = 1 << 20
#: For the connection, and for each read.
_TIMEOUT_S = 2.0


class ProbeError(OSError):
    """The peer's answer is no Kafka response."""


def api_versions(host: str, port: int) -> dict[int, tuple[int, int]]:
    """The versions that a broker supports: {api key: (min, max)}."""
    body = _ask(host, port, _API_VERSIONS, 0, b"")
    error, count = struct.unpack_from(">hi", body)
    if error:
        raise ProbeError(f"ApiVersions answers error {error}")
    entries = struct.iter_unpack(">hhh", body[6 : 6 + 6 * count])
    return {key: (low, high) for key, low, high in entries}


def registered_brokers(host: str, port: int) -> dict[int, tuple[str, int]]:
    """The live brokers according to one broker: {node id: (host, port)}."""
    body = _ask(host, port, _METADATA, 1, struct.pack(">i", 0))
    (count,) = struct.unpack_from(">i", body)
    brokers, at = {}, 4
    for _ in range(count):
        node, length = struct.unpack_from(">ih", body, at)
        at += 6 + length
        name = body[at - length : at].decode()
        address, rack = struct.unpack_from(">ih", body, at)
        at += 6 + max(rack, 0)
        brokers[node] = (name, address)
    return brokers


def _ask(host: str, port: int, api_key: int, version: int, body: bytes) -> bytes:
    request = struct.pack(">hhih", api_key, version, 1, len(_CLIENT_ID)) + _CLIENT_ID + body
    with socket.create_connection((host, port), timeout=_TIMEOUT_S) as peer:
        peer.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _read(peer, 4))
        if not 4 < size <= _MAX_RESPONSE:
            raise ProbeError(f"{host}:{port} answers {size} bytes: this is no Kafka broker")
        return _read(peer, size)[4:]


def _read(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = peer.recv(size - len(data))
        if not part:
            raise ProbeError(f"the connection was closed after {len(data)} of {size} bytes")
        data += part
    return bytes(data)
