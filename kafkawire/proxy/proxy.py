"""`Proxy`: a listener for each broker, and a relay for each connection of a client."""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, BinaryIO, TypeVar

from kafkawire import _closing
from kafkawire.client.transport.config import Config
from kafkawire.errors import KafkaWireError
from kafkawire.messages import REGISTRY
from kafkawire.proxy.broker_login import log_in
from kafkawire.proxy.faults import Fault, Faults
from kafkawire.proxy.filters import Filters
from kafkawire.proxy.holding import Held
from kafkawire.proxy.recording import Recording
from kafkawire.proxy.relay import DroppedError, Relay, Streams, pass_bytes
from kafkawire.visit import Endpoint
from kafkawire.wire.message import Message
from kafkawire.wire.registry import Registry

M = TypeVar("M", bound=Message)

_LIMIT = 1 << 18
_CONNECT_S = 10.0
_MOST_BROKERS = 1000
_PROBLEMS = 100


class Proxy:
    """Passes requests and responses between clients and the brokers of a cluster; see the package.

    With TLS, the proxy is the server of clients and the client of brokers, or passes bytes that it does not read
    (`pass_tls`). SASL passes as it is, or the proxy logs in for its clients (`log_in`).

    Args:
        bootstrap: HOST:PORT of a broker.
        host, port: where it listens for the clients of that broker; port 0 takes a free one. For further brokers it
            listens on the ports that follow, or on free ones.
        record: a file, to which everything that clients send and get is written as pcapng, without TLS, with the
            passwords of logins; or where bytes are written to.
        broker_tls: how to connect to brokers; None: without TLS. `client_tls`: the context of a server for clients.
        log_in: the proxy logs in at brokers with the credentials of this configuration; clients do not.
        pass_tls: clients and brokers speak TLS with each other, and the proxy passes the bytes. It changes no address
            then: the broker has to advertise that of the proxy. Filters and faults are refused.
        registry: the messages that filters get.
        seed: of the random numbers of `Fault.rate`.
        on_problem: is called with each problem, in the proxy's thread.

    Attributes:
        problems: why connections ended that neither side closed, and ports that were not free; the last 100.

    Raises:
        ValueError: `bootstrap` is not of that form, or `pass_tls` is given with what would read the bytes.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        record: str | os.PathLike[str] | BinaryIO | None = None,
        broker_tls: ssl.SSLContext | None = None,
        client_tls: ssl.SSLContext | None = None,
        log_in: Config | None = None,
        pass_tls: bool = False,
        registry: Registry = REGISTRY,
        seed: int | None = None,
        on_problem: Callable[[str], None] | None = None,
    ) -> None:
        name, _, number = bootstrap.rpartition(":")
        if not name or not number.isdecimal():
            raise ValueError(f"{bootstrap!r} is not of the form HOST:PORT")
        self._first = Endpoint(name.strip("[]"), int(number))
        self._host, self._port = host, port
        self._record = record
        if pass_tls and (broker_tls, client_tls, log_in) != (None, None, None):
            raise ValueError("pass_tls: nothing is read; broker_tls, client_tls and log_in have no effect")
        if log_in is not None and log_in.credentials is None and log_in.tokens is None:
            raise ValueError("log_in: the configuration has no credentials")
        self._broker_tls, self._client_tls = broker_tls, client_tls
        self._log_in, self._pass_tls = log_in, pass_tls
        self._on_problem = on_problem
        self._filters = Filters(registry)
        self._faults = Faults(seed)
        self._lock = asyncio.Lock()
        self._ready = asyncio.Event()
        self._servers: dict[Endpoint, tuple[asyncio.Server, Endpoint]] = {}
        self._relays: set[asyncio.Task[None]] = set()
        self._recording: Recording | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self.problems: deque[str] = deque(maxlen=_PROBLEMS)

    @property
    def address(self) -> str:
        """host:port for `bootstrap.servers`."""
        if self._first not in self._servers:
            raise RuntimeError("the proxy is not running: use `with` or `async with`")
        host, port = self._servers[self._first][1]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    # Arranging --------------------------------------------------------------------------------------------------------

    def _reads(self) -> None:
        if self._pass_tls:
            raise ValueError("pass_tls: the proxy reads nothing, so that it can neither filter nor disturb requests")

    @property
    def recording_error(self) -> OSError | None:
        """The error that ended the recording, after which no connection is served; None for none."""
        return None if self._recording is None else self._recording.failed

    def on_request(self, kind: type[M], function: Callable[[M], Any]) -> None:
        """Gives the requests of a class to a function.

        Args:
            kind: the request's class.
            function: the request -> the request that is sent on, or the response that the client gets; None: the one
                that came. It runs in the proxy's thread, and may be `async`.
        """
        self._reads()
        self._filters.on_request(kind, function)

    def on_response(self, kind: type[M], function: Callable[[M, Any], Any]) -> None:
        """Gives the responses to requests of a class to a function.

        Args:
            kind: the request's class.
            function: the request and its response -> the response that the client gets; None: as it is.
        """
        self._reads()
        self._filters.on_response(kind, function)

    def fault(self, fault: Fault) -> None:
        """Adds a fault; of several that are for a request the first happens."""
        self._reads()
        self._faults.add(fault)

    def hold(self, kind: type[Message], number: int = 1) -> Held:
        """Holds a request back until `release` of what is returned: the network delays it, or loses it.

        Args:
            kind: the request's class.
            number: which of those that come from now on; 1 is the next.
        """
        held = Held(number, lambda found: self._filters.forget(kind, found))
        self._reads()
        self._filters.on_request(kind, held)
        return held

    def clear_faults(self) -> None:
        """Forgets the faults."""
        self._faults.clear()

    # Running ----------------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Proxy:
        self._loop = asyncio.get_running_loop()
        try:
            await self.endpoint(self._first)
            if self._record is not None:  # a proxy that cannot listen leaves the file as it was
                self._recording = Recording(self._record)
        except BaseException:
            await self._close()
            raise
        self._ready.set()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _close(self) -> None:
        for server, _ in list(self._servers.values()):
            await _closing.close_listener(server)
        relays = list(self._relays)
        for relay in relays:
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)
        for server, _ in self._servers.values():
            server.close()  # those that a relay has added meanwhile
        self._servers.clear()
        if self._recording is not None:
            try:
                self._recording.close()
            except OSError as error:
                self._problem(f"the recording: {error.strerror or error}")

    def __enter__(self) -> Proxy:
        started: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main(started)), name="proxy", daemon=True)
        self._thread.start()
        started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._loop is not None
        assert self._thread is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def _main(self, started: Future[None]) -> None:
        self._stop = asyncio.Event()
        try:
            async with self:
                started.set_result(None)
                await self._stop.wait()
        except OSError as error:
            started.set_exception(error)

    async def endpoint(self, broker: Endpoint) -> Endpoint:
        """Where clients reach a broker through the proxy, which listens there from then on.

        Raises:
            OSError: it cannot listen. KafkaWireError: there are more than a thousand brokers.
        """
        async with self._lock:
            if broker not in self._servers:
                if len(self._servers) >= _MOST_BROKERS:
                    raise KafkaWireError(f"the cluster's responses name more than {_MOST_BROKERS} addresses")
                self._servers[broker] = await self._listen(broker)
            return self._servers[broker][1]

    async def _listen(self, broker: Endpoint) -> tuple[asyncio.Server, Endpoint]:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(broker, reader, writer)

        wanted = self._port + len(self._servers) if self._port else 0
        try:
            server = await asyncio.start_server(accept, self._host, wanted, ssl=self._client_tls, limit=_LIMIT)
        except OSError:
            if not self._servers:
                raise
            server = await asyncio.start_server(accept, self._host, 0, ssl=self._client_tls, limit=_LIMIT)
            taken = server.sockets[0].getsockname()[1]
            self._problem(f"{broker.host}:{broker.port}: port {wanted} is not free; it is at {taken}")
        host, port = server.sockets[0].getsockname()[:2]
        return server, Endpoint(self._host if self._host not in ("", "0.0.0.0", "::") else host, port)

    async def _accept(self, broker: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        try:
            await self._ready.wait()
            await self._serve(broker, (reader, writer))
        except DroppedError:
            pass
        except (OSError, KafkaWireError, TimeoutError) as error:
            self._problem(f"{broker.host}:{broker.port}: {error or type(error).__name__}")
        except asyncio.CancelledError:
            _closing.close_now(writer)  # the proxy ends
        except Exception as error:  # of a filter, which is not ours
            self._problem(f"{broker.host}:{broker.port}: a filter raised {type(error).__name__}: {error}")
        try:
            await _closing.close(writer)
        except asyncio.CancelledError:
            pass  # the proxy ends
        finally:
            self._relays.discard(task)

    async def _serve(self, broker: Endpoint, client: Streams) -> None:
        if self.recording_error is not None:
            raise self.recording_error
        async with asyncio.timeout(_CONNECT_S):
            ends = await asyncio.open_connection(*broker, ssl=self._broker_tls, limit=_LIMIT)
        try:
            if self._log_in is not None:
                async with asyncio.timeout(self._log_in.connect_timeout_s):
                    await log_in(ends, f"{broker.host}:{broker.port}", self._log_in)
            recorded = None
            if self._recording is not None:
                names = (client[1].get_extra_info(name)[:2] for name in ("peername", "sockname"))
                recorded = self._recording.connection(*names)
            if self._pass_tls:
                await pass_bytes(client, ends, recorded)
            else:
                await Relay(client, ends, self._filters, self._faults, self.endpoint, recorded).run()
            if self.recording_error is not None:
                raise self.recording_error
            await _closing.close(ends[1])
        finally:
            _closing.close_now(ends[1])

    def _problem(self, text: str) -> None:
        self.problems.append(text)
        if self._on_problem is not None:
            self._on_problem(text)
