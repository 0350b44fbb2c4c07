"""`read`: a capture file's exchanges."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from kafkawire.capture.connection import Connection
from kafkawire.capture.files import Following
from kafkawire.capture.fragments import Fragment, Fragments
from kafkawire.capture.matcher import Options
from kafkawire.capture.network import SYN, Found, Segment, Skipped, parse, transport
from kafkawire.capture.packets import Packet, read_packets
from kafkawire.capture.sequencer import Sequencer
from kafkawire.errors import CaptureError
from kafkawire.rows import Exchange

#: Connections that are over and whose last acknowledgments may still come.
_MOST_ENDED = 10_000


class Summary(msgspec.Struct):
    """What was met so far; complete when all exchanges have been taken.

    Attributes:
        packets: in the file. `skipped`: those that hold no TCP segment that could be read, by reason.
        connections: TCP connections by what they carry: `kafka`, `tls`, `other`, `undecided` (too little was captured).
        exchanges: rows, and `problems` those of them that name one.
        damage: why the file could not be read to its end.
    """

    packets: int = 0
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    connections: Counter[str] = msgspec.field(default_factory=Counter)
    exchanges: int = 0
    problems: int = 0
    damage: str | None = None


class Exchanges:
    """The exchanges of a capture, in the order of their first packets; can be iterated over once.

    Attributes:
        summary: what was met, and what could not be decoded.
    """

    def __init__(self, packets: Iterator[Packet], file: str, options: Options) -> None:
        self.summary = Summary()
        self._packets = packets
        self._file = file
        self._options = options
        self._sequencer = Sequencer()
        self._fragments = Fragments()
        self._connections: dict[tuple[tuple[bytes, int], tuple[bytes, int]], Connection] = {}
        self._ended: dict[tuple[tuple[bytes, int], tuple[bytes, int]], None] = {}
        self._opened = 0

    def __iter__(self) -> Iterator[Exchange]:
        last = 0
        try:
            for packet in self._packets:
                last = packet.number
                self.summary.packets += 1
                found: Found | None = parse(packet.link_type, packet.data)
                while isinstance(found, Fragment):
                    found = self._whole(found)
                if isinstance(found, Segment):
                    self._process(found, packet)
                    yield from self._ready()
                elif found is not None:
                    self.summary.skipped[found.value] += 1
        except CaptureError as error:
            if not last:
                raise
            self.summary.damage = str(error)
            problem = f"the file is damaged after packet {last}: {error}"
            self._sequencer.close(self._sequencer.ticket(last + 1), self._options.row(file=self._file, problem=problem))
        self._fragments.finish()
        if self._fragments.lost:
            self.summary.skipped[Skipped.FRAGMENT.value] += self._fragments.lost
        for connection in self._connections.values():
            self._finish(connection)
        yield from self._ready()

    def _whole(self, fragment: Fragment) -> Found | None:
        """What the datagram holds that the fragment completes; None where it completes none."""
        data = self._fragments.add(fragment)
        return data if data is None else transport(fragment.protocol, data, fragment.source, fragment.destination)

    def _process(self, segment: Segment, packet: Packet) -> None:
        ends = (segment.source, segment.destination)
        key = ends if ends[0] <= ends[1] else (ends[1], ends[0])
        connection = self._connections.get(key)
        if connection is not None and connection.reopened_by(segment):
            self._finish(connection)
            connection = None
        if connection is None:
            if key in self._ended and not segment.payload and not segment.flags & SYN:
                return  # the last acknowledgments of a connection that is over
            self._ended.pop(key, None)
            self._opened += 1
            connection = Connection(self._opened, self._file, segment, self._sequencer, self._options)
            self._connections[key] = connection
        connection.process(segment, packet.number, packet.time_ns)
        if connection.ended:
            # What it held is let go now: a long capture has more connections than memory.
            del self._connections[key]
            self._finish(connection)
            self._ended[key] = None
            if len(self._ended) > _MOST_ENDED:
                del self._ended[next(iter(self._ended))]

    def _finish(self, connection: Connection) -> None:
        connection.finish()
        self.summary.connections[connection.verdict] += 1

    def _ready(self) -> Iterator[Exchange]:
        for exchange in self._sequencer.ready():
            self.summary.exchanges += 1
            self.summary.problems += exchange.problem is not None
            yield exchange


def read(
    file: str | os.PathLike[str] | BinaryIO,
    *,
    body: bool = False,
    records: bool = False,
    payloads: bool = True,
    show_secrets: bool = False,
    follow: bool = False,
) -> Exchanges:
    """The exchanges in a capture file (pcap or pcapng): requests matched with their responses, whatever the port.

    Args:
        file: a path, or a binary file that is open for reading (buffered), such as standard input.
        body: whole messages as JSON, in `request` and `response`.
        records: record batches in bodies decoded, instead of as base64.
        payloads: without, record batches in bodies are left out.
        show_secrets: passwords, tokens and keys in bodies as they are, instead of `[redacted]`.
        follow: at the file's end, wait for more; never ends by itself.

    Raises (when iterated over):
        CaptureError: the file is no capture, or nothing of it can be read. Damage further on is a row with a `problem`.
    """
    options = Options(body, records, payloads, show_secrets)
    if isinstance(file, (str, os.PathLike)):
        path = os.fspath(file)
        return Exchanges(_packets_of(path, follow), path, options)
    name = getattr(file, "name", None)
    return Exchanges(
        read_packets(Following(file) if follow else file),
        name if isinstance(name, str) and name[:1] != "<" else "-",
        options,
    )


def _packets_of(path: str, follow: bool) -> Iterator[Packet]:
    with open(path, "rb", buffering=1 << 20) as file:
        yield from read_packets(Following(file) if follow else file)
