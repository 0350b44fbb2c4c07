"""Metrics over HTTP: GET, HEAD, and what is refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, Gauge

from kafkawire.cli.metrics_server import serving

pytestmark = pytest.mark.slow  # they wait


@pytest.fixture
def port() -> Iterator[int]:
    registry = CollectorRegistry()
    Gauge("some", "A value.", registry=registry).set(5)
    with serving(registry, "127.0.0.1", 0) as port:
        yield port


def ask(port: int, method: str, path: str = "/metrics", **headers: str) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read()


def headers(answer: HTTPResponse) -> dict[str, str]:
    return {name: value for name, value in answer.getheaders() if name != "Date"}


def test_get_returns_the_metrics(port: int) -> None:
    answer, body = ask(port, "GET")
    assert (answer.status, int(answer.getheader("Content-Length", ""))) == (200, len(body))
    assert b"\nsome 5.0\n" in body


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_head_returns_the_headers_of_get_without_body(port: int, encoding: str) -> None:
    got, body = ask(port, "GET", **{"Accept-Encoding": encoding})
    with socket.create_connection(("127.0.0.1", port), 20) as raw:
        raw.sendall(f"HEAD /metrics HTTP/1.0\r\nAccept-Encoding: {encoding}\r\n\r\n".encode())
        said = b"".join(iter(lambda: raw.recv(1 << 16), b""))
    head, end, rest = said.partition(b"\r\n\r\n")
    assert (end, rest) == (b"\r\n\r\n", b"")
    assert head.startswith(b"HTTP/1.0 200 OK\r\n")
    assert f"Content-Length: {len(body)}".encode() in head
    answer, nothing = ask(port, "HEAD", **{"Accept-Encoding": encoding})
    assert (answer.status, nothing, headers(answer)) == (200, b"", headers(got))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "NONSENSE"])
def test_rejects_other_methods(port: int, method: str) -> None:
    answer, body = ask(port, method)
    assert (answer.status, answer.getheader("Allow"), body) == (405, "GET, HEAD", b"")


def test_address_in_use_is_reported_with_the_option(port: int) -> None:
    with pytest.raises(OSError, match=f"^--listen 127.0.0.1:{port}: "), serving(CollectorRegistry(), "127.0.0.1", port):
        pass


def test_port_is_free_afterwards() -> None:
    with serving(CollectorRegistry(), "127.0.0.1", 0) as port:
        pass
    with serving(CollectorRegistry(), "127.0.0.1", port) as again:
        assert again == port
