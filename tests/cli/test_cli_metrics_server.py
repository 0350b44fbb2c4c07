"""Metrics over HTTP: GET, HEAD, and what is refused."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from pathlib import Path

import pytest

pytest.importorskip("prometheus_client")

from prometheus_client import CollectorRegistry, Gauge

from kafkawire.cli import metrics_server
from kafkawire.cli.metrics_server import MetricsEndpoint, serving
from kafkawire.cli.web_config import WebConfig, read_web_config
from tests.client.certificates import HOST, make_identity

pytestmark = pytest.mark.slow  # they wait


class Probes:
    """What the endpoint says of the process."""

    healthy = True
    ready = True


def endpoint(web: WebConfig | None = None, probes: Probes | None = None) -> MetricsEndpoint:
    registry = CollectorRegistry()
    Gauge("some", "A value.", registry=registry).set(5)
    of = probes or Probes()
    return MetricsEndpoint(registry, lambda: of.healthy, lambda: of.ready, web or WebConfig())


@pytest.fixture
def port() -> Iterator[int]:
    with serving(endpoint(), "127.0.0.1", 0) as port:
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
        received = b"".join(iter(lambda: raw.recv(1 << 16), b""))
    head, end, rest = received.partition(b"\r\n\r\n")
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
    with pytest.raises(OSError, match=f"^--listen 127.0.0.1:{port}: "), serving(endpoint(), "127.0.0.1", port):
        pass


def test_port_is_free_afterwards() -> None:
    with serving(endpoint(), "127.0.0.1", 0) as port:
        pass
    with serving(endpoint(), "127.0.0.1", port) as again:
        assert again == port


def test_probes_answer_for_the_process_and_need_no_password(tmp_path: Path) -> None:
    probes = Probes()
    with serving(endpoint(web(tmp_path, USERS), probes), "127.0.0.1", 0) as port:
        assert [ask(port, "GET", f"/-/{name}")[0].status for name in ("healthy", "ready")] == [200, 200]
        probes.ready = False
        assert [ask(port, "GET", f"/-/{name}")[0].status for name in ("healthy", "ready")] == [200, 503]
        probes.healthy = False
        answer, body = ask(port, "GET", "/-/healthy")
        assert (answer.status, body) == (503, b"Service Unavailable\n")


def test_unknown_paths_name_those_there_are(port: int) -> None:
    answer, body = ask(port, "GET", "/metric")
    assert (answer.status, body) == (404, b"There are /metrics, /-/healthy, /-/ready.\n")


#: prometheus:scrape and zoe:x, as `htpasswd -nbBC 4` writes them.
USERS = """\
basic_auth_users:
  prometheus: %s
  zoe: %s
http_server_config:
  headers:
    X-Frame-Options: deny
"""


def web(folder: Path, text: str) -> WebConfig:
    bcrypt = pytest.importorskip("bcrypt")
    hashes = [bcrypt.hashpw(one, bcrypt.gensalt(4)).decode() for one in (b"scrape", b"x")]
    path = folder / "web.yml"
    path.write_text(text % (hashes[0].replace("$2b$", "$2y$"), hashes[1]) if "%s" in text else text)
    return read_web_config(str(path))


def login(text: bytes) -> dict[str, str]:
    return {"Authorization": f"Basic {b64encode(text).decode()}"}


def test_passwords_are_asked_for(tmp_path: Path) -> None:
    with serving(endpoint(web(tmp_path, USERS)), "127.0.0.1", 0) as port:
        for given in (b"prometheus:scrape", b"zoe:x", b"zoe:x"):
            answer, body = ask(port, "GET", **login(given))
            assert (answer.status, b"some 5.0" in body, answer.getheader("X-Frame-Options")) == (200, True, "deny")
        wrong = [b"prometheus:x", b"zoe:scrape", b"nobody:x", b"zoe", b":", b"", b"zoe:" + b"x" * 5000, b"\xff:x"]
        bad = [login(given) for given in wrong] + [{}, {"Authorization": "Bearer x"}, {"Authorization": "Basic !"}]
        for given in bad:
            answer, body = ask(port, "GET", **given)
            assert (answer.status, answer.getheader("WWW-Authenticate"), body) == (401, "Basic", b"Unauthorized\n")


def test_tls_serves_clients_with_a_certificate_alone_and_goes_on_after_others(tmp_path: Path) -> None:
    identity = make_identity()
    (tmp_path / "server.pem").write_text(identity.certificate)
    (tmp_path / "server.key").write_text(identity.key)
    given = """\
tls_server_config:
  cert_file: server.pem
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: server.pem
  min_version: TLS13
"""
    client = ssl.create_default_context(cafile=str(tmp_path / "server.pem"))
    with serving(endpoint(web(tmp_path, given)), HOST, 0) as port:

        def status(context: ssl.SSLContext) -> int:
            connection = HTTPSConnection(HOST, port, timeout=20, context=context)
            connection.request("GET", "/metrics")
            return connection.getresponse().status

        with pytest.raises(OSError):
            status(client)
        with socket.create_connection((HOST, port), 20) as plain:
            plain.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert not plain.recv(100).startswith(b"HTTP")
        client.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
        assert status(client) == 200
        client.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError):
            status(client)


def test_clients_that_never_finish_leave_room_for_others(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a thread. One that sends a byte now and then passes every limit of a socket."""
    monkeypatch.setattr(metrics_server, "_MOST_CONNECTIONS", 3)
    monkeypatch.setattr(metrics_server, "_REQUEST_S", 1.0)
    before = threading.active_count()
    slow = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(3)]
    with ExitStack() as stack:
        for connection in slow:
            stack.enter_context(connection)
            connection.sendall(b"GET /metrics HTTP/1.0\r\nX: ")
        wait_for(lambda: threading.active_count() == before + 3)
        with socket.create_connection(("127.0.0.1", port), 20) as refused:
            assert refused.recv(1) == b""
        assert threading.active_count() == before + 3

        def over() -> bool:
            for connection in slow:
                with suppress(OSError):
                    connection.send(b"x")
            return threading.active_count() == before

        wait_for(over)
        assert ask(port, "GET")[0].status == 200


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 15
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
