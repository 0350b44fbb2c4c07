"""Metrics over HTTP, for Prometheus, and the state of the process for probes: GET and HEAD, and nothing else.

`/metrics` returns the metrics; `/-/healthy` and `/-/ready` return 200 or 503, without a password.

The package prometheus-client writes the metrics, as a WSGI application. Its server is not used: it supports TLS, but no
passwords, headers, probes, new certificates while it runs, or limits on the number and the duration of connections.
"""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from kafkawire.cli.web_config import WebConfig

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

Probe = Callable[[], bool]
App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

#: Seconds that a client may take for its request and the answer.
_REQUEST_S = 10.0
#: Connections that are served at a time; further ones are closed. A scraper has one or two.
_MOST_CONNECTIONS = 100


class MetricsEndpoint:
    """The metrics and the probes that a server answers with. `web`: TLS and passwords; may be replaced while the server
    runs."""

    def __init__(self, registry: CollectorRegistry, healthy: Probe, ready: Probe, web: WebConfig) -> None:
        """
        Args:
            registry: the metrics.
            healthy, ready: what probes get: True is 200, False 503.
        """
        from prometheus_client import make_wsgi_app

        self.web = web
        self._metrics: App = make_wsgi_app(registry)
        self._probes = {"/-/healthy": healthy, "/-/ready": ready}

    def answer(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """The application (WSGI)."""
        web, path = self.web, environ["PATH_INFO"]

        def text(status: str, content: str, *headers: tuple[str, str]) -> Iterable[bytes]:
            data = content.encode()
            given = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(data)))]
            start_response(status, [*given, *headers, *web.headers])
            return [data]

        probe = self._probes.get(path)
        if probe is not None:
            return text("200 OK", "OK\n") if probe() else text("503 Service Unavailable", "Service Unavailable\n")
        if not web.admits(environ.get("HTTP_AUTHORIZATION", "")):
            return text("401 Unauthorized", "Unauthorized\n", ("WWW-Authenticate", "Basic"))
        if path not in ("/", "/metrics"):
            return text("404 Not Found", "There are /metrics, /-/healthy, /-/ready.\n")
        return self._metrics(environ, lambda status, given: start_response(status, [*given, *web.headers]))


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    endpoint: MetricsEndpoint

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._until: dict[socket.socket, float] = {}  # the end of each connection's time

    def get_request(self) -> tuple[Any, Any]:
        accepted, address = super().get_request()
        context = self.endpoint.web.context
        if context is not None:  # the first read does the handshake, in the thread of the request
            accepted = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        return accepted, address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Whether a new connection is served: each takes a thread."""
        served = len(self._until) < _MOST_CONNECTIONS
        if served:
            self._until[request] = time.monotonic() + _REQUEST_S
        return served

    def service_actions(self) -> None:
        """Called every half second, and after each connection: closes connections whose time is over. A socket's
        timeout covers only one read, and a client could send byte after byte."""
        now = time.monotonic()
        for request, end in list(self._until.items()):
            if now > end:
                with suppress(OSError):  # it has ended just now
                    socket.socket.shutdown(request, socket.SHUT_RDWR)

    def shutdown_request(self, request: Any) -> None:
        self._until.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores an OSError of a connection: its client has disconnected, or does not speak TLS."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Server6(_Server):
    address_family = socket.AF_INET6


class _MetricsHandler(WSGIRequestHandler):
    timeout = _REQUEST_S

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""


@contextmanager
def serving(endpoint: MetricsEndpoint, host: str, port: int) -> Iterator[int]:
    """Serves during the body; gives the port. `host`, `port`: the address to listen on; port 0 takes a free one. Raises
    OSError: the address is not free, or not of this machine; the text names the option."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        server = (_Server6 if family == socket.AF_INET6 else _Server)(address[:2], _MetricsHandler)
    except OSError as error:
        raise OSError(f"--listen {host}:{port}: {error.strerror}") from None
    server.endpoint = endpoint
    server.set_app(answering_head(endpoint.answer))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def answering_head(app: App) -> App:
    """An application that answers HEAD with the headers of GET, and methods other than those two with 405."""

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method = environ["REQUEST_METHOD"]
        if method not in ("GET", "HEAD"):
            start_response("405 Method Not Allowed", [("Allow", "GET, HEAD"), ("Content-Length", "0")])
            return []
        held: list[Any] = []
        body = b"".join(app({**environ, "REQUEST_METHOD": "GET"}, lambda *given: held.extend(given[:2])))
        status, headers = held
        length = (
            [] if any(name.lower() == "content-length" for name, _ in headers) else [("Content-Length", str(len(body)))]
        )
        start_response(status, [*headers, *length])
        return [] if method == "HEAD" else [body]

    return answer
