"""SASL: how a client authenticates (RFC 4616, RFC 5802, RFC 7628). Sans-IO: tokens in, tokens out.

A mechanism is a generator: it yields tokens for the broker, receives the broker's responses, and returns after its last
token. It raises `SaslError` if a response is invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import msgspec

from kafkawire.errors import KafkaWireError, MissingExtraError

SaslExchange = Generator[bytes, bytes, None]

PLAIN = "PLAIN"
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER = "OAUTHBEARER"
MECHANISMS = (PLAIN, *SCRAM, OAUTHBEARER)

ITERATIONS = range(4096, 1_000_001)
"""The iterations of SCRAM's hash that a broker may request. Fewer make the password cheap to guess, and Kafka's client
refuses them (ScramMechanism.minIterations). Kafka accepts credentials of at most 16,384 (KIP-554), but those written
into ZooKeeper had no bound. A million blocks the client for half a second."""


class SaslError(KafkaWireError):
    """A message of the broker is invalid, or one of the client cannot be sent."""


class MskLogin(msgspec.Struct, frozen=True, kw_only=True):
    """A login to Amazon MSK with IAM: AWS's default credentials, those of a profile, or a role that is assumed.
    `region`: of the cluster, "us-east-1". `session`: name of the role's session."""

    region: str
    profile: str = ""
    role: str = ""
    session: str = "kafkawire"


class TokenSource(msgspec.Struct, frozen=True, kw_only=True):
    """The source of OAUTHBEARER tokens: a token, a file with one, an endpoint (client credentials), or AWS's signer.
    `url`: of the token endpoint; https, or http on loopback."""

    token: str | None = None
    file: str | None = None
    url: str | None = None
    client_id: str = ""
    client_secret: str = ""
    scope: str | None = None
    msk: MskLogin | None = None

    def __repr__(self) -> str:
        return f"TokenSource(file={self.file!r}, url={self.url!r}, client_id={self.client_id!r})"


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """The client's identity and its SASL mechanism. `repr` leaves out the secrets. `username`, `password`: of PLAIN and
    SCRAM. `token`: of OAUTHBEARER."""

    mechanism: str
    username: str = ""
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return f"Credentials(mechanism={self.mechanism!r}, username={self.username!r})"

    def exchange(self) -> SaslExchange:
        """A new exchange with a broker."""
        return _CONVERSATIONS[self.mechanism](self)


def _plain(who: Credentials) -> SaslExchange:
    yield b"\0" + who.username.encode() + b"\0" + who.password.encode()


def _scram(who: Credentials) -> SaslExchange:
    scramp = _scramp(who.mechanism)
    try:
        client = scramp.ScramClient([who.mechanism], who.username, who.password)
    except (ValueError, scramp.ScramException) as error:
        raise SaslError(f"user name and password cannot be sent as {who.mechanism} has it: {error}") from None
    server_first = yield client.get_client_first().encode()
    try:
        client.set_server_first(server_first.decode())
        asked = int(client.iterations)
        if asked not in ITERATIONS:
            raise SaslError(
                f"it requests {asked} iterations of {who.mechanism}; this client does {ITERATIONS.start} to "
                f"{ITERATIONS.stop - 1}"
            )
        server_final = yield client.get_client_final().encode()
        client.set_server_final(server_final.decode())  # verifies the broker's proof that it knows the password
    except (ValueError, scramp.ScramException) as error:
        raise SaslError(f"its {who.mechanism} message is wrong: {error}") from None


def _scramp(mechanism: str) -> Any:
    try:
        import scramp
    except ImportError:
        raise MissingExtraError(mechanism, "net") from None
    return scramp


def _bearer(who: Credentials) -> SaslExchange:
    refusal = yield f"n,,\x01auth=Bearer {who.token}\x01\x01".encode()
    if refusal:
        # RFC 7628, 3.2.3: the client ends a failed exchange with this; the broker then sends the error.
        yield b"\x01"
        raise SaslError(f"it refuses the token: {refusal.decode(errors='replace')}")


_CONVERSATIONS: dict[str, Callable[[Credentials], SaslExchange]] = {
    PLAIN: _plain,
    OAUTHBEARER: _bearer,
    **dict.fromkeys(SCRAM, _scram),
}
