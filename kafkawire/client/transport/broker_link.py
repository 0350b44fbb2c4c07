"""`Link`: a `Connection` on a TCP or TLS stream. Only this module uses sockets.

Several requests may be in flight: one task reads the stream and passes each response to its caller.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable

from kafkawire import _closing
from kafkawire.client.errors import ConnectError, NotSentError, PeerError, RequestTimeoutError, TlsError
from kafkawire.client.transport.config import Config
from kafkawire.client.transport.connection import BrokerResponse, Connection, Ready
from kafkawire.client.transport.listener_detection import CERTIFICATE_REQUIRED, LOST, NOT_KAFKA
from kafkawire.client.transport.sasl import Credentials
from kafkawire.wire.message import Message

_CHUNK = 1 << 18
#: The share of a session's lifetime that is used (KIP-368: Kafka's clients take 85 % to 95 %).
_SESSION_SHARE = 0.85
#: Seconds in which a broker takes what was written to it, and ends TLS.
_CLOSING_S = 1.0


class Link:
    """A connection to one broker, ready for requests. Made by `connect`."""

    def __init__(
        self, connection: Connection, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], max_in_flight: int
    ) -> None:
        self.connection = connection
        self.problem: ConnectError | None = None
        self._reader, self._writer = streams
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._followed: dict[int, Callable[[Message], None]] = {}  # called in the step in which a response comes
        self._slots = asyncio.Semaphore(max_in_flight)
        self._loop = asyncio.get_running_loop()
        self._not_before = 0.0  # the end of the broker's throttle time
        self._until = float("inf")
        self._listener: asyncio.Task[None] | None = None

    @property
    def usable(self) -> bool:
        """Whether requests can be sent: the connection is open, and its session has not expired."""
        return self.problem is None and self._loop.time() < self._until

    async def ask(
        self, body: Message, timeout_s: float, *, pause_s: float, at_most: int | None = None, at_least: int = 0
    ) -> Message:
        """The response to a request.

        Args:
            timeout_s: seconds for the response. `pause_s`: longest throttle time to wait for, seconds.
            at_most, at_least: highest and lowest version to use.

        Raises:
            ConnectError: the connection is lost, or no response comes in time (which closes it, too).
            UnsupportedApiError: the broker does not support a version in that range.
        """
        async with self._slots:
            pause = max(0.0, self._not_before - self._loop.time())
            if pause > pause_s:
                text = f"it throttles: nothing may be sent for {pause:.3g} s, and {pause_s:.3g} s are left"
                raise RequestTimeoutError(self.connection.address, text)
            await asyncio.sleep(pause)
            if self.problem is not None:
                raise self.problem
            correlation_id, data = self.connection.request(body, at_most=at_most, at_least=at_least)
            response = await self._answered(correlation_id, body, timeout_s, data)
        self._note_throttle(response)
        return response

    async def ask_then(
        self,
        first: Message,
        then: Message,
        guard: Callable[[Message], None],
        *,
        within_s: float,
        timeout_s: float,
        at_most: int | None = None,
    ) -> Message:
        """The response to a request that depends on the response to another one.

        In the step in which the response to `first` comes, `guard` judges it, and `then` is given to the system: no
        task runs in between, and nothing waits in this process. It goes out on this connection or not at all, once. The
        system gives up what the broker's system has not acknowledged in `within_s` (TCP_USER_TIMEOUT, on Linux), even
        if this process is suspended by then.

        Args:
            guard: raises if `then` may not be sent.
            within_s: seconds for the response to `first`. `timeout_s`: seconds for that to `then`.
            at_most: the highest version of `then`; None: the highest of all.

        Raises:
            NotSentError: `then` was not sent: no response to `first`, or one that throttles; the connection is lost, or
                busy with other requests. The errors of `guard`, as they are: it was not sent.
            ConnectError: `then` was sent, and no response came.
        """
        self._check_clear(in_flight=0)
        first_id, data = self.connection.request(first)
        then_id, follow = self.connection.request(then, at_most=at_most)
        sent, refused = False, list[Exception]()

        def send(response: Message) -> None:
            nonlocal sent
            try:
                self._note_throttle(response)
                self._check_clear(in_flight=1)
                guard(response)
                self._writer.write(follow)
                if self._writer.transport.get_write_buffer_size():  # no broker carries out a part of a request
                    self._writer.transport.abort()
                    raise NotSentError(f"{self.connection.address}: the system did not take the request")
            except Exception as error:
                refused.append(error)
            else:
                sent = True
                self._waiting[then_id] = self._loop.create_future()

        self._followed[first_id] = send
        self._limit_delivery(within_s)
        try:
            try:
                await self._answered(first_id, first, within_s, data)
            except ConnectError as error:
                if not sent:
                    raise NotSentError(str(refused[0] if refused else error)) from None
            if refused:
                raise refused[0]
            response = await self._answered(then_id, then, timeout_s)
        finally:
            del self._followed[first_id]
            _forget(self._waiting.pop(then_id, None))  # after an interruption
            if not sent:
                self.connection.withdraw(then_id)
        self._note_throttle(response)
        return response

    def _check_clear(self, *, in_flight: int) -> None:
        """Whether what is written now is what the system sends next, and the broker reads it at once."""
        address, transport = self.connection.address, self._writer.transport
        if self.problem is not None:
            raise NotSentError(str(self.problem))
        if self._not_before > self._loop.time():
            raise NotSentError(f"{address}: it throttles")
        if self.connection.in_flight > in_flight or transport.get_write_buffer_size() or transport.is_closing():
            raise NotSentError(f"{address}: the connection is busy or closing")

    def _limit_delivery(self, seconds: float) -> None:
        option = getattr(socket, "TCP_USER_TIMEOUT", None)
        if option is not None:
            self._writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, option, max(1, round(seconds * 1000)))

    async def _answered(self, correlation_id: int, body: Message, timeout_s: float, data: bytes = b"") -> Message:
        """Sends `data` and waits for the response to the request `body`."""
        answer = self._waiting.setdefault(correlation_id, self._loop.create_future())
        try:
            async with asyncio.timeout(timeout_s):
                if data:
                    self._writer.write(data)
                    await self._writer.drain()
                return await answer
        except TimeoutError:
            name = body.spec.name.removesuffix("Request")
            error = RequestTimeoutError(self.connection.address, f"no answer to {name} in {timeout_s:.3g} s")
            self._fail(error)
            raise error from None
        except OSError as error:
            self._fail(ConnectError(self.connection.address, f"{LOST} ({_reason(error)})"))
            assert self.problem is not None
            raise self.problem from None
        finally:
            self._waiting.pop(correlation_id, None)
            _forget(answer)

    def _note_throttle(self, response: Message) -> None:
        throttled = getattr(response, "throttle_time_ms", 0)
        if throttled > 0:
            self._not_before = self._loop.time() + throttled / 1000

    async def close(self) -> None:
        """Closes the connection. Requests in flight fail."""
        self._fail(ConnectError(self.connection.address, "closed"))
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_S):
                await _closing.close(self._writer)

    async def prepare(self) -> None:
        """Negotiates versions and authenticates; afterwards requests can be sent."""
        self._writer.write(self.connection.start())
        while not self.connection.ready:
            for event in self.connection.receive(await self._reader.read(_CHUNK)):
                if isinstance(event, Ready) and event.session_ms > 0:
                    self._until = self._loop.time() + event.session_ms / 1000 * _SESSION_SHARE
            self._writer.write(self.connection.outgoing())
        self._listener = self._loop.create_task(self._listen())

    async def _listen(self) -> None:
        try:
            while True:
                for event in self.connection.receive(await self._reader.read(_CHUNK)):
                    assert isinstance(event, BrokerResponse)
                    follow = self._followed.get(event.correlation_id)
                    if follow is not None:
                        follow(event.body)
                    waiting = self._waiting.get(event.correlation_id)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(event.body)
        except ConnectError as error:
            self._fail(error)
        except OSError as error:
            self._fail(ConnectError(self.connection.address, f"{LOST} ({_reason(error)})"))

    def _fail(self, error: ConnectError) -> None:
        if self.problem is None:
            self.problem = error
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(self.problem)
        _closing.start_closing(self._writer)


def _forget(answer: asyncio.Future[Message] | None) -> None:
    """Retrieves the exception of an answer for which nothing waits any more: asyncio would print it."""
    if answer is not None and answer.done() and not answer.cancelled():
        answer.exception()


async def connect(
    host: str,
    port: int,
    config: Config,
    credentials: Credentials | None,
    timeout_s: float,
    context: ssl.SSLContext | None,
) -> Link:
    """Opens a connection that is ready for requests. `timeout_s`: seconds for TCP, TLS, versions and authentication
    together. `context`: None for plaintext. Raises ConnectError: with the reason in its class and text."""
    address = address_of(host, port)
    connection = Connection(address, client_id=config.client_id, credentials=credentials)
    link: Link | None = None
    try:
        async with asyncio.timeout(min(timeout_s, config.connect_timeout_s)) as limit:
            reader, writer = await _open(address, host, port, context)
            link = Link(connection, (reader, writer), config.max_in_flight)
            await link.prepare()
            return link
    except TimeoutError:
        stage = (
            "no connection" if link is None else "connected, but no answer: no Kafka listener, or a broker that hangs;"
        )
        waited = min(timeout_s, config.connect_timeout_s)
        assert limit.expired()
        error: ConnectError = RequestTimeoutError(address, f"{stage} in {waited:.3g} s")
    except ConnectError as failed:
        silent = context is not None and failed.reason == NOT_KAFKA
        error = TlsError(address, CERTIFICATE_REQUIRED) if silent else failed
    except ssl.SSLError as failed:  # TLS 1.3 refuses a client's certificate after the handshake
        error = TlsError(address, _tls_reason(failed))
    except OSError as failed:
        error = PeerError(address, f"{LOST} ({_reason(failed)})")
    except BaseException:
        if link is not None:
            await link.close()
        raise
    if link is not None:
        await link.close()
    raise error


def address_of(host: str, port: int) -> str:
    """`host:port`, `[::1]:port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def _open(
    address: str, host: str, port: int, context: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(host, port, ssl=context, server_hostname=host if context else None)
    except ssl.SSLCertVerificationError as error:
        raise TlsError(address, _certificate(error, host)) from None
    except ssl.SSLError as error:
        raise TlsError(address, _tls_reason(error)) from None
    except ConnectionResetError:
        if context is None:
            raise ConnectError(address, "connection reset") from None
        raise TlsError(
            address, "closed during the TLS handshake: a plaintext listener (security.protocol PLAINTEXT)?"
        ) from None
    except OSError as error:
        raise ConnectError(address, _reason(error)) from None
    except (OverflowError, ValueError) as error:  # an invalid port or host name
        raise ConnectError(address, f"this is no address ({error})") from None


def _certificate(error: ssl.SSLCertVerificationError, host: str) -> str:
    why = error.verify_message or "certificate verify failed"
    if error.verify_code == 62 or "ostname" in why or "IP address" in why:
        return f"its certificate is not for {host} ({why}): connect by a name that the certificate has"
    return f"its certificate is not trusted ({why}): give the authority's in ssl.truststore.location"


def _tls_reason(error: ssl.SSLError) -> str:
    if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE") or isinstance(error, ssl.SSLEOFError):
        return "no TLS is spoken here: a plaintext listener (security.protocol PLAINTEXT or SASL_PLAINTEXT)?"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "protocol version" in reason or "unsupported protocol" in reason:
        return f"no version of TLS in common ({reason}): the broker's ssl.enabled.protocols needs TLSv1.2 or TLSv1.3"
    if "alert" in reason and "certificate" in reason:
        return f"the broker refuses our certificate ({reason}): see ssl.keystore.location"
    return f"TLS failed: {reason}"


def _reason(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused: nothing listens there"
    if isinstance(error, socket.gaierror):
        return f"this host name cannot be found ({error.strerror})"
    if isinstance(error, ssl.SSLError):
        return _tls_reason(error)
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:] if text else type(error).__name__
