"""Tokens: from a file, made here without a signature, from an endpoint that has to be https."""

from __future__ import annotations

import base64
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkawire.client import AuthenticationError, Config, ConfigError
from kafkawire.client.transport.oauth import get_token
from kafkawire.client.transport.sasl import TokenSource

BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required {};"


def source(jaas: str, **more: str) -> TokenSource:
    given = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    config = Config.of("a:1", given | {"sasl.jaas.config": BEARER.format(jaas)} | more)
    assert config.tokens is not None
    return config.tokens


def test_gets_tokens_from_each_source(tmp_path: Path) -> None:
    path = tmp_path / "a token"
    path.write_text("x.y.z\n")
    found = source("", **{"sasl.oauthbearer.token.endpoint.url": path.as_uri()})
    assert get_token(found, 1) == "x.y.z"
    found = source('unsecuredLoginStringClaim_sub="me"')
    header, claims, signature = get_token(found, 1).split(".")
    decoded = [json.loads(base64.urlsafe_b64decode(part + "==")) for part in (header, claims)]
    assert (decoded[0], decoded[1]["sub"], signature) == ({"alg": "none"}, "me", "")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b" \n", "is empty"),
        (b"\xff.y.z", "holds no token"),
        (b"x.y\x01auth=z", "holds no token: character 4 is U\\+0001"),
        (b"x.y z", "holds no token: character 4 is U\\+0020"),
        (b"=x", "holds no token: character 1 is U\\+003D"),
        (b"x" * ((1 << 20) + 1), "holds no token: it is longer than 1,048,576 characters"),
        (None, "No such file or directory"),
    ],
)
def test_files_without_a_token_are_refused(content: bytes | None, text: str, tmp_path: Path) -> None:
    """An error of the client's own, which `watch` survives: the file may be written again."""
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^sasl.oauthbearer.token.endpoint.url: {path}:? {text}"):
        get_token(source("", **{"sasl.oauthbearer.token.endpoint.url": path.as_uri()}), 1)


def test_a_token_endpoint_has_to_be_https() -> None:
    with pytest.raises(ConfigError, match="is not https"):
        get_token(TokenSource(url="http://idp.example/token", client_id="i", client_secret="s"), 1)
    with pytest.raises(AuthenticationError, match="cannot be reached"):
        get_token(TokenSource(url="http://127.0.0.1:1/token", client_id="i", client_secret="s"), 1)


def answer_of(token: str) -> bytes:
    body = json.dumps({"access_token": token}).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


@contextmanager
def endpoint(send: Callable[[socket.socket], None]) -> Iterator[TokenSource]:
    """A token endpoint that takes one request and answers it with `send`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                send(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        yield TokenSource(url=f"http://127.0.0.1:{listener.getsockname()[1]}/token", client_id="i", client_secret="s")
        thread.join()


@pytest.mark.parametrize("token", ["x", "mF_9.B5f-4.1JqM", "a+b/c~d=="])
def test_takes_the_token_of_an_endpoint(token: str) -> None:
    with endpoint(lambda connection: connection.sendall(answer_of(token))) as found:
        assert get_token(found, 10) == token


@pytest.mark.parametrize(
    ("token", "place"),
    [("a\x01\x01", "2 is U\\+0001"), ("a\n", "2 is U\\+000A"), ("aé", "2 is U\\+00E9"), ("a=b", "3 is")],
)
def test_a_token_that_could_not_be_sent_as_one_is_refused(token: str, place: str) -> None:
    """It would end the client's message, or begin another part of it."""
    with (
        endpoint(lambda connection: connection.sendall(answer_of(token))) as found,
        pytest.raises(AuthenticationError, match=f"access_token is none: character {place}"),
    ):
        get_token(found, 10)


@pytest.mark.parametrize("at_once", [0, 50], ids=["header", "body"])
def test_an_answer_that_comes_byte_by_byte_has_one_deadline(at_once: int) -> None:
    """No byte is late; all of them together are."""
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        answer = answer_of("x" * 100)
        connection.sendall(answer[:at_once])
        for number in range(at_once, len(answer)):
            ended.wait(0.01)
            try:
                connection.sendall(answer[number : number + 1])
            except OSError:
                return  # the client is gone

    with endpoint(drip) as found, pytest.raises(AuthenticationError, match=r"gave no whole answer in 0\.2 s"):
        get_token(found, 0.2)


def test_the_deadline_is_one_for_the_connection_too() -> None:
    """An endpoint whose queue is full takes no connection and refuses none."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(full.getsockname())
            waiting.append(one)
        found = TokenSource(url=f"http://127.0.0.1:{full.getsockname()[1]}/", client_id="i", client_secret="s")
        begun = time.monotonic()
        with pytest.raises(AuthenticationError):
            get_token(found, 0.2)
        assert time.monotonic() - begun < 10
        for one in waiting:
            one.close()
