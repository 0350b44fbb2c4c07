"""`Tracker`: the connections of a capture, from packets to exchanges in order (sans-IO).

`PacketTracker` is the contract. The native engine has a second implementation (`native_tracker`), which is used where
it is installed; a connection stays with one tracker from its first packet to its last. Both give the same exchanges and
counts for any packets; tests and fuzz targets compare them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec

from kafkawire.capture import memory_limits
from kafkawire.capture.connection import KAFKA, OTHER, TLS, TcpConnection
from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.exchange_rows import ExchangeRows
from kafkawire.capture.frame_decoding import FrameDecoder
from kafkawire.capture.network import ACK, SYN, TcpSegment, endpoint
from kafkawire.capture.packet import Packet
from kafkawire.capture.resets import Resets
from kafkawire.capture.sequencer import Sequencer
from kafkawire.capture.summary import Summary
from kafkawire.capture.tcp_stream import Stream
from kafkawire.errors import BackendError

if TYPE_CHECKING:
    from kafkawire.capture.tls import Secrets

#: Connections that are over and are remembered, since their last acknowledgments may still come.
MOST_ENDED = 10_000

#: Bytes between the sequence numbers of one connection, in both directions. Beyond that it is another one between the
#: same endpoints, whose SYN was not captured.
_MOST_AHEAD = 16 << 20
_FAR = "its sequence numbers are far from those before: bytes are missing in the capture, or this is another connection"

#: The two ends of a connection, (address, port) each, the smaller first.
Ends = tuple[tuple[bytes, int], tuple[bytes, int]]


class LinesOfExchanges(msgspec.Struct, frozen=True, gc=False):
    """Exchanges as lines of JSON. `count`: their number; `data`: the lines, in UTF-8."""

    count: int
    data: bytes


class ColumnsOfExchanges(msgspec.Struct, frozen=True, eq=False):
    """Exchanges as Arrow arrays: one array a field, one element an exchange. `count`: their number; `arrays`: by the
    names of fields of `rows.Exchange`, without bodies that were not decoded."""

    count: int
    arrays: dict[str, Any]


class StatisticsOfExchanges(msgspec.Struct, frozen=True, eq=False):
    """Exchanges that are only counted. `count`: their number; `groups`: for `Statistics.add_groups`; `uses`: of
    producer ids, for `ProducerOverlaps.add_uses`."""

    count: int
    groups: list[Any]
    uses: list[Any]


class SpansOfExchanges(msgspec.Struct, frozen=True, gc=False):
    """Exchanges as spans (`otlp.export`). `count`: their number; `spans`: each as JSON; `weights`: of each."""

    count: int
    spans: list[bytes]
    weights: list[int]


#: What a tracker gives.
FoundExchanges = CapturedExchange | LinesOfExchanges | ColumnsOfExchanges | StatisticsOfExchanges | SpansOfExchanges


class PacketTracker(Protocol):
    """The interface of trackers: it takes packets and gives exchanges in order."""

    def packet(self, packet: Packet) -> bool:
        """Takes a packet if it can parse it; False: nothing was done."""
        ...

    def segment(self, segment: TcpSegment, packet: Packet) -> None:
        """Takes the TCP segment that a packet contains or completes."""
        ...

    def passed(self, packet: Packet) -> None:
        """Takes a packet without a segment: time passes."""
        ...

    def damaged(self, packet: int, problem: str) -> None:
        """Takes a problem of the file, before that packet."""
        ...

    def finish(self) -> None:
        """Ends all connections."""
        ...

    def ready(self) -> Iterable[FoundExchanges]:
        """The exchanges that came in order since the last call."""
        ...

    @property
    def open(self) -> int:
        """Number of open connections."""
        ...

    @property
    def held(self) -> int:
        """Estimate of the memory that they take, in bytes."""
        ...


class Tracker:
    """Tracks connections in Python. It drops nothing: beyond the limit of memory it raises an error.

    Attributes:
        connections: the open ones, by their ends.

    Args:
        file: name of the file, for rows.
        decoder: decodes frames.
        summary: counts the connections.
        secrets: those of key logs, for TLS.
        owns: which connections are decoded; see `read`.
    """

    def __init__(
        self,
        file: str,
        decoder: FrameDecoder,
        summary: Summary,
        secrets: Secrets,
        owns: Callable[[Ends], bool] | None,
    ) -> None:
        self.connections: dict[Ends, TcpConnection] = {}
        self._rows = ExchangeRows(file, decoder)
        self._decoder = decoder
        self._summary = summary
        self._secrets = secrets
        self._owns = owns
        self._sequencer = Sequencer()
        self._ended: OrderedDict[Ends, None] = OrderedDict()
        self._resets: Resets[Ends] = Resets()
        self._weighed = memory_limits.EVERY_BYTES
        self._opened = 0
        self._ready: list[CapturedExchange] = []

    def packet(self, packet: Packet) -> bool:
        return False

    def segment(self, segment: TcpSegment, packet: Packet) -> None:
        self._process(segment, packet)
        self.passed(packet)

    def passed(self, packet: Packet) -> None:
        for key in self._resets.due(packet.time_ns):  # data in flight has arrived
            self._end(key)
        self._ready.extend(self._sequencer.ready())
        if self._weighed <= 0:
            self._weighed = memory_limits.EVERY_BYTES
            if self.held > memory_limits.MOST_HELD:
                _refuse(packet, f"data that waits takes more than {memory_limits.MOST_HELD:,} bytes")

    def damaged(self, packet: int, problem: str) -> None:
        exchange = self._rows.row(None, None, None, None, None, None, problem, None, None)
        self._sequencer.close(self._sequencer.ticket(packet), exchange)

    def finish(self) -> None:
        for connection in self.connections.values():
            self._finish(connection)
        self.connections.clear()
        self._ready.extend(self._sequencer.ready())

    def ready(self) -> Iterable[CapturedExchange]:
        found, self._ready = self._ready, []
        return found

    @property
    def open(self) -> int:
        return len(self.connections)

    @property
    def held(self) -> int:
        return self._sequencer.held + sum(connection.held for connection in self.connections.values())

    def _process(self, segment: TcpSegment, packet: Packet) -> None:
        """Adds a segment to its connection."""
        ends = segment.source, segment.destination
        key = ends if ends[0] <= ends[1] else (ends[1], ends[0])
        connection = self.connections.get(key)
        if connection is not None:
            sender = connection.sender(segment)
            far = _is_far(segment, connection.streams[sender], connection.streams[1 - sender])
            if far:
                connection.report(sender, _FAR, packet.number, packet.time_ns)
            if far or connection.reopened_by(segment):
                self._finish(self.connections.pop(key))
                self._resets.forget(key)
                connection = None
        if connection is None:
            known = key in self._ended
            if known and not segment.payload and not segment.flags & SYN:
                return  # one of the last acknowledgments of a connection that is over
            self._ended.pop(key, None)
            self._opened += 1
            connection = TcpConnection(
                self._opened,
                self._rows,
                segment,
                self._sequencer,
                self._decoder,
                self._secrets,
                owned=self._owns is None or self._owns(key),
                continued=known,
            )
            self.connections[key] = connection
        followed = connection.verdict not in (TLS, OTHER)
        connection.process(segment, packet.number, packet.time_ns)
        streams = connection.streams if followed else None
        self._resets.segment(key, connection.sender(segment), segment, streams, packet.time_ns)
        if connection.ended:
            self._end(key)
        self._weighed -= len(segment.payload)
        if len(self.connections) > memory_limits.MOST_OPEN:
            _refuse(packet, f"more than {memory_limits.MOST_OPEN:,} connections are open")

    def _end(self, key: Ends) -> None:
        """Ends a connection that is over."""
        self._finish(self.connections.pop(key))
        self._resets.forget(key)
        self._ended[key] = None
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)

    def _finish(self, connection: TcpConnection) -> None:
        connection.finish()
        first, second = map(endpoint, connection.endpoints)
        kafka = connection.verdict == KAFKA
        self._summary.connection(
            connection.verdict,
            connection.bytes,
            repeated=connection.repeated if kafka else 0,
            cut=connection.cut if kafka else 0,
            joined=connection.joined if kafka and connection.owned else 0,
        )
        if connection.tls is not None or connection.verdict == TLS:
            self._summary.tls_connection((first, second), connection.tls)


def _is_far(segment: TcpSegment, stream: Stream, peer: Stream) -> bool:
    """Whether a segment's numbers are far from the bytes of both directions: no loss is as large in both."""
    if not (stream.started and peer.started and segment.payload and segment.flags & ACK):
        return False
    return min(abs(stream.ahead(segment.sequence)), abs(peer.ahead(segment.acknowledgment))) > _MOST_AHEAD


def _refuse(packet: Packet, what: str) -> NoReturn:
    raise BackendError(
        f"packet {packet.number}: {what}: pure Python reads no further; the native engine does, within its limits"
    )
