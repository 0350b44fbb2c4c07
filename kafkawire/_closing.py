"""Connections that are really closed. asyncio leaves sockets open, and no longer watches them once its loop has ended:
those whose peer does not read what was written, or does not end TLS, and those that a closed listener has just
accepted."""

from __future__ import annotations

import asyncio
from contextlib import suppress

#: Turns of the event loop from a connection that was accepted to its handler, and one more.
_TURNS = 5


def start_closing(writer: asyncio.StreamWriter) -> None:
    """`StreamWriter.close`, once: after a second call, a transport with TLS can no longer be aborted."""
    if not writer.is_closing():
        with suppress(OSError):
            writer.close()


def close_now(writer: asyncio.StreamWriter) -> None:
    """Closes a connection with the loop's next turn. What its peer's buffer has no room for is lost."""
    start_closing(writer)
    writer.transport.abort()


async def close(writer: asyncio.StreamWriter) -> None:
    """Closes a connection when what was written is sent, and TLS has ended; when cancelled, at once."""
    try:
        start_closing(writer)
        with suppress(OSError):
            await writer.wait_closed()
    finally:
        writer.transport.abort()


async def close_listener(server: asyncio.Server) -> None:
    """Closes a listener. The connections that it has accepted reach their handler before."""
    loop = asyncio.get_running_loop()
    for listener in server.sockets:
        with suppress(NotImplementedError):  # Windows: its loop closes them
            loop.remove_reader(listener.fileno())
    for _ in range(_TURNS):
        await asyncio.sleep(0)
    server.close()
