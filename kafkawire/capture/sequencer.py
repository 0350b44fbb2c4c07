"""`Sequencer`: exchanges in the order of their first packets, although they complete in another order."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from kafkawire.capture.exchange import CapturedExchange

#: Estimate of the memory that a place takes, and the row in it, in bytes.
_PLACE_BYTES = 1000


class Ticket:
    """A place in the order, taken when the first byte of a frame was seen."""

    __slots__ = ("closed", "exchange", "packet", "weight")

    def __init__(self, packet: int, weight: int) -> None:
        self.packet, self.weight = packet, weight
        self.exchange: CapturedExchange | None = None
        self.closed = False


class Sequencer:
    """Holds exchanges back until all exchanges that began before them are complete."""

    def __init__(self) -> None:
        self._weights = 0
        self._tickets: list[tuple[int, int, Ticket]] = []
        self._taken = 0

    @property
    def held(self) -> int:
        """Estimate of the memory that places and the exchanges in them take, in bytes."""
        return self._weights + _PLACE_BYTES * len(self._tickets)

    def ticket(self, packet: int, weight: int = 0) -> Ticket:
        """Takes a place after all exchanges that began in earlier packets. `weight`: estimate of the memory that it
        takes besides its row, in bytes."""
        ticket = Ticket(packet, weight)
        self._weights += weight
        self._taken += 1
        heappush(self._tickets, (packet, self._taken, ticket))
        return ticket

    def close(self, ticket: Ticket, exchange: CapturedExchange | None = None, weight: int = 0) -> None:
        """Closes a place.

        Args:
            exchange: None if the bytes became none.
            weight: estimate of the memory that it takes besides its row, in bytes.
        """
        self._weights += weight - ticket.weight
        ticket.exchange, ticket.weight, ticket.closed = exchange, weight, True

    def moved(self, held: Ticket | None, packet: int | None) -> Ticket | None:
        """An open place at a packet, whose bytes may still become frames, instead of the one before; None: none."""
        if held is not None and held.packet == packet:
            return held
        if held is not None:
            self.close(held)
        return None if packet is None else self.ticket(packet)

    def ready(self) -> Iterator[CapturedExchange]:
        """Yields the exchanges that no open place holds back."""
        while self._tickets and self._tickets[0][2].closed:
            first = heappop(self._tickets)[2]
            self._weights -= first.weight
            if first.exchange is not None:
                yield first.exchange
