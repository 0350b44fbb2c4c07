"""Handshake messages of TLS 1.2 and 1.3, as far as they choose keys or name endpoints (RFC 5246, RFC 8446)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

#: Types of handshake messages.
CLIENT_HELLO, SERVER_HELLO, NEW_SESSION_TICKET, ENCRYPTED_EXTENSIONS = 1, 2, 4, 8
CERTIFICATE, CLIENT_KEY_EXCHANGE, FINISHED, KEY_UPDATE = 11, 16, 20, 24

#: Types of extensions.
_SERVER_NAME, _ALPN, _ENCRYPT_THEN_MAC, _EXTENDED_MASTER_SECRET, _SESSION_TICKET = 0, 16, 22, 23, 35
_EARLY_DATA, _SUPPORTED_VERSIONS = 42, 43

TLS_1_2, TLS_1_3 = 0x0303, 0x0304
_VERSIONS = {0x0300: "SSL 3.0", 0x0301: "TLS 1.0", 0x0302: "TLS 1.1", TLS_1_2: "TLS 1.2", TLS_1_3: "TLS 1.3"}

#: The random of a ServerHello that is a HelloRetryRequest (RFC 8446, section 4.1.3).
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")

#: Larger messages are taken for damage.
MAX_MESSAGE_BYTES = 1 << 18


class MalformedHandshake(Exception):
    """A handshake message that does not follow its layout."""


class ClientHello(NamedTuple):
    """What a client offers.

    Attributes:
        random: 32 bytes that name the connection in a key log.
        session_id, ticket: of the session that it would resume; empty without one.
        server_name: SNI; `protocols`: ALPN.
        early_data: whether data precedes the server's answer (TLS 1.3, 0-RTT).
    """

    random: bytes
    session_id: bytes
    ticket: bytes
    server_name: str
    protocols: tuple[str, ...]
    early_data: bool


class ServerHello(NamedTuple):
    """What the server has chosen. `retry`: it is a HelloRetryRequest, and another ClientHello follows."""

    random: bytes
    session_id: bytes
    version: int
    suite: int
    extended_master_secret: bool
    encrypt_then_mac: bool
    protocol: str
    retry: bool


def version_name(version: int) -> str:
    """`TLS 1.3`, or the number of a version without a name."""
    return _VERSIONS.get(version, f"version 0x{version:04x}")


class HandshakeReader:
    """Reads vectors and numbers; a length beyond the end raises MalformedHandshake."""

    def __init__(self, data: bytes) -> None:
        self._data, self._position = data, 0

    @property
    def left(self) -> int:
        return len(self._data) - self._position

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise MalformedHandshake
        self._position += size
        return self._data[self._position - size : self._position]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, length_bytes: int) -> bytes:
        return self.take(self.number(length_bytes))

    def vectors(self, length_bytes: int) -> Iterator[bytes]:
        while self.left:
            yield self.vector(length_bytes)


def _extensions(reader: HandshakeReader) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    if reader.left:  # a TLS 1.2 hello may end without any
        inside = HandshakeReader(reader.vector(2))
        while inside.left:
            kind = inside.number(2)
            found[kind] = inside.vector(2)
    return found


def client_hello(body: bytes) -> ClientHello:
    """Raises MalformedHandshake."""
    reader = HandshakeReader(body)
    reader.take(2)
    random, session_id = reader.take(32), reader.vector(1)
    reader.vector(2)
    reader.vector(1)
    extensions = _extensions(reader)
    return ClientHello(
        random,
        session_id,
        extensions.get(_SESSION_TICKET, b""),
        _server_name(extensions.get(_SERVER_NAME, b"")),
        _protocols(extensions.get(_ALPN, b"")),
        _EARLY_DATA in extensions,
    )


def server_hello(body: bytes) -> ServerHello:
    """Raises MalformedHandshake."""
    reader = HandshakeReader(body)
    version, random, session_id, suite = reader.number(2), reader.take(32), reader.vector(1), reader.number(2)
    reader.take(1)
    extensions = _extensions(reader)
    if chosen := extensions.get(_SUPPORTED_VERSIONS):
        version = HandshakeReader(chosen).number(2)
    return ServerHello(
        random,
        session_id,
        version,
        suite,
        _EXTENDED_MASTER_SECRET in extensions,
        _ENCRYPT_THEN_MAC in extensions,
        "".join(_protocols(extensions.get(_ALPN, b""))[:1]),
        random == _RETRY,
    )


def chosen_protocol(body: bytes) -> str:
    """The protocol (ALPN) in EncryptedExtensions, or nothing. Raises MalformedHandshake."""
    return "".join(_protocols(_extensions(HandshakeReader(body)).get(_ALPN, b""))[:1])


def session_ticket(body: bytes) -> bytes:
    """The ticket of a NewSessionTicket of TLS 1.2 (RFC 5077). Raises MalformedHandshake."""
    reader = HandshakeReader(body)
    reader.take(4)
    return reader.vector(2)


def encrypted_premaster(body: bytes) -> bytes:
    """The beginning of the encrypted premaster secret in a ClientKeyExchange of RSA, by which old key logs name it."""
    return body[2:10]


def certificate_name(body: bytes, version: int) -> str:
    """The subject of the first certificate of a Certificate message; nothing where there is none, or none readable."""
    from cryptography import x509

    try:
        reader = HandshakeReader(body)
        if version == TLS_1_3:
            reader.vector(1)  # context of a request
        chain = HandshakeReader(reader.vector(3))
        return x509.load_der_x509_certificate(chain.vector(3)).subject.rfc4514_string() if chain.left else ""
    except (MalformedHandshake, ValueError):
        return ""


def _server_name(data: bytes) -> str:
    if not data:
        return ""
    reader = HandshakeReader(HandshakeReader(data).vector(2))
    kind, name = reader.number(1), reader.vector(2)
    return "" if kind else name.decode("ascii", "backslashreplace")


def _protocols(data: bytes) -> tuple[str, ...]:
    if not data:
        return ()
    return tuple(
        name.decode("ascii", "backslashreplace") for name in HandshakeReader(HandshakeReader(data).vector(2)).vectors(1)
    )


class HandshakeMessages:
    """Splits the content of handshake records into messages."""

    def __init__(self) -> None:
        self._data = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Type and body of each message that is complete now. Raises MalformedHandshake."""
        self._data += data
        start = 0
        while len(self._data) - start >= 4:
            kind, high, low = struct.unpack_from(">BBH", self._data, start)
            end = start + 4 + (high << 16 | low)
            if end - start > MAX_MESSAGE_BYTES:
                raise MalformedHandshake
            if len(self._data) < end:
                break
            yield kind, self._data[start + 4 : end]
            start = end
        self._data = self._data[start:]

    def clear(self) -> None:
        """Forgets an incomplete message, after a loss."""
        self._data = b""
