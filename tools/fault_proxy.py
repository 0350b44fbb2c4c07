"""A proxy in front of one broker that holds one request back, as a network can: a delayed or lost packet.

    with FaultProxy("127.0.0.1:9092", ProduceRequest) as proxy:      # the first Produce request is held
        ...                                                          # a client at proxy.address
        proxy.caught.wait()                                          # what the client sends next is not held
        proxy.release()                                              # now the broker gets it; never: it is lost

    with FaultProxy("127.0.0.1:9092", ProduceRequest, loses_response=True) as proxy:

The broker gets the request at once, and its response is lost: the client's connection is closed.

Requests are recognized with the package's own codecs. Endpoints in responses are replaced by the proxy's, so that
clients stay on it. The broker gets a request that is released even if the client has closed its connection by then.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType

from kafkawire import frames, visit
from kafkawire.messages import ApiVersionsRequest
from kafkawire.wire.message import Message

_CHUNK = 1 << 16
_TIMEOUT_S = 60.0


class FaultProxy:
    """See the module.

    Args:
        bootstrap: HOST:PORT of the broker.
        request: class of the requests of which one is held.
        number: which of them, from 1 on; 0: none before `hold_next`.
        loses_response: nothing is held; the response to the request is lost.

    Attributes:
        address: HOST:PORT of the proxy, on loopback. `caught`: set once the request is held.
    """

    def __init__(
        self, bootstrap: str, request: type[Message], *, number: int = 1, loses_response: bool = False
    ) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._broker = host, int(port)
        self._request = request
        self._left = number
        self._loses_response = loses_response
        self._lost: set[tuple[int, int]] = set()
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listener]
        self.caught = threading.Event()
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> FaultProxy:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._over.set()
        self._released.set()
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def hold_next(self) -> None:
        """Hold the next of these requests."""
        with self._lock:
            self._left = 1

    def release(self) -> None:
        """Send the held request to the broker."""
        self._released.set()

    def _accept(self) -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker, timeout=_TIMEOUT_S)
                self._sockets += [client, broker]
                asked: dict[int, tuple[int, int]] = {}
                threading.Thread(target=self._requests, args=(client, broker, asked), daemon=True).start()
                threading.Thread(target=self._responses, args=(broker, client, asked), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        reader = frames.FrameReader()
        with suppress(OSError):
            while data := client.recv(_CHUNK):
                for frame in reader.feed(data):
                    request = frames.decode_request(frame)
                    if isinstance(request, frames.Request):
                        asked[request.header.correlation_id] = request.header.request_api_key, request.version
                        if self._hold(request.body):
                            self._lost.add((id(asked), request.header.correlation_id))
                    if self._over.is_set():
                        return
                    broker.sendall(len(frame).to_bytes(4, "big") + bytes(frame))

    def _hold(self, body: Message) -> bool:
        """Holds the request that is to be held. Returns whether its response is to be lost."""
        if not isinstance(body, self._request):
            return False
        with self._lock:
            self._left -= 1
            if self._left:
                return False
        self.caught.set()
        if not self._loses_response:
            self._released.wait(_TIMEOUT_S)
        return self._loses_response

    def _responses(self, broker: socket.socket, client: socket.socket, asked: dict[int, tuple[int, int]]) -> None:
        reader = frames.FrameReader()
        with suppress(OSError):
            while data := broker.recv(_CHUNK):
                for frame in reader.feed(data):
                    if (id(asked), int.from_bytes(frame[:4], "big", signed=True)) in self._lost:
                        client.shutdown(socket.SHUT_RDWR)
                        return
                    with suppress(OSError):  # a client that has gone; the broker is read on
                        client.sendall(self._rewritten(bytes(frame), asked))

    def _rewritten(self, frame: bytes, asked: dict[int, tuple[int, int]]) -> bytes:
        whole = len(frame).to_bytes(4, "big") + frame
        api_key, version = asked.pop(int.from_bytes(frame[:4], "big", signed=True), (None, 0))
        if api_key is None or api_key == ApiVersionsRequest.spec.api_key:
            return whole
        response = frames.decode_response(frame, api_key=api_key, version=version)
        if not isinstance(response, frames.Response):
            return whole
        host, _, port = self.address.rpartition(":")
        body = visit.rewrite(response.body, {visit.ENDPOINT: lambda _: visit.Endpoint(host, int(port))})
        if body == response.body:
            return whole
        return frames.encode_response(body, version=version, correlation_id=response.header.correlation_id)
