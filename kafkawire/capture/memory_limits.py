"""Limits of the memory that a capture's connections take together, and which of them free theirs.

A check visits each connection. It is made once in `EVERY_BYTES` of data, so that the memory held never exceeds
`MOST_HELD` by more than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import nsmallest
from typing import Protocol, TypeVar

#: Bytes that all connections may hold: data ahead of the order, incomplete frames, requests without their responses
#: and responses without their requests.
MOST_HELD = 128 << 20
EVERY_BYTES = 16 << 20
#: Connections that are open at the same time. Each takes some kilobytes, however little data it carries.
MOST_OPEN = 20_000
#: A connection without a packet for longer drops the bytes that it compares retransmissions with, at the next check.
IDLE_NS = 300_000_000_000

Key = TypeVar("Key")


class MemoryHolder(Protocol):
    """A connection, as far as its memory is concerned."""

    @property
    def held(self) -> int: ...
    @property
    def last_packet(self) -> int: ...
    @property
    def last_time_ns(self) -> int: ...
    def free_memory(self) -> None: ...
    def settle(self) -> None: ...


def settle_idle(connections: Iterable[MemoryHolder], now_ns: int) -> None:
    """Lets connections without a packet for `IDLE_NS` drop what they can do without.

    Args:
        now_ns: time of the current packet.
    """
    for connection in connections:
        if now_ns - connection.last_time_ns > IDLE_NS:
            connection.settle()


def free_largest(connections: Iterable[MemoryHolder], most: int) -> None:
    """Lets the connections that hold the most free it, until at most half of the limit is held.

    Args:
        most: the limit, in bytes. Below it nothing is freed.
    """
    held = sorted(((connection.held, connection) for connection in connections), key=lambda one: one[0])
    total = sum(size for size, _ in held)
    if total <= most:
        return
    while total > most // 2:
        size, connection = held.pop()
        connection.free_memory()
        total -= size


def longest_idle(connections: Mapping[Key, MemoryHolder], most: int) -> list[Key]:
    """The keys of a tenth of `most` connections: those without a packet for the longest time."""
    return nsmallest(most // 10 + 1, connections, key=lambda key: connections[key].last_packet)
