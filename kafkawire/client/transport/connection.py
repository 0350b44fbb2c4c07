"""`Connection`: the protocol of a connection to a broker, sans-IO: bytes in, events out.

    connection = Connection("broker-1:9092", client_id="me", credentials=None)
    send(connection.start())
    for event in connection.receive(data):    # b"" where the broker closed the connection
        ...                                   # Ready once, then BrokerResponse for every request
    send(connection.outgoing())
    correlation_id, data = connection.request(body)

It requests the broker's versions (ApiVersions, with the fallback of KIP-511), authenticates (SaslHandshake v1 and
SaslAuthenticate, KIP-152, KIP-43), and then pairs responses with requests. After an error it cannot be used any more.
`frames.encode_request` refuses messages that only KIP texts propose.
"""

from __future__ import annotations

import msgspec

from kafkawire import frames, messages
from kafkawire.client.errors import (
    SASL_MECHANISM,
    SASL_STATE,
    UNSUPPORTED_VERSION,
    AuthenticationError,
    ConnectError,
    PeerError,
    ProtocolError,
)
from kafkawire.client.transport import listener_detection
from kafkawire.client.transport.api_versions import VERSIONS_REQUEST, VersionRange, choose
from kafkawire.client.transport.sasl import Credentials, SaslError, SaslExchange
from kafkawire.errors import DecodeError
from kafkawire.kafka_errors import error_name
from kafkawire.wire.message import Message

#: Brokers from 2.4 on know it; for older ones there is a fallback.
_API_VERSIONS = 3
_HANDSHAKE = 1  # from this version on, tokens are sent in SaslAuthenticate


class Ready(msgspec.Struct, frozen=True):
    """Versions are negotiated and the client is authenticated: requests may be sent.

    Attributes:
        versions: api key -> lowest and highest version that the broker supports.
        session_ms: lifetime of the authentication in milliseconds; 0 for that of the connection (KIP-368).
    """

    versions: dict[int, VersionRange]
    session_ms: int = 0


class BrokerResponse(msgspec.Struct, frozen=True):
    """The response to a request."""

    correlation_id: int
    body: Message
    version: int


ConnectionEvent = Ready | BrokerResponse


class _Pending(msgspec.Struct, frozen=True):
    api_key: int
    version: int
    name: str


class Connection:
    """The protocol of a connection to one broker, without input and output: versions, login, and requests paired with
    responses. `start` and `receive` drive it; `address` is used in the texts of errors.

    Attributes:
        versions: lowest and highest version by api key; empty before `Ready`.
        ready: whether requests may be sent.
    """

    def __init__(
        self,
        address: str,
        *,
        client_id: str | None = None,
        credentials: Credentials | None = None,
        max_response_bytes: int = frames.MAX_FRAME_BYTES,
    ) -> None:
        self.address = address
        self.versions: dict[int, VersionRange] = {}
        self.ready = False
        self._client_id = client_id
        self._credentials = credentials
        self._exchange: SaslExchange | None = None
        self._frames = frames.FrameReader(max_response_bytes)
        self._pending: dict[int, _Pending] = {}
        self._next_id = 0
        self._out = bytearray()
        self._first_bytes = bytearray()  # the first bytes, until a frame has come
        self._answered = 0  # frames that came after Ready

    # Requests -------------------------------------------------------------------------------------------------------

    def start(self) -> bytes:
        """The first bytes for the broker."""
        self._ask_versions(_API_VERSIONS)
        return self.outgoing()

    def outgoing(self) -> bytes:
        """Bytes to send after `receive`."""
        data = bytes(self._out)
        self._out.clear()
        return data

    def request(self, body: Message, *, at_most: int | None = None, at_least: int = 0) -> tuple[int, bytes]:
        """The correlation id and the bytes of a request, in the highest version that both sides know.

        Args:
            at_most, at_least: highest and lowest version to use.

        Raises:
            UnsupportedApiError: there is no common version. EncodeError: `body` is not a request of Kafka's.
        """
        assert self.ready, "no request before Ready"
        version = choose(type(body), self.versions, at_most=at_most, at_least=at_least, address=self.address)
        return self._encoded(body, version)

    def withdraw(self, correlation_id: int) -> None:
        """Forgets a request that was not sent."""
        self._pending.pop(correlation_id, None)

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._pending)

    # Responses ------------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> list[ConnectionEvent]:
        """The events in the broker's bytes; `b""` is the end of its stream.

        Raises:
            ConnectError: the connection cannot be used any more, with the reason in its class and text.
        """
        if not data:
            raise self._closed()
        if self._frames.position == 0:
            self._first_bytes += data[: 64 - len(self._first_bytes)]
            reason = listener_detection.first_bytes(bytes(self._first_bytes))
            if reason is not None:
                raise PeerError(self.address, reason)
        events: list[ConnectionEvent] = []
        try:
            for frame in self._frames.feed(data):
                events += self._frame(frame)
        except DecodeError as error:
            text = f"what it sends is no Kafka response ({error})"
            raise (ProtocolError if self.ready else PeerError)(self.address, text) from None
        return events

    def _frame(self, frame: bytes) -> list[ConnectionEvent]:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        pending = self._pending.pop(correlation_id, None)
        if pending is None or len(frame) < 4:
            kind = ProtocolError if self.ready else PeerError
            raise kind(self.address, f"it answered request {correlation_id}, which was never sent: no Kafka broker?")
        response = frames.decode_response(frame, api_key=pending.api_key, version=pending.version)
        if isinstance(response, frames.UndecodedResponse):
            text = f"its response to {pending.name} v{pending.version} cannot be read: {response.reason}"
            raise ProtocolError(self.address, text)
        body = response.body
        if self.ready:
            self._answered += 1
            return [BrokerResponse(correlation_id, body, response.version)]
        if isinstance(body, messages.ApiVersionsResponse):
            return self._versions(body, pending.version)
        if isinstance(body, messages.SaslHandshakeResponse):
            return self._handshake(body)
        assert isinstance(body, messages.SaslAuthenticateResponse)
        return self._authenticated(body)

    def _closed(self) -> ConnectError:
        if self.ready:
            first = self._pending and not self._answered and self._credentials is None
            return ConnectError(self.address, listener_detection.SASL_HERE if first else listener_detection.LOST)
        if self._exchange is not None:
            return AuthenticationError(self.address, "closed during authentication: wrong credentials, most likely")
        if self._frames.position == 0 and not self._first_bytes:
            return PeerError(self.address, listener_detection.NOT_KAFKA)
        return PeerError(self.address, "closed in the middle of its first response: no Kafka broker, most likely")

    # Before Ready -----------------------------------------------------------------------------------------------------

    def _ask_versions(self, version: int) -> None:
        self._append_request(VERSIONS_REQUEST if version >= _API_VERSIONS else messages.ApiVersionsRequest(), version)

    def _versions(self, body: messages.ApiVersionsResponse, version: int) -> list[ConnectionEvent]:
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in body.api_keys}
        if body.error_code == UNSUPPORTED_VERSION and version > 0:
            own = messages.ApiVersionsRequest.spec.api_key
            assert own is not None
            self._ask_versions(max(0, min(version - 1, self.versions.get(own, (0, 0))[1])))
            return []
        if body.error_code:
            raise PeerError(self.address, f"ApiVersions is answered with {error_name(body.error_code)}")
        if self._credentials is None:
            return self._become_ready(0)
        self._append_request(messages.SaslHandshakeRequest(mechanism=self._credentials.mechanism), _HANDSHAKE)
        return []

    def _handshake(self, body: messages.SaslHandshakeResponse) -> list[ConnectionEvent]:
        assert self._credentials is not None
        mechanism = self._credentials.mechanism
        if body.error_code == SASL_MECHANISM:
            enabled = ", ".join(body.mechanisms) or "none"
            raise AuthenticationError(
                self.address, f"sasl.mechanism {mechanism} is not enabled there; what is: {enabled}"
            )
        if body.error_code == SASL_STATE:
            raise AuthenticationError(
                self.address, "this listener takes no authentication: set security.protocol to PLAINTEXT or SSL"
            )
        if body.error_code:
            raise AuthenticationError(self.address, f"SaslHandshake is answered with {error_name(body.error_code)}")
        self._exchange = self._credentials.exchange()
        try:
            self._token(next(self._exchange))
        except SaslError as error:
            raise AuthenticationError(self.address, str(error)) from None
        return []

    def _authenticated(self, body: messages.SaslAuthenticateResponse) -> list[ConnectionEvent]:
        if body.error_code:
            detail = f": {body.error_message}" if body.error_message else ""
            raise AuthenticationError(self.address, f"{error_name(body.error_code)}{detail}")
        assert self._exchange is not None
        try:
            token = self._exchange.send(body.auth_bytes)
        except StopIteration:
            return self._become_ready(body.session_lifetime_ms)
        except SaslError as error:
            raise AuthenticationError(self.address, str(error)) from None
        self._token(token)
        return []

    def _token(self, token: bytes) -> None:
        version = choose(messages.SaslAuthenticateRequest, self.versions, address=self.address)
        self._append_request(messages.SaslAuthenticateRequest(auth_bytes=token), version)

    def _become_ready(self, session_ms: int) -> list[ConnectionEvent]:
        self.ready = True
        return [Ready(self.versions, session_ms)]

    # ------------------------------------------------------------------------------------------------------------------

    def _append_request(self, body: Message, version: int) -> None:
        self._out += self._encoded(body, version)[1]

    def _encoded(self, body: Message, version: int) -> tuple[int, bytes]:
        correlation_id = self._next_id
        data = frames.encode_request(body, version=version, correlation_id=correlation_id, client_id=self._client_id)
        api_key = body.spec.api_key
        assert api_key is not None
        self._next_id = (correlation_id + 1) & 0x7FFFFFFF
        self._pending[correlation_id] = _Pending(api_key, version, body.spec.name.removesuffix("Request"))
        return correlation_id, data
