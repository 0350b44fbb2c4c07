"""`read`: the exchanges of a capture file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from kafkawire.capture.decode_rules import rules_of
from kafkawire.capture.encapsulations import UDP_PORTS, Encapsulation, Step
from kafkawire.capture.exchange import CapturedExchange, ReadOptions
from kafkawire.capture.exchange_selection import ExchangeSelection, Selector
from kafkawire.capture.file_damage import UnreadPart
from kafkawire.capture.files import FollowedFile, Readable, SizedFile
from kafkawire.capture.fragments import Fragment, Fragments
from kafkawire.capture.frame_decoding import FrameDecoder
from kafkawire.capture.native_tracker import NativeTracker
from kafkawire.capture.network import Found, Skipped, TcpSegment, parse, transport
from kafkawire.capture.packet import Packet, PacketRun
from kafkawire.capture.packets import read_runs
from kafkawire.capture.ring import RingBuffer, is_ring
from kafkawire.capture.summary import Summary
from kafkawire.capture.tls.key_log import KeyLogFile, Secrets
from kafkawire.capture.tracker import Ends, FoundExchanges, PacketTracker, Tracker
from kafkawire.errors import BackendError, CaptureError, KeyLogError
from kafkawire.messages import REGISTRY
from kafkawire.rows import Exchange
from kafkawire.wire.backend import native
from kafkawire.wire.registry import Registry

#: The packets of a file, given a function that is called with each part of it that cannot be read, and the engine of a
#: `NativeTracker`, which takes runs of packets, or None.
_Packets = Callable[[Callable[[UnreadPart], None], Any], Iterator[Packet | PacketRun]]


class Exchanges:
    """The exchanges of a capture, in the order of their first packets.

    They can be iterated over once: as rows, or through `matched` with their messages and frames.

    Attributes:
        summary: counts of packets, connections, exchanges and problems.
        tracker: the connections.

    Args:
        packets: makes the iterator of packets.
        file: name of the file, for rows.
        options: what rows contain.
        selection: which exchanges are yielded.
        owns: which connections are decoded; see `read`.
        secrets: those of key logs, for TLS.
        tunnels: encapsulations by UDP port.
        engine: the native engine, or None: connections are tracked in Python.
    """

    def __init__(
        self,
        packets: _Packets,
        file: str,
        options: ReadOptions,
        selection: ExchangeSelection,
        owns: Callable[[Ends], bool] | None = None,
        secrets: Secrets | None = None,
        tunnels: Mapping[int, Encapsulation] = UDP_PORTS,
        engine: Any = None,
    ) -> None:
        self.summary = Summary()
        selector = None if selection.all else Selector(selection)
        self._selector = selector if engine is None else None
        self._secrets = Secrets() if secrets is None else secrets
        self._tunnels = tunnels
        self._fragments = Fragments()
        decoder = FrameDecoder(options, None if engine is None else selector)
        known = file, decoder, self.summary, self._secrets, owns
        self.tracker: PacketTracker
        if engine is None:
            self.tracker = Tracker(*known)
            self._packets = packets(self._unread, None)
        else:
            self.tracker = found = NativeTracker(
                engine,
                *known,
                lines=options.lines,
                columns=options.columns is not None,
                selector=selector,
            )
            self._packets = packets(self._unread, found.engine)

    def __iter__(self) -> Iterator[Exchange]:
        for matched in self.matched():
            yield matched.row

    def matched(self) -> Iterator[CapturedExchange]:
        """The exchanges with their rows; with messages and frames if they are kept (`keep` of `read`)."""
        for found in self.found():
            assert isinstance(found, CapturedExchange)
            yield found

    def found(self) -> Iterator[FoundExchanges]:
        """The exchanges with their rows, messages and frames; many at once may be lines or Arrow arrays, or only
        counted, if the options permit it."""
        self._secrets.read()
        if (refused := self._secrets.refused) is not None:
            raise KeyLogError(refused)
        try:
            for packet in self._packets:
                if isinstance(packet, PacketRun):
                    self.summary.packets += packet.packets
                else:
                    self.summary.packets += 1
                    if not self.tracker.packet(packet):
                        self._parsed(packet)
                yield from self._ready()
        except CaptureError as error:
            if not self.summary.packets:
                raise
            self._damaged(str(error))
        self._fragments.finish()
        if self._fragments.lost:
            self.summary.skip(Skipped.FRAGMENT, [], self._fragments.lost)
        self.tracker.finish()
        self.summary.key_log = self._secrets.problems
        yield from self._ready()

    def _parsed(self, packet: Packet) -> None:
        """Passes the segment in a packet to the tracker, or counts the packet as skipped."""
        steps: list[Step] = []
        found: Found | None = parse(packet.link_type, packet.data, self._tunnels, steps)
        while isinstance(found, Fragment):
            found = self._whole(found, steps)
        if isinstance(found, TcpSegment):
            self.tracker.segment(found, packet)
            return
        self.tracker.passed(packet)
        if found is not None:
            self.summary.skip(found, steps)

    def _unread(self, part: UnreadPart) -> None:
        self.summary.unread += part.bytes
        self._damaged(f"{part.error}; {part.bytes} bytes were passed over" if part.resumed else str(part.error))

    def _damaged(self, reason: str) -> None:
        self.summary.damage = self.summary.damage or reason
        last = self.summary.packets
        self.tracker.damaged(last + 1, f"the file is damaged after packet {last}: {reason}")

    def _whole(self, fragment: Fragment, steps: list[Step]) -> Found | None:
        """The payload of the datagram that the fragment completes; None if it completes none."""
        data = self._fragments.add(fragment)
        if data is None:
            return None
        return transport(fragment.protocol, data, fragment.source, fragment.destination, self._tunnels, steps)

    def _ready(self) -> Iterator[FoundExchanges]:
        for found in self.tracker.ready():
            if not isinstance(found, CapturedExchange):
                self.summary.exchanges += found.count
                self.summary.selected += found.count
                yield found
                continue
            self.summary.exchanges += 1
            selected = self._selector is None or self._selector.selects(found)
            self.summary.problem_of(found.row)
            if selected:
                self.summary.selected += 1
                yield found


def read(
    file: str | os.PathLike[str] | Readable,
    *,
    body: bool = False,
    records: bool = False,
    payloads: bool = True,
    show_secrets: bool = False,
    follow: bool | Callable[[], bool] = False,
    live: bool = False,
    keep: bool = False,
    selection: ExchangeSelection = ExchangeSelection(),  # noqa: B008  # a frozen value
    keylog: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    decode_as: Iterable[str] = (),
    registry: Registry = REGISTRY,
) -> Exchanges:
    """The exchanges in a capture file (pcap or pcapng): requests matched with their responses, on any port.

    Args:
        file: a path, or a buffered binary file open for reading, for example standard input. A directory, or a pattern
            that is no file's name (`ring*.pcapng`), is read as one capture: its files in the order of time.
        body: rows have the whole messages as JSON, in `request` and `response`.
        records: record batches in bodies decoded, instead of as base64.
        payloads: False leaves record batches out of bodies.
        show_secrets: show passwords, tokens and keys in bodies, instead of `[redacted]`.
        follow: at the file's end, wait for more: for ever, or while a function returns True. Implies `live`.
        live: an exchange whose response takes more than a second does not hold back those that began after it.
            It needs the native engine.
        keep: `Exchanges.matched` yields messages and frames too.
        selection: which exchanges are yielded; all others are only counted.
        keylog: TLS key logs (files in the format of SSLKEYLOGFILE), with which connections are decrypted. Secrets in a
            pcapng are used in any case.
        decode_as: what ports announce, in Wireshark's syntax: encapsulations on further UDP ports
            (`udp.port==8473,vxlan`), and TCP ports of brokers (`tcp.port==9092,kafka`), whose connections are Kafka's
            whatever they contain.
        registry: the messages, by default those of Kafka. Connections are recognised by the requests in it.

    Raises:
        ValueError: a rule of `decode_as` is malformed, or names an unknown protocol.

    Raises (when iterated over):
        OSError: a file cannot be read.
        KeyLogError: a file of `keylog` is no key log.
        MissingExtraError (at once): a key log without the `net` extra.
        BackendError: in pure Python, `live` or `follow` (at once); more than `memory_limits` permits.
        CaptureError: the file is no capture, or no packet of it can be read. Later damage is a row with a `problem`.
    """
    return read_with(
        file,
        body=body,
        records=records,
        payloads=payloads,
        show_secrets=show_secrets,
        follow=follow,
        live=live,
        keep=keep,
        selection=selection,
        keylog=keylog,
        decode_as=decode_as,
        registry=registry,
    )


def read_with(
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
    lines: bool = False,
    columns: Callable[[Any], bytes] | None = None,
    keep_requests: Iterable[int] = (),
    keep_messages: Iterable[int] = (),
    follows: str | None = None,
    statistics: bool = False,
    spans: bool = False,
    selection: ExchangeSelection = ExchangeSelection(),  # noqa: B008  # a frozen value
    owns: Callable[[Ends], bool] | None = None,
    size: int | None = None,
    keylog: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    decode_as: Iterable[str] = (),
    registry: Registry = REGISTRY,
) -> Exchanges:
    """The exchanges in a capture file (`read`), with further options for the commands, Spark and scans.

    Args:
        file, body, records, payloads, show_secrets, follow, live, keep, selection, keylog, decode_as, registry: see
            `read`.
        text: bodies may be JSON text (`msgspec.Raw`), which is faster where rows are encoded as JSON.
        lines: `Exchanges.found` may yield many exchanges as lines of JSON. Without the native engine it
            yields none.
        columns: as `lines`, but as Arrow arrays (`ColumnsOfExchanges`), which need pyarrow. The function writes bodies
            as JSON, for example `msgspec.json.encode`.
        keep_requests, keep_messages: api keys of requests, and of requests and responses, that it yields, where `keep`
            is not set.
        follows: of `keep_messages`, those suffice that `timeline.Timeline` of this id needs; others are only counted.
        statistics: `Exchanges.found` may yield exchanges that are only counted (`StatisticsOfExchanges`).
        spans: as `lines`, but as spans (`SpansOfExchanges`), for `otlp.export`; without the native engine the exchanges
            have their messages.
        owns: returns whether the exchanges of a connection are wanted, given its two ends, (address, port) each, the
            smaller first. The frames of other connections are not decoded. Several readers of one file that share its
            connections yield together what one reader yields; they number connections alike.
        size: the file's length in bytes when it was opened, if known. A file that ends earlier yields a row with a
            `problem`. For a path the size is determined here.
    """
    if native is None and (live or follow):
        raise BackendError("live captures need the native engine: pure Python reads files that have an end, in order")
    rules = rules_of(decode_as)
    options = ReadOptions(
        body,
        text,
        records,
        payloads,
        show_secrets,
        keep or ((spans or selection.looks_inside) and native is None),
        live or bool(follow),
        lines,
        columns,
        frozenset(keep_requests),
        registry,
        rules.kafka,
        statistics,
        frozenset(keep_messages),
        follows,
        spans and not keep and native is not None,
    )
    paths = [keylog] if isinstance(keylog, (str, os.PathLike)) else [*keylog]
    if paths:
        from kafkawire.capture.tls import missing_ciphers

        if missing := missing_ciphers():
            raise missing
    secrets = Secrets(map(KeyLogFile, paths), grows=bool(follow))

    def keys(text: bytes) -> None:
        secrets.add(text, "the secrets in the capture")

    goes_on = follow if callable(follow) else lambda: True

    def waited_for(source: Readable, size: int | None) -> Readable:
        if follow:
            return FollowedFile(source, goes_on)
        return source if size is None else SizedFile(source, size)

    def exchanges(packets: _Packets, name: str) -> Exchanges:
        return Exchanges(packets, name, options, selection, owns, secrets, rules.encapsulations, native)

    if isinstance(file, (str, os.PathLike)):
        path = os.fspath(file)
        if is_ring(path):
            ring = RingBuffer(path, goes_on if follow else lambda: False)
            return exchanges(partial(ring.packets, keys=keys), path)

        def packets(unread: Callable[[UnreadPart], None], engine: Any) -> Iterator[Packet | PacketRun]:
            with open(path, "rb", buffering=1 << 20) as opened:
                yield from read_runs(waited_for(opened, os.fstat(opened.fileno()).st_size), unread, engine, keys)

        return exchanges(packets, path)
    name = getattr(file, "name", None)
    return exchanges(
        lambda unread, engine: read_runs(waited_for(file, size), unread, engine, keys),
        name if isinstance(name, str) and name[:1] != "<" else "-",
    )
