"""`Server`: the network side of a mock broker: connections -> frames, one at a time, and replies back (asyncio)."""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Literal, NamedTuple

from kafkawire import _closing
from kafkawire.errors import DecodeError
from kafkawire.frames import FrameReader

_CHUNK = 1 << 16


class Address(NamedTuple):
    """Host and port of a socket."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Reply(NamedTuple):
    """What a connection does after a frame: it sends bytes, if any, and ends with FIN or RST, if it ends."""

    data: bytes = b""
    end: Literal["close", "reset"] | None = None


class Connection:
    """A connection of a client.

    Attributes:
        address: at which the client has reached the server.
        kept: what the answering side keeps for this connection.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.kept: Any = None


#: A frame without its size, and its connection -> the reply.
Respond = Callable[[bytes, Connection], Awaitable[Reply]]


class Server:
    """Serves connections until `stop`. A connection's requests are answered one after the other, as Kafka does.

    Args:
        respond: answers a frame.
        refused: is called with the reason when a connection is closed because of what the client sent.
        max_request_bytes: size of a frame above which a connection is closed.
        max_connections: further connections are closed at once.
        tls: the context of a server; None: without TLS.
    """

    def __init__(
        self,
        respond: Respond,
        refused: Callable[[str], None],
        *,
        max_request_bytes: int,
        max_connections: int,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._respond = respond
        self._refused = refused
        self._max_request_bytes = max_request_bytes
        self._max_connections = max_connections
        self._tls = tls
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Accepts the connections of a listening socket, which is the server's from then on."""
        self._server = await asyncio.start_server(self.serve, sock=listener, ssl=self._tls)

    async def stop(self) -> None:
        """Closes the listener and all connections."""
        if self._server is not None:
            server, self._server = self._server, None
            await _closing.close_listener(server)
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop_soon(self) -> None:
        """Closes the listener and all connections, without waiting for these."""
        if self._server is not None:
            self._server.close()
            self._server = None
        self.drop_connections()

    def drop_connections(self) -> None:
        """Closes all connections; clients may connect again."""
        for writer in self._connections.values():
            _closing.start_closing(writer)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers the requests of one connection until it ends."""
        task = asyncio.current_task()
        assert task is not None
        if len(self._connections) >= self._max_connections:
            self._refused(f"more than {self._max_connections} connections")
            _closing.close_now(writer)
            return
        self._connections[task] = writer
        try:
            with suppress(ConnectionError):
                await self._answer_frames(reader, writer)
            await _closing.close(writer)
        except asyncio.CancelledError:
            pass  # `stop`
        finally:
            _closing.close_now(writer)
            del self._connections[task]

    async def _answer_frames(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        frames = FrameReader(self._max_request_bytes)
        connection = Connection(address_of(writer.get_extra_info("sockname")))
        while data := await reader.read(_CHUNK):
            try:
                for frame in frames.feed(data):
                    reply = await self._respond(frame, connection)
                    if reply.data:
                        writer.write(reply.data)
                        await writer.drain()
                    if reply.end == "reset":
                        reset(writer)
                    if reply.end:
                        return
            except DecodeError as error:
                self._refused(str(error))
                return


def address_of(name: tuple[str, int]) -> Address:
    """The address of a socket's name."""
    return Address(name[0], name[1])


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with RST instead of FIN, as the system does for a process that was killed."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
