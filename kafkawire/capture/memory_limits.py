"""How much memory the connections of a capture take together, and what goes when it is too much.

Looking costs one look at each connection, and is done once in `EVERY_BYTES` of data: what is held never exceeds
`MOST_HELD` by more than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Protocol, TypeVar

#: Bytes that all connections may hold: data that waits for what comes before it, unfinished frames, exchanges that
#: wait for their other half.
MOST_HELD = 128 << 20
EVERY_BYTES = 16 << 20
#: Connections that are open at the same time. Of each some kilobytes are known, however little it says.
MOST_OPEN = 20_000

Key = TypeVar("Key")


class MemoryHolder(Protocol):
    """What a connection is here."""

    @property
    def held(self) -> int: ...
    @property
    def silent_since(self) -> int: ...
    def shed(self) -> None: ...


def relieve(connections: Iterable[MemoryHolder], most: int) -> None:
    """Has the connections that hold most let it go, until half of what is allowed is left."""
    held = sorted(((connection.held, connection) for connection in connections), key=lambda one: one[0])
    total = sum(size for size, _ in held)
    if total <= most:
        return
    while total > most // 2:
        size, connection = held.pop()
        connection.shed()
        total -= size


def longest_silent(connections: Mapping[Key, MemoryHolder], most: int) -> list[Key]:
    """A tenth of `most` connections, those that have said nothing for longest."""
    return nsmallest(most // 10 + 1, connections, key=lambda key: connections[key].silent_since)
