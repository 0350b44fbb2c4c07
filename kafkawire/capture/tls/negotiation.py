"""`Negotiation`: what the handshake of a connection has chosen, and the keys that follow from it and from a key log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from kafkawire.capture.tls import handshake, key_log, key_schedule
from kafkawire.capture.tls.cipher_suites import CipherSuite, cipher_suite, suite_name
from kafkawire.capture.tls.handshake import TLS_1_2, TLS_1_3, ClientHello, ServerHello
from kafkawire.capture.tls.key_log import Secrets
from kafkawire.capture.tls.protection import RecordProtection, missing_ciphers, protection_of

_MOST_TRANSCRIPT_BYTES = 64 << 10


class MustWait(Exception):
    """A record needs what has not come yet: a message of the other direction, or a secret."""


class Failed(Exception):
    """The connection cannot be decrypted; the text is the reason."""


class Keys(NamedTuple):
    """The protection under which records are read, the number of the next one, and the secret of TLS 1.3."""

    protection: RecordProtection
    sequence: int
    secret: bytes = b""


class Negotiation:
    """The handshakes of one connection.

    Attributes:
        client: index of the direction that sent the ClientHello; None without a hello.
        hello, server: the hellos of the last handshake.

    Args:
        secrets: of the key logs.
    """

    def __init__(self, secrets: Secrets) -> None:
        self.client: int | None = None
        self.hello: ClientHello | None = None
        self.server: ServerHello | None = None
        self._secrets = secrets
        self._suite: CipherSuite | None = None
        self._pairs: tuple[tuple[RecordProtection, RecordProtection], ...] = ()  # TLS 1.2: of client and server
        self._transcript = b""
        self._session_hash: Callable[[str], bytes] | None = None
        self._premaster = b""  # what names the encrypted premaster secret
        self._ticket = b""
        self._master_secrets: tuple[bytes, ...] = ()  # of which one is right
        self._protocol = ""
        self._names: dict[int, str] = {}  # direction -> subject of its certificate

    @property
    def version(self) -> int | None:
        """The version chosen; None before the ServerHello, 0 between a HelloRetryRequest and it."""
        return None if self.server is None else self.server.version

    @property
    def missing(self) -> str:
        """The key or message that records wait for, as the reason why they are not decrypted."""
        if self.hello is None:
            return "its ClientHello is not in the capture"
        if self.server is None and not self._secrets.hopeless:
            return f"its handshake is not whole (client random {self.hello.random.hex()})"
        return f"no secret for client random {self.hello.random.hex()}"

    @property
    def description(self) -> str:
        """Version, suite, server name, protocol and certificates, as far as they are known; no secret."""
        parts = []
        if self.server is not None:
            parts.append(f"{handshake.version_name(self.server.version)} {suite_name(self.server.suite)}")
        if self.hello is not None and self.hello.server_name:
            parts.append(f"server name {self.hello.server_name}")
        if protocol := self._protocol or (self.server.protocol if self.server else ""):
            parts.append(f"ALPN {protocol}")
        for index, name in sorted(self._names.items()):
            parts.append(f"{'client' if index == self.client else 'server'} certificate {name}")
        return ", ".join(parts)

    def take(self, index: int, kind: int, body: bytes) -> None:
        """Takes a handshake message. Raises Failed, and MalformedHandshake.

        Args:
            index: of the direction that sent it.
            kind: its type.
        """
        if len(self._transcript) < _MOST_TRANSCRIPT_BYTES and self._session_hash is None:
            self._transcript += bytes([kind]) + len(body).to_bytes(3, "big") + body
        if kind == handshake.CLIENT_HELLO:
            before, retried = self.hello, self.server is not None and self.server.retry
            self.hello, self.client = handshake.client_hello(body), index
            if before is not None and not retried:  # a renegotiation
                self.server = self._session_hash = None
                self._master_secrets = ()
                self._transcript = self._premaster = self._ticket = b""
            self._pairs = ()
        elif kind == handshake.SERVER_HELLO:
            if self.client is None:
                self.client = 1 - index
            self._chosen(handshake.server_hello(body))
        elif kind == handshake.CERTIFICATE and self.version is not None:
            if name := handshake.certificate_name(body, self.version):
                self._names[index] = name
        elif kind == handshake.ENCRYPTED_EXTENSIONS:
            self._protocol = handshake.chosen_protocol(body)
        elif kind == handshake.CLIENT_KEY_EXCHANGE:
            self._premaster = handshake.encrypted_premaster(body)
            transcript, self._transcript = self._transcript, b""
            self._session_hash = lambda name: hashlib.new(name, transcript).digest()
        elif kind == handshake.NEW_SESSION_TICKET and self.version == TLS_1_2:
            self._ticket = handshake.session_ticket(body)
            self._remember()

    def _chosen(self, server: ServerHello) -> None:
        """Takes a ServerHello. Raises Failed for what is not decrypted."""
        if server.retry:
            self.server = server._replace(version=0)
            return
        self.server = server
        self._suite = cipher_suite(server.suite)
        if server.version not in (TLS_1_2, TLS_1_3):
            raise Failed(f"{handshake.version_name(server.version)} is not supported")
        if self._suite is None:
            raise Failed(f"{suite_name(server.suite)} is not supported")
        if missing := missing_ciphers():
            raise Failed(str(missing))

    def traffic_keys(self, index: int, stage: int) -> list[Keys]:
        """The first keys of a direction in a stage of TLS 1.3, one for each secret that the key log states; none if it
        has only those of the other stage.

        Raises MustWait, Failed: it has neither.
        """
        labels = (
            (key_log.CLIENT_HANDSHAKE, key_log.CLIENT_TRAFFIC)
            if index == self.client
            else (key_log.SERVER_HANDSHAKE, key_log.SERVER_TRAFFIC)
        )
        random = self.random
        for _ in range(2):
            found = [self._secrets.traffic_secrets(label, random) for label in labels]
            if found[stage] or (found[1 - stage] and not self._secrets.grows):
                break
            self._secrets.read()
        if not any(found):
            raise self._without_secret()
        return [self._keys_of(secret) for secret in found[stage]]

    def _keys_of(self, secret: bytes) -> Keys:
        assert self._suite is not None
        keys = key_schedule.traffic_keys(self._suite.hash, secret, self._suite.key_bytes)
        return Keys(protection_of(self._suite, keys, tls13=True), 0, secret)

    def updated(self, keys: Keys) -> Keys:
        """The keys after a KeyUpdate."""
        assert self._suite is not None
        return self._keys_of(key_schedule.next_traffic_secret(self._suite.hash, keys.secret))

    def keys_after_change(self, index: int) -> list[Keys]:
        """The first keys of a direction of TLS 1.2, of the last handshake, one for each secret that it may have. Raises
        MustWait, Failed."""
        if not self._pairs:
            self._pairs = self._derived()
        return [Keys(pair[0 if index == self.client else 1], 0) for pair in self._pairs]

    def _derived(self) -> tuple[tuple[RecordProtection, RecordProtection], ...]:
        random = self.random
        hello, server, suite = self.hello, self.server, self._suite
        assert hello is not None
        assert server is not None
        assert suite is not None
        masters = self._masters(hello, server, suite)
        if not masters:
            self._secrets.read()
            masters = self._masters(hello, server, suite)
        if not masters:
            raise self._without_secret()
        self._master_secrets = masters
        self._remember()
        mac_bytes = 0 if suite.mac is None else hashlib.new(suite.mac).digest_size
        iv_bytes = {"CBC": 0, "POLY1305": 12}.get(suite.mode, 4)
        sizes = mac_bytes, suite.key_bytes, iv_bytes

        def pair(master: bytes) -> tuple[RecordProtection, RecordProtection]:
            client, server_side = (
                protection_of(suite, each, tls13=False, encrypt_then_mac=server.encrypt_then_mac)
                for each in key_schedule.key_block(suite.hash, master, server.random + random, sizes)
            )
            return client, server_side

        return tuple(map(pair, masters))

    def _remember(self) -> None:
        """Keeps the master secrets for later connections that resume the session."""
        if self._master_secrets and self.server is not None:
            for session in (self.server.session_id, self._ticket):
                self._secrets.remember(session, self._master_secrets)

    def _masters(self, hello: ClientHello, server: ServerHello, suite: CipherSuite) -> tuple[bytes, ...]:
        """The master secrets that the connection may have: those that are stated, and of premaster secrets."""
        resumed = () if self._premaster else (hello.ticket,)  # a full handshake has a ClientKeyExchange
        found = self._secrets.master_secrets(hello.random, (server.session_id, *resumed))
        premasters = self._secrets.premaster_secrets(hello.random, self._premaster)
        session_hash = None
        if premasters and server.extended_master_secret:
            if self._session_hash is None:
                return found
            session_hash = self._session_hash(suite.hash)
        randoms = hello.random + server.random
        return found + tuple(
            key_schedule.master_secret(suite.hash, premaster, randoms, session_hash) for premaster in premasters
        )

    @property
    def random(self) -> bytes:
        """The client random, by which a key log names the connection. Raises MustWait before the ClientHello."""
        if self.hello is None:
            raise MustWait
        return self.hello.random

    def _without_secret(self) -> Exception:
        return MustWait() if self._secrets.grows else Failed(self.missing)
