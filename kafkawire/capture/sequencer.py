"""`Sequencer`: exchanges in the order of their first packets, although they complete in another order."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from kafkawire.capture.exchange import CapturedExchange

#: Estimate of the memory that a place takes, in bytes.
_PLACE_BYTES = 200


class Ticket:
    """A place in the order, taken when the first byte of a frame was seen."""

    __slots__ = ("closed", "exchange", "weight")

    def __init__(self) -> None:
        self.exchange: CapturedExchange | None = None
        self.weight = 0
        self.closed = False


class PacketHold:
    """An open place at one packet, which may move: later exchanges wait while its bytes may still become frames."""

    def __init__(self, sequencer: Sequencer) -> None:
        self._sequencer = sequencer
        self._held: tuple[int, Ticket] | None = None

    def move(self, packet: int | None) -> None:
        """Holds from that packet on; None: from none."""
        if packet == (self._held and self._held[0]):
            return
        if self._held is not None:
            self._sequencer.close(self._held[1])
        self._held = None if packet is None else (packet, self._sequencer.ticket(packet))


class Sequencer:
    """Holds exchanges back until all that began before them are complete."""

    def __init__(self) -> None:
        self._weights = 0
        self._tickets: list[tuple[int, int, Ticket]] = []
        self._taken = 0

    @property
    def held(self) -> int:
        """Estimate of the memory that places and the exchanges in them take, in bytes."""
        return self._weights + _PLACE_BYTES * len(self._tickets)

    def ticket(self, packet: int) -> Ticket:
        """Takes a place after all that began in earlier packets."""
        ticket = Ticket()
        self._taken += 1
        heappush(self._tickets, (packet, self._taken, ticket))
        return ticket

    def close(self, ticket: Ticket, exchange: CapturedExchange | None = None, weight: int = 0) -> None:
        """Closes a place.

        Args:
            exchange: None if the bytes became none.
            weight: estimate of the memory that the exchange takes, in bytes.
        """
        ticket.exchange, ticket.weight, ticket.closed = exchange, weight, True
        self._weights += weight

    def ready(self) -> Iterator[CapturedExchange]:
        """Yields the exchanges that no open place holds back."""
        while self._tickets and self._tickets[0][2].closed:
            first = heappop(self._tickets)[2]
            self._weights -= first.weight
            if first.exchange is not None:
                yield first.exchange
