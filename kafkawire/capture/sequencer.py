"""`Sequencer`: exchanges in the order of their first packets, although they complete in another order."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from kafkawire.capture.exchange import CapturedExchange

#: Limits of the places that are held, and of the memory that held exchanges take, in bytes.
MOST_PLACES = 100_000
MOST_BYTES = 64 << 20


class Ticket:
    """A place in the order, taken when the first byte of a frame was seen."""

    __slots__ = ("closed", "exchange", "late", "since_ns", "weight")

    def __init__(self, since_ns: int | None) -> None:
        self.since_ns = since_ns
        self.exchange: CapturedExchange | None = None
        self.weight = 0
        self.closed = False
        self.late = False


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
    """Holds exchanges back until all that began before them are complete.

    Beyond a limit the oldest open place (for example that of a request without a response) no longer holds others
    back, and its exchange comes out late.

    Args:
        most: limit of places that are held.
        most_bytes: limit of the memory that held exchanges take, in bytes.
        patience_ns: limit of the time that a place is open, measured by the times in exchanges. Live output sets it, so
            that it does not wait for the response to a long poll. None: no limit.
    """

    def __init__(self, most: int = MOST_PLACES, most_bytes: int = MOST_BYTES, patience_ns: int | None = None) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._patience_ns = patience_ns
        self._now_ns: int | None = None  # the latest time in any exchange
        self._held_bytes = 0
        self._tickets: list[tuple[int, int, Ticket]] = []
        self._taken = 0
        self._late: list[CapturedExchange] = []

    def ticket(self, packet: int) -> Ticket:
        """Takes a place after all that began in earlier packets."""
        ticket = Ticket(self._now_ns)
        self._taken += 1
        heappush(self._tickets, (packet, self._taken, ticket))
        return ticket

    def close(self, ticket: Ticket, exchange: CapturedExchange | None = None, weight: int = 0) -> None:
        """Closes a place.

        Args:
            exchange: None if the bytes became none.
            weight: estimate of the memory that the exchange takes, in bytes.
        """
        if exchange is not None:
            times = (self._now_ns, exchange.row.time_ns, exchange.row.response_time_ns)
            self._now_ns = max((time for time in times if time is not None), default=None)
        if ticket.late:
            if exchange is not None:
                self._late.append(exchange)
            return
        ticket.exchange, ticket.weight, ticket.closed = exchange, weight, True
        self._held_bytes += weight

    def ready(self) -> Iterator[CapturedExchange]:
        """Yields the exchanges that no open place holds back."""
        while self._tickets:
            first = self._tickets[0][2]
            within = len(self._tickets) <= self._most and self._held_bytes <= self._most_bytes
            if not first.closed and within and not self._is_old(first):
                break
            heappop(self._tickets)
            first.late = not first.closed
            self._held_bytes -= first.weight
            if first.exchange is not None:
                yield first.exchange
        late, self._late = self._late, []
        yield from late

    def _is_old(self, ticket: Ticket) -> bool:
        if self._patience_ns is None or self._now_ns is None:
            return False
        if ticket.since_ns is None:
            ticket.since_ns = self._now_ns
        return self._now_ns - ticket.since_ns > self._patience_ns
