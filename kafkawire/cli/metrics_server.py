"""Metrics over HTTP, for Prometheus: GET and HEAD, and nothing else."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from prometheus_client.registry import CollectorRegistry

App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

#: Seconds that a client may take for its request.
_REQUEST_S = 10.0


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _REQUEST_S

    def log_message(self, *_: Any) -> None:
        """Requests are not logged."""


@contextmanager
def serving(registry: CollectorRegistry, host: str, port: int) -> Iterator[int]:
    """Serves the metrics of a registry during the body; gives the port.

    Args:
        registry: the metrics.
        host, port: the address to listen on; port 0 takes a free one.

    Raises:
        OSError: the address is not free, or not of this machine; the text names the option.
    """
    from prometheus_client import make_wsgi_app

    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        server = (_Server6 if family == socket.AF_INET6 else _Server)(address[:2], _Handler)  # type: ignore[arg-type]
    except OSError as error:
        raise OSError(f"--listen {host}:{port}: {error.strerror}") from None
    server.set_app(answering_head(make_wsgi_app(registry)))
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
