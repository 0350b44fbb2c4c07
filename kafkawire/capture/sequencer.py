"""`Sequencer`: exchanges in the order of their first packets, though they are complete in another."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from kafkawire.capture.exchange import CapturedExchange


class Ticket:
    """A place in the order, taken when a first byte was seen."""

    __slots__ = ("closed", "exchange", "late", "since_ns", "weight")

    def __init__(self, since_ns: int) -> None:
        self.since_ns = since_ns
        self.exchange: CapturedExchange | None = None
        self.weight = 0
        self.closed = False
        self.late = False


class Sequencer:
    """Holds exchanges back until all that began before them are known.

    No more is held than `most` places and exchanges of `most_bytes`: beyond that the oldest place that is still open (a
    request that is never answered, say) no longer holds others back, and its exchange comes out late. So it is with a
    place that has been open for more than `patience_ns`, as the times of exchanges tell: who watches what happens now
    does not want to wait for the answer to a long poll.
    """

    def __init__(self, most: int = 100_000, most_bytes: int = 64 << 20, patience_ns: int | None = None) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._patience_ns = patience_ns
        self._now_ns = 0  # the newest time in an exchange
        self._held_bytes = 0
        self._tickets: list[tuple[int, int, Ticket]] = []
        self._taken = 0
        self._late: list[CapturedExchange] = []

    def ticket(self, packet: int) -> Ticket:
        """A place behind all that began in earlier packets."""
        ticket = Ticket(self._now_ns)
        self._taken += 1
        heappush(self._tickets, (packet, self._taken, ticket))
        return ticket

    def close(self, ticket: Ticket, exchange: CapturedExchange | None = None, weight: int = 0) -> None:
        """Fill a place, with None if nothing came of it. `weight`: about the bytes that the exchange holds."""
        if exchange is not None:
            self._now_ns = max(self._now_ns, exchange.row.time_ns or 0, exchange.row.response_time_ns or 0)
        if ticket.late:
            if exchange is not None:
                self._late.append(exchange)
            return
        ticket.exchange, ticket.weight, ticket.closed = exchange, weight, True
        self._held_bytes += weight

    def ready(self) -> Iterator[CapturedExchange]:
        """The exchanges whose turn it is."""
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
        if self._patience_ns is None:
            return False
        ticket.since_ns = ticket.since_ns or self._now_ns
        return self._now_ns - ticket.since_ns > self._patience_ns
