"""`read`: the exchanges of a capture file."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kafkawire.capture import memory_limits
from kafkawire.capture.connection import KAFKA, TLS, TcpConnection
from kafkawire.capture.damage import UnreadPart
from kafkawire.capture.encapsulations import UDP_PORTS, Encapsulation, Step, decoded_as
from kafkawire.capture.exchange import CapturedExchange, ReadOptions
from kafkawire.capture.files import FollowedFile, Readable, SizedFile
from kafkawire.capture.fragments import Fragment, Fragments
from kafkawire.capture.frame_decoding import FrameDecoder
from kafkawire.capture.network import SYN, Found, Skipped, TcpSegment, endpoint, parse, transport
from kafkawire.capture.packet import Packet, PacketRun
from kafkawire.capture.packets import read_runs
from kafkawire.capture.resets import Resets
from kafkawire.capture.ring import RingBuffer, is_ring
from kafkawire.capture.selection import ExchangeSelection, Selector
from kafkawire.capture.sequencer import Sequencer
from kafkawire.capture.summary import Summary
from kafkawire.capture.tls import KeyLogFile, Secrets, missing_ciphers
from kafkawire.errors import CaptureError, KeyLogError
from kafkawire.rows import Exchange
from kafkawire.wire.backend import native

#: Connections that are over and are remembered, since their last acknowledgments may still come.
MOST_ENDED = 10_000
#: How long an open exchange holds back later ones in live output, in capture time.
_LIVE_NS = 1_000_000_000

#: The two ends of a connection, (address, port) each, the smaller first.
Ends = tuple[tuple[bytes, int], tuple[bytes, int]]
#: The packets of a file; the function given is called with each part of it that cannot be read.
_Packets = Callable[[Callable[[UnreadPart], None]], Iterator[Packet | PacketRun]]


class Exchanges:
    """The exchanges of a capture, in the order of their first packets.

    They can be iterated over once: as rows, or through `matched` with their messages and frames.

    Attributes:
        summary: counts of packets, connections, exchanges and problems.
        connections: the open ones that Python tracks, by their ends.
        lanes: the native `Lanes` that track the others, or None.

    Args:
        packets: makes the iterator of packets.
        file: name of the file, for rows.
        options: what rows contain.
        selection: which exchanges are yielded.
        lanes: the native `Lanes`, or None.
        owns: which connections are decoded; see `read`.
        secrets: those of key logs, for TLS.
        tunnels: encapsulations by UDP port.
    """

    def __init__(
        self,
        packets: _Packets,
        file: str,
        options: ReadOptions,
        selection: ExchangeSelection,
        lanes: Any = None,
        owns: Callable[[Ends], bool] | None = None,
        secrets: Secrets | None = None,
        tunnels: Mapping[int, Encapsulation] = UDP_PORTS,
    ) -> None:
        self.summary = Summary()
        self._packets = packets(self._unread)
        self._selector = None if selection.all else Selector(selection)
        self._file = file
        self._options = options
        self._secrets = Secrets() if secrets is None else secrets
        self._decoder = FrameDecoder(options)
        self._sequencer = Sequencer(patience_ns=_LIVE_NS if options.live else None)
        # The native engine tracks connections that are in order. Python gets their frames only.
        self.lanes = lanes
        self._tunnels = tunnels
        self._fragments = Fragments()
        self.connections: dict[Ends, TcpConnection] = {}
        self._ended: OrderedDict[Ends, None] = OrderedDict()
        self._resets: Resets[Ends] = Resets()
        self._weighed = memory_limits.EVERY_BYTES
        self._opened = 0
        self._crowded = False  # connections were dropped that may continue
        self._owns = owns

    def __iter__(self) -> Iterator[Exchange]:
        for matched in self.matched():
            yield matched.row

    def matched(self) -> Iterator[CapturedExchange]:
        """The exchanges with their rows; with messages and frames if they are kept (`keep` of `read`)."""
        self._secrets.read()
        if (refused := self._secrets.refused) is not None:
            raise KeyLogError(refused)
        try:
            for packet in self._packets:
                if isinstance(packet, PacketRun):
                    yield from self._run(packet)
                    news = True
                else:
                    news = self._packet(packet)
                if self._resets:
                    for key in self._resets.due(packet.time_ns):  # data in flight has arrived
                        self._end(key)
                    news = True
                if news:
                    yield from self._ready()
                if self._weighed <= 0:
                    self._weigh()
        except CaptureError as error:
            if not self.summary.packets:
                raise
            self._damaged(str(error))
        self._fragments.finish()
        if self._fragments.lost:
            self.summary.skip(Skipped.FRAGMENT, [], self._fragments.lost)
        for connection in self.connections.values():
            self._finish(connection)
        self.summary.key_log = self._secrets.problems
        yield from self._ready()

    def _run(self, run: PacketRun) -> Iterator[CapturedExchange]:
        """Packets that the native engine has processed. Live output gets exchanges as they become complete."""
        self.summary.packets += run.packets
        self._weighed -= run.bytes
        for taken in run.taken:
            self._receive(*taken)
            if self._options.live:
                yield from self._ready()

    def _packet(self, packet: Packet) -> bool:
        """Processes a packet; returns whether an exchange may have become ready."""
        self.summary.packets += 1
        taken = None
        if self.lanes is not None:
            taken = self.lanes.take(packet.link_type, packet.data, packet.number, packet.time_ns)
        if taken is not None and taken is not False:
            self._weighed -= len(packet.data)
            if taken:
                self._receive(*taken)
            return bool(taken)
        steps: list[Step] = []
        found: Found | None = parse(packet.link_type, packet.data, self._tunnels, steps)
        while isinstance(found, Fragment):
            found = self._whole(found, steps)
        if isinstance(found, TcpSegment):
            self.process(found, packet, plain=taken is False)
            return True
        if found is not None:
            self.summary.skip(found, steps)
        return False

    def _receive(
        self,
        connection: TcpConnection,
        side: int,
        frames: list[tuple[bytes, int, int]],
        first: int | None,
        closed: bool,
    ) -> None:
        """Takes frames of a connection that the native engine tracks.

        Args:
            side: the direction.
            frames: bytes, packet and time of each.
            first: packet of the first byte that is in no frame yet; None where there is none.
            closed: whether the connection is over.
        """
        connection.receive(side, frames, first)
        if closed:
            self._end(_key(connection.endpoints))

    def _unread(self, part: UnreadPart) -> None:
        self.summary.unread += part.bytes
        self._damaged(f"{part.error}; {part.bytes} bytes were passed over" if part.resumed else str(part.error))

    def _damaged(self, reason: str) -> None:
        self.summary.damage = self.summary.damage or reason
        last = self.summary.packets
        row = self._options.row(file=self._file, problem=f"the file is damaged after packet {last}: {reason}")
        self._sequencer.close(self._sequencer.ticket(last + 1), CapturedExchange(row=row))

    def _whole(self, fragment: Fragment, steps: list[Step]) -> Found | None:
        """The payload of the datagram that the fragment completes; None if it completes none."""
        data = self._fragments.add(fragment)
        if data is None:
            return None
        return transport(fragment.protocol, data, fragment.source, fragment.destination, self._tunnels, steps)

    def process(self, segment: TcpSegment, packet: Packet, *, plain: bool) -> None:
        """Adds a TCP segment to its connection. `plain`: the lanes may take the connection over."""
        key = _key((segment.source, segment.destination))
        connection = self.connections.get(key)
        if connection is not None:
            connection.take_back()
        if connection is not None and connection.reopened_by(segment):
            self._finish(connection)
            connection = None
        if connection is None:
            if key in self._ended and not segment.payload and not segment.flags & SYN:
                return  # one of the last acknowledgments of a connection that is over
            continued = self._crowded or key in self._ended
            if key in self._ended:
                self._forget(key)
            self._opened += 1
            owned = self._owns is None or self._owns(key)
            connection = TcpConnection(
                self._opened,
                self._file,
                segment,
                self._sequencer,
                self._decoder,
                self._secrets,
                owned=owned,
                continued=continued,
            )
            self.connections[key] = connection
        connection.process(segment, packet.number, packet.time_ns)
        self._resets.note(key, connection.reset_ns, packet.time_ns if connection.reset_in_doubt else None)
        if connection.ended:
            self._end(key)
        elif plain:
            connection.hand_over(self.lanes)
        self._weighed -= len(segment.payload)
        if len(self.connections) > memory_limits.MOST_OPEN:
            if self.lanes is not None:
                self.lanes.release_all()
            self._crowded = True
            for idle in memory_limits.longest_idle(self.connections, memory_limits.MOST_OPEN):
                self._end(idle)

    def _weigh(self) -> None:
        self._weighed = memory_limits.EVERY_BYTES
        if self.lanes is not None and self.lanes.held > memory_limits.EVERY_BYTES:
            self.lanes.release_all()
        memory_limits.free_largest(self.connections.values(), memory_limits.MOST_HELD)

    def _end(self, key: Ends) -> None:
        """Ends a connection that is over, or that is dropped since too many are open."""
        self._finish(self.connections.pop(key))
        self._resets.forget(key)
        self._ended[key] = None
        if len(self._ended) > MOST_ENDED:
            self._forget(next(iter(self._ended)))

    def _forget(self, key: Ends) -> None:
        del self._ended[key]
        if self.lanes is not None:
            self.lanes.forget(key)

    def _finish(self, connection: TcpConnection) -> None:
        connection.finish()
        self.summary.connections[connection.verdict] += 1
        self.summary.bytes[connection.verdict] += connection.bytes
        if connection.tls is not None or connection.verdict == TLS:
            first, second = connection.endpoints
            self.summary.tls_connection((endpoint(first), endpoint(second)), connection.tls)
        if connection.verdict == KAFKA:
            self.summary.repeated += connection.repeated
            self.summary.cut += connection.cut
            if connection.joined and connection.owned:
                self.summary.joined += 1
                self.summary.joined_bytes += connection.joined

    def _ready(self) -> Iterator[CapturedExchange]:
        for matched in self._sequencer.ready():
            self.summary.exchanges += 1
            selected = self._selector is None or self._selector.wants(matched)
            self.summary.problem_of(matched.row)
            if selected:
                self.summary.selected += 1
                yield matched


def _key(ends: Ends) -> Ends:
    """The key of a connection: the same for both directions."""
    return ends if ends[0] <= ends[1] else (ends[1], ends[0])


def read(
    file: str | os.PathLike[str] | Readable,
    *,
    body: bool = False,
    text: bool = False,
    records: bool = False,
    payloads: bool = True,
    show_secrets: bool = False,
    follow: bool | Callable[[], bool] = False,
    live: bool = False,
    keep: bool = False,
    selection: ExchangeSelection = ExchangeSelection(),  # noqa: B008  # a frozen value
    owns: Callable[[Ends], bool] | None = None,
    size: int | None = None,
    keylog: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    decode_as: Iterable[str] = (),
) -> Exchanges:
    """The exchanges in a capture file (pcap or pcapng): requests matched with their responses, on any port.

    Args:
        file: a path, or a buffered binary file open for reading, for example standard input. A directory, or a pattern
            that is no file's name (`ring*.pcapng`), is read as one capture: its files in the order of time.
        body: rows have the whole messages as JSON, in `request` and `response`.
        text: bodies may be JSON text (`msgspec.Raw`), which is faster where rows are encoded as JSON.
        records: record batches in bodies decoded, instead of as base64.
        payloads: False leaves record batches out of bodies.
        show_secrets: show passwords, tokens and keys in bodies, instead of `[redacted]`.
        follow: at the file's end, wait for more: for ever, or while a function returns True. Implies `live`.
        live: an exchange whose response takes more than a second does not hold back those that began after it.
        keep: `Exchanges.matched` yields messages and frames too.
        selection: which exchanges are yielded; all others are only counted.
        owns: returns whether the exchanges of a connection are wanted, given its two ends, (address, port) each, the
            smaller first. The frames of other connections are not decoded. Several readers of one file that share its
            connections yield together what one reader yields; they number connections alike.
        size: the file's length in bytes when it was opened, if known. A file that ends earlier yields a row with a
            `problem`. For a path the size is determined here.
        keylog: TLS key logs (files in the format of SSLKEYLOGFILE), with which connections are decrypted. Secrets in a
            pcapng are used in any case.
        decode_as: encapsulations on further UDP ports, in Wireshark's syntax: `udp.port==8473,vxlan`.

    Raises:
        ValueError: a rule of `decode_as` is malformed, or names an unknown encapsulation.

    Raises (when iterated over):
        OSError: a file cannot be read.
        KeyLogError: a file of `keylog` is no key log.
        MissingExtraError (at once): a key log without the `net` extra.
        CaptureError: the file is no capture, or no packet of it can be read. Later damage is a row with a `problem`.
    """
    options = ReadOptions(
        body, text, records, payloads, show_secrets, keep or selection.looks_inside, live or bool(follow)
    )
    tunnels = decoded_as(decode_as)
    lanes = None if native is None else native.Lanes(MOST_ENDED)
    paths = [keylog] if isinstance(keylog, (str, os.PathLike)) else [*keylog]
    if paths and (missing := missing_ciphers()):
        raise missing
    secrets = Secrets(map(KeyLogFile, paths), grows=bool(follow))

    def keys(text: bytes) -> None:
        secrets.add(text, "the secrets in the capture")

    goes_on = follow if callable(follow) else lambda: True

    def waited_for(source: Readable, size: int | None) -> Readable:
        if follow:
            return FollowedFile(source, goes_on)
        return source if size is None else SizedFile(source, size)

    if isinstance(file, (str, os.PathLike)):
        path = os.fspath(file)
        if is_ring(path):
            ring = RingBuffer(path, goes_on if follow else lambda: False)
            return Exchanges(
                lambda unread: ring.packets(unread, keys), path, options, selection, lanes, owns, secrets, tunnels
            )

        def packets(unread: Callable[[UnreadPart], None]) -> Iterator[Packet | PacketRun]:
            with open(path, "rb", buffering=1 << 20) as opened:
                yield from read_runs(waited_for(opened, os.fstat(opened.fileno()).st_size), unread, lanes, keys)

        return Exchanges(packets, path, options, selection, lanes, owns, secrets, tunnels)
    name = getattr(file, "name", None)
    return Exchanges(
        lambda unread: read_runs(waited_for(file, size), unread, lanes, keys),
        name if isinstance(name, str) and name[:1] != "<" else "-",
        options,
        selection,
        lanes,
        owns,
        secrets,
        tunnels,
    )
