"""The protocol of a connection, without sockets: bytes in, events out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import frames
from kafkawire.client import (
    AuthenticationError,
    ConnectError,
    Connection,
    PeerError,
    ProtocolError,
    UnsupportedApiError,
)
from kafkawire.client.transport.connection import BrokerResponse, Ready
from kafkawire.client.transport.sasl import ITERATIONS, Credentials
from kafkawire.drafts import kip_664_draft
from kafkawire.errors import EncodeError
from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.api_versions_response import ApiVersion
from kafkawire.wire.message import Message

VERSIONS = {3: (0, 12), 17: (0, 1), 18: (0, 4), 27: (0, 1), 36: (0, 2), 66: (0, 0)}


def offered(versions: dict[int, tuple[int, int]] = VERSIONS, error_code: int = 0) -> ApiVersionsResponse:
    keys = tuple(ApiVersion(api_key=k, min_version=low, max_version=high) for k, (low, high) in versions.items())
    return ApiVersionsResponse(error_code=error_code, api_keys=keys)


class Peer:
    """The broker's end: reads what the connection sends, and answers the last request."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.reader = frames.FrameReader()
        self.last: frames.Request | None = None

    def receive(self, data: bytes) -> list[frames.Request]:
        requests = [frames.decode_request(frame) for frame in self.reader.feed(data)]
        for request in requests:
            assert isinstance(request, frames.Request)
            self.last = request
        return [request for request in requests if isinstance(request, frames.Request)]

    def answer(self, body: Message, version: int | None = None, request: frames.Request | None = None) -> list[object]:
        request = request or self.last
        assert request is not None
        data = frames.encode_response(
            body,
            version=request.version if version is None else version,
            correlation_id=request.header.correlation_id,
        )
        events = self.connection.receive(data)
        self.receive(self.connection.outgoing())
        return list(events)


def connected(credentials: Credentials | None = None) -> Peer:
    peer = Peer(Connection("b:9092", client_id="me", credentials=credentials))
    peer.receive(peer.connection.start())
    return peer


def ready() -> Peer:
    peer = connected()
    assert peer.answer(offered()) == [Ready(VERSIONS)]
    return peer


def test_asks_for_versions_first() -> None:
    peer = connected()
    assert peer.last is not None
    assert isinstance(peer.last.body, ApiVersionsRequest)
    assert peer.last.version == 3
    assert peer.last.header.client_id == "me"
    assert not peer.connection.ready
    assert peer.answer(offered()) == [Ready(VERSIONS)]
    assert peer.connection.ready


@pytest.mark.parametrize(("highest", "then"), [((0, 2), 2), ((0, 0), 0)])
def test_falls_back_to_the_versions_of_older_brokers(highest: tuple[int, int], then: int) -> None:
    """A version that is too high is answered by error 35 in a body of version 0 (KIP-511)."""
    peer = connected()
    assert peer.answer(offered({18: highest}, error_code=35), version=0) == []
    assert peer.last is not None
    assert peer.last.version == then
    assert peer.answer(offered()) == [Ready(VERSIONS)]


def test_error_where_no_version_is_common() -> None:
    peer = connected()
    peer.answer(offered({18: (0, 4), 66: (7, 9)}))
    with pytest.raises(UnsupportedApiError, match=r"^b:9092: the broker takes ListTransactions in versions 7-9"):
        peer.connection.request(ListTransactionsRequest())
    with pytest.raises(UnsupportedApiError, match="does not support Metadata requests"):
        peer.connection.request(MetadataRequest())


def test_filter_that_an_old_broker_does_not_have() -> None:
    peer = ready()
    with pytest.raises(UnsupportedApiError, match=r"takes ListTransactions .* brokers know it from Kafka 4\.1 on"):
        peer.connection.request(ListTransactionsRequest(transactional_id_pattern="a.*"), at_least=2)


def test_matches_responses_in_any_order() -> None:
    peer = ready()
    first, data = peer.connection.request(ListTransactionsRequest())
    (one,) = peer.receive(data)
    second, data = peer.connection.request(MetadataRequest(topics=None))
    (two,) = peer.receive(data)
    assert two.version == 12
    assert peer.connection.in_flight == 2
    (event,) = peer.answer(MetadataResponse(cluster_id="c"), request=two)
    assert isinstance(event, BrokerResponse)
    assert (event.correlation_id, event.version) == (second, 12)
    (event,) = peer.answer(ListTransactionsResponse(), request=one)
    assert isinstance(event, BrokerResponse)
    assert event.correlation_id == first
    assert peer.connection.in_flight == 0


@given(st.lists(st.integers(1, 40), max_size=30))
def test_takes_bytes_in_pieces(sizes: list[int]) -> None:
    """However the stream is cut, the events are the same."""
    peer = ready()
    answers = b""
    for _ in range(3):
        correlation_id, _ = peer.connection.request(ListTransactionsRequest())
        answers += frames.encode_response(ListTransactionsResponse(), version=0, correlation_id=correlation_id)
    events: list[object] = []
    for size in [*sizes, len(answers)]:
        if answers:
            events += peer.connection.receive(answers[:size])
        answers = answers[size:]
    assert [event.correlation_id for event in events if isinstance(event, BrokerResponse)] == [1, 2, 3]


# Layouts that were only proposed --------------------------------------------------------------------------------------


def test_a_draft_is_never_sent() -> None:
    """Draft and released WriteTxnMarkers v1 have the same key and version: a broker would misread the draft."""
    draft, released = kip_664_draft.WriteTxnMarkersRequest, WriteTxnMarkersRequest
    assert draft.spec.api_key == released.spec.api_key == 27
    assert 1 in draft.spec.valid_versions
    assert 1 in released.spec.valid_versions
    peer = ready()
    with pytest.raises(EncodeError, match="cannot be sent"):
        peer.connection.request(draft())
    assert peer.connection.in_flight == 0
    assert peer.connection.outgoing() == b""
    _, data = peer.connection.request(released())
    (request,) = peer.receive(data)
    assert (request.header.request_api_key, request.version) == (27, 1)


@pytest.mark.parametrize("namespace", ["kip_664_draft", "kip_664_adopted", "kip_360"])
def test_no_draft_of_any_text_is_ever_sent(namespace: str) -> None:
    from importlib import import_module

    package = import_module(f"kafkawire.drafts.{namespace}")
    requests = [name for name in package.__all__ if name.endswith("Request")]
    peer = Peer(Connection("b:9092"))
    peer.receive(peer.connection.start())
    peer.answer(offered(dict.fromkeys(range(100), (0, 20))))
    for name in requests:
        message = getattr(package, name)
        with pytest.raises((EncodeError, UnsupportedApiError)):
            peer.connection.request(message())
        assert peer.connection.in_flight == 0
        assert peer.connection.outgoing() == b""


# Authentication -------------------------------------------------------------------------------------------------------

PLAIN = Credentials(mechanism="PLAIN", username="me", password="secret")


def authenticating(credentials: Credentials = PLAIN) -> Peer:
    peer = connected(credentials)
    assert peer.answer(offered()) == []
    assert peer.last is not None
    assert isinstance(peer.last.body, SaslHandshakeRequest)
    assert (peer.last.version, peer.last.body.mechanism) == (1, credentials.mechanism)
    return peer


def test_plain_sends_name_and_password() -> None:
    peer = authenticating()
    assert peer.answer(SaslHandshakeResponse(mechanisms=("PLAIN",))) == []
    assert peer.last is not None
    assert isinstance(peer.last.body, SaslAuthenticateRequest)
    assert peer.last.body.auth_bytes == b"\0me\0secret"
    assert peer.answer(SaslAuthenticateResponse(session_lifetime_ms=9)) == [Ready(VERSIONS, 9)]


def test_refuses_a_name_that_scram_cannot_encode() -> None:
    pytest.importorskip("scramp")
    peer = connected(Credentials(mechanism="SCRAM-SHA-256", username="\x01", password="p"))
    peer.answer(offered())
    with pytest.raises(AuthenticationError, match="user name and password cannot be sent as SCRAM-SHA-256 has it"):
        peer.answer(SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",)))


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("honest", [True, False])
def test_scram_verifies_the_broker(mechanism: str, honest: bool) -> None:
    """Both sides prove themselves: a server that does not know the password is not taken for the broker."""
    scramp = pytest.importorskip("scramp")
    scram = scramp.ScramMechanism(mechanism)
    known = scram.make_auth_info("secret" if honest else "another")
    server = scram.make_server(lambda _user: known)
    peer = authenticating(Credentials(mechanism=mechanism, username="me", password="secret"))
    peer.answer(SaslHandshakeResponse(mechanisms=(mechanism,)))
    assert peer.last is not None
    server.set_client_first(peer.last.body.auth_bytes.decode())
    peer.answer(SaslAuthenticateResponse(auth_bytes=server.get_server_first().encode()))
    if honest:
        server.set_client_final(peer.last.body.auth_bytes.decode())
        final = server.get_server_final().encode()
        assert peer.answer(SaslAuthenticateResponse(auth_bytes=final)) == [Ready(VERSIONS)]
    else:
        with pytest.raises(AuthenticationError, match=rf"its {mechanism} message is wrong"):
            peer.answer(SaslAuthenticateResponse(auth_bytes=b"v=AAAAAAAA"))


@pytest.mark.parametrize(
    "iterations",
    [1, 4095, ITERATIONS.stop, 10_000_000, 1 << 40, "+10000000", " 10000000 ", "10_000_000", "１０００００００"],
)
def test_refuses_iterations_out_of_bounds(iterations: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a password that is cheap to guess, nor a client that hashes for minutes: refused before any is done."""
    pytest.importorskip("scramp")
    peer = scram_first(iterations, monkeypatch)
    with pytest.raises(AuthenticationError, match="SCRAM-SHA-256"):
        peer()


@pytest.mark.parametrize("iterations", [ITERATIONS.start, 16_384, ITERATIONS.stop - 1])
def test_accepts_iterations_within_bounds(iterations: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("scramp")
    with pytest.raises(_HashedError, match=f"^{iterations}$"):
        scram_first(iterations, monkeypatch)()


class _HashedError(Exception):
    """Hashing would begin; the text is the number of iterations."""


def scram_first(iterations: int | str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], object]:
    """A broker that is about to request `iterations`; a `_HashedError` is raised where they would be computed."""

    def hashed(_name: str, _password: bytes, _salt: bytes, count: int) -> None:
        raise _HashedError(str(count))

    monkeypatch.setattr("hashlib.pbkdf2_hmac", hashed)
    peer = authenticating(Credentials(mechanism="SCRAM-SHA-256", username="me", password="secret"))
    peer.answer(SaslHandshakeResponse(mechanisms=("SCRAM-SHA-256",)))
    assert peer.last is not None
    nonce = peer.last.body.auth_bytes.decode().rpartition("r=")[2]
    asked = f"r={nonce}more,s=c2FsdHNhbHRzYWx0c2FsdA==,i={iterations}".encode()
    return lambda: peer.answer(SaslAuthenticateResponse(auth_bytes=asked))


def test_oauthbearer_sends_the_token() -> None:
    peer = authenticating(Credentials(mechanism="OAUTHBEARER", token="a.b.c"))
    peer.answer(SaslHandshakeResponse(mechanisms=("OAUTHBEARER",)))
    assert peer.last is not None
    assert peer.last.body.auth_bytes == b"n,,\x01auth=Bearer a.b.c\x01\x01"
    assert peer.answer(SaslAuthenticateResponse()) == [Ready(VERSIONS)]


def test_refused_oauthbearer_token_is_an_error() -> None:
    peer = authenticating(Credentials(mechanism="OAUTHBEARER", token="a.b.c"))
    peer.answer(SaslHandshakeResponse(mechanisms=("OAUTHBEARER",)))
    assert peer.answer(SaslAuthenticateResponse(auth_bytes=b'{"status":"invalid_token"}')) == []
    assert peer.last is not None
    assert peer.last.body.auth_bytes == b"\x01"
    with pytest.raises(AuthenticationError, match="invalid_token"):
        peer.answer(SaslAuthenticateResponse())


def test_mechanism_that_is_not_enabled_is_an_error() -> None:
    peer = authenticating()
    with pytest.raises(
        AuthenticationError, match=r"sasl\.mechanism PLAIN is not enabled there; what is: GSSAPI, OTHER"
    ):
        peer.answer(SaslHandshakeResponse(error_code=33, mechanisms=("GSSAPI", "OTHER")))


def test_login_at_a_listener_without_authentication_is_an_error() -> None:
    peer = authenticating()
    with pytest.raises(AuthenticationError, match="takes no authentication"):
        peer.answer(SaslHandshakeResponse(error_code=34))


def test_a_wrong_password_is_an_authentication_error() -> None:
    peer = authenticating()
    peer.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
    with pytest.raises(AuthenticationError, match="SASL_AUTHENTICATION_FAILED: Invalid username or password") as caught:
        peer.answer(SaslAuthenticateResponse(error_code=58, error_message="Invalid username or password"))
    assert not caught.value.retriable


def test_secrets_are_not_shown() -> None:
    assert "secret" not in repr(PLAIN)
    assert "a.b" not in repr(Credentials(mechanism="OAUTHBEARER", token="a.b.c"))


# Strangers ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("received", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server"),
        (bytes.fromhex("15030300020250"), "this is a TLS listener"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "an SSH server"),
        (b"-ERR unknown command\r\n", "Redis"),
        (b"", "no Kafka listener, or one that requires TLS"),
        (b"\x00\x00\x00\x06\x00\x00\x03\x09\x00\x00", "never sent"),
        (b"\xff\xff\xff\xff", "no Kafka response"),
        (b"\x00\x00\x00\x00", "never sent"),
    ],
)
def test_detects_what_is_no_kafka_listener(received: bytes, reason: str) -> None:
    connection = Connection("b:1")
    connection.start()
    with pytest.raises(PeerError, match=f"^b:1: .*{reason}"):
        connection.receive(received)


def test_detects_them_from_single_bytes() -> None:
    connection = Connection("b:1")
    connection.start()
    for byte in bytes.fromhex("1503"):
        assert connection.receive(bytes([byte])) == []
    with pytest.raises(PeerError, match="TLS listener"):
        connection.receive(b"\x03")


def test_malformed_response_is_an_error() -> None:
    peer = ready()
    correlation_id, _ = peer.connection.request(ListTransactionsRequest())
    frame = correlation_id.to_bytes(4, "big") + b"\x00\x00\x00\x00\x00\x7f"
    with pytest.raises(ProtocolError, match=r"^b:9092: its response to ListTransactions v0 cannot be read: .*at byte"):
        peer.connection.receive(len(frame).to_bytes(4, "big") + frame)


@pytest.mark.parametrize("size", [-1, (256 << 20) + 1])
def test_impossible_frame_size_is_an_error(size: int) -> None:
    peer = ready()
    with pytest.raises(ProtocolError, match="the size of a frame"):
        peer.connection.receive(size.to_bytes(4, "big", signed=True))


def test_closed_at_the_first_request() -> None:
    peer = ready()
    peer.connection.request(ListTransactionsRequest())
    with pytest.raises(ConnectError, match="requires authentication") as caught:
        peer.connection.receive(b"")
    assert caught.value.retriable


def test_a_connection_closed_after_a_response_names_no_security() -> None:
    peer = ready()
    _, data = peer.connection.request(ListTransactionsRequest())
    peer.receive(data)
    peer.answer(ListTransactionsResponse())
    peer.connection.request(ListTransactionsRequest())
    with pytest.raises(ConnectError, match=r"closed the connection$"):
        peer.connection.receive(b"")


@given(st.binary(min_size=1, max_size=200))
def test_any_bytes_are_events_or_an_error(data: bytes) -> None:
    """Any bytes give events, or one of the client's errors."""
    for connection in (ready().connection, connected().connection):
        connection_error: ConnectError | None = None
        try:
            connection.receive(data)
        except ConnectError as error:
            connection_error = error
        assert connection_error is None or "\n" not in connection_error.reason
