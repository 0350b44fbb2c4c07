"""TLS connections made by OpenSSL (Python's `ssl`) in memory: the bytes that each side sends, and the key log."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

CLIENT, SERVER = 0, 1


@cache
def credentials(kind: str, name: str = "broker1.example") -> bytes:
    """A key (`rsa` or `ec`) and a certificate that signs itself, as PEM."""
    pytest.importorskip("cryptography")
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    key: Any = rsa.generate_private_key(65537, 2048) if kind == "rsa" else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ) + certificate.public_bytes(serialization.Encoding.PEM)


@dataclass(repr=False)  # Hypothesis would print it
class Traffic:
    """What both sides of a connection sent, in order: side and bytes. `session`: to be resumed."""

    sent: list[tuple[int, bytes]] = field(default_factory=list)
    session: ssl.SSLSession | None = None
    version: str = ""
    suite: str = ""

    def bytes_of(self, side: int) -> bytes:
        return b"".join(data for sender, data in self.sent if sender == side)


class Endpoints:
    """A client and a server of one configuration, whose connections share a key log.

    Args:
        folder: for keys and the key log.
        versions: of TLS, the lowest and the highest.
        ciphers: OpenSSL's names of the suites of TLS 1.2.
        key: `rsa` or `ec`.
        mutual: the client has a certificate, too.
        configure: further settings of both contexts.
    """

    def __init__(
        self,
        folder: Path,
        version: ssl.TLSVersion,
        *,
        ciphers: str | None = None,
        key: str = "rsa",
        mutual: bool = False,
        configure: Callable[[ssl.SSLContext], object] = lambda context: None,
    ) -> None:
        self.key_log = folder / "keys.log"
        pem = folder / f"{key}.pem"
        pem.write_bytes(credentials(key))
        self.client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.client.check_hostname, self.client.verify_mode = False, ssl.CERT_NONE
        self.client.keylog_filename = str(self.key_log)
        self.server.load_cert_chain(pem)
        if mutual:
            own = folder / "client.pem"
            own.write_bytes(credentials(key, "orders-service"))
            self.client.load_cert_chain(own)
            self.server.verify_mode = ssl.CERT_REQUIRED
            self.server.load_verify_locations(own)
        for context in (self.client, self.server):
            context.minimum_version = context.maximum_version = version
            if ciphers:
                context.set_ciphers(ciphers)
            configure(context)

    def connect(
        self,
        messages: Iterable[tuple[int, bytes]],
        *,
        session: ssl.SSLSession | None = None,
    ) -> Traffic:
        """One connection: its handshake, then messages (side and bytes), then its end."""
        inbound = (ssl.MemoryBIO(), ssl.MemoryBIO())
        outbound = (ssl.MemoryBIO(), ssl.MemoryBIO())
        ends = (
            self.client.wrap_bio(inbound[0], outbound[0], server_hostname="broker1.example", session=session),
            self.server.wrap_bio(inbound[1], outbound[1], server_side=True),
        )
        traffic = Traffic()

        def flush(side: int) -> None:
            if data := outbound[side].read():
                traffic.sent.append((side, data))
                inbound[1 - side].write(data)

        done = [False, False]
        while not all(done):
            for side, end in enumerate(ends):
                with suppress(ssl.SSLWantReadError):
                    end.do_handshake()
                    done[side] = True
                flush(side)
        for side, data in messages:
            ends[side].write(data)
            flush(side)
            assert _read(ends[1 - side], len(data)) == data
        for side in (CLIENT, SERVER):  # a server resumes no session that was not shut down
            with suppress(ssl.SSLWantReadError):
                ends[side].unwrap()
            flush(side)
        traffic.session = ends[CLIENT].session
        traffic.version, traffic.suite = str(ends[CLIENT].version()), str(ends[CLIENT].cipher()[0])  # type: ignore[index]
        return traffic


def _read(end: ssl.SSLObject, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += end.read(size - len(data))
    return data
