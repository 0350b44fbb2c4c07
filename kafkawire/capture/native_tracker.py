"""`NativeTracker`: the native engine's tracker, and the Python functions that it calls.

The engine tracks connections, matches responses, and reads frames and writes rows that are plain. `_ExchangeHandler`
does the rest: it decodes frames that the engine refuses, searches frames where no boundary is known, decrypts TLS,
makes rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from kafkawire.capture import matcher, memory_limits, message_json, one_way, recognition, tracker
from kafkawire.capture.connection import TLS
from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.exchange_rows import ExchangeRows
from kafkawire.capture.exchange_selection import Selector
from kafkawire.capture.frame_decoding import DecodedRequest, DecodedResponse, FrameDecoder
from kafkawire.capture.losses import lost_records
from kafkawire.capture.network import TcpSegment, endpoint
from kafkawire.capture.packet import Packet
from kafkawire.capture.recognition import OtherDirection, Recognition
from kafkawire.capture.request_chain import is_text
from kafkawire.capture.statistics import SHORTEST_MS, WIDTH
from kafkawire.capture.summary import Summary
from kafkawire.capture.tcp_stream import Chunk
from kafkawire.capture.tracker import Ends, FoundExchanges, LinesOfExchanges, SpansOfExchanges, StatisticsOfExchanges
from kafkawire.kafka_errors import error_name
from kafkawire.rows import Exchange

if TYPE_CHECKING:
    from kafkawire.capture.tls import Secrets, TlsSession
    from kafkawire.capture.tls.session import Steady, TlsEvent

_Address = tuple[bytes, int]
#: A request with its api key, version and correlation id, and whether the broker sends no response.
_Found = tuple[DecodedRequest, int | None, int | None, int | None, bool]
#: A direction; its decrypted bytes, or None; their packet and its time; the problem with which they were lost.
_Event = tuple[int, bytes | None, tuple[int, int], str]
#: Events, whether nothing more is decrypted, the number of bytes that wait, the first packets of those, and the
#: directions that the engine takes over.
_Decrypted = tuple[list[_Event], bool, int, tuple[int | None, int | None], tuple["Steady | None", "Steady | None"]]


class _Limits(msgspec.Struct, frozen=True):
    most_ended: int
    most_held: int
    every_bytes: int
    most_open: int
    idle_ns: int


class _Options(msgspec.Struct, frozen=True):
    body: bool
    keep: bool
    weighs: bool
    texts: bool
    payloads: bool
    records: bool
    hides_records: bool
    most_outstanding: int
    most_early: int


class NativeTracker:
    """Tracks connections in the native engine; see `tracker.PacketTracker` and `tracker.Tracker`.

    Args:
        native: the engine.
        lines: whether exchanges are given as lines of JSON where they can be.
        columns: whether exchanges of connections are given as Arrow arrays.
        selector: what selects exchanges; those that it does not are only counted, in the summary. None: all are given.
    """

    def __init__(
        self,
        native: Any,
        file: str,
        decoder: FrameDecoder,
        summary: Summary,
        secrets: Secrets,
        owns: Callable[[Ends], bool] | None,
        *,
        lines: bool,
        columns: bool,
        selector: Selector | None = None,
    ) -> None:
        options = decoder.options
        self._file, self._body, self._spans = file, options.body, options.spans
        self._summary = summary
        batch = None
        if columns:
            from kafkawire.rows import arrow

            batch = arrow.BATCH_ROWS, arrow.BATCH_BYTES // 4  # columns grow by doubling, and are copied once
        self.engine = native.Tracker(
            _ExchangeHandler(file, decoder, summary, secrets, owns, selector),
            _Options(
                options.body,
                options.keep or bool(options.keep_requests),
                options.keep
                or bool(options.keep_requests or options.keep_messages)
                or options.spans
                or (selector is not None and selector.looks_inside),
                decoder.writes_text,
                options.payloads,
                options.records,
                options.body and options.payloads and not options.show_secrets,
                matcher.MOST_OUTSTANDING,
                matcher.MOST_EARLY,
            ),
            _Limits(
                tracker.MOST_ENDED,
                memory_limits.MOST_HELD,
                memory_limits.EVERY_BYTES,
                memory_limits.MOST_OPEN,
                memory_limits.IDLE_NS,
            ),
            (
                memory_limits.MOST_PLACES,
                memory_limits.MOST_WAITING,
                memory_limits.LIVE_NS if options.live else None,
            ),
            lines,
            batch,
            None if selector is None else selector.criteria,
            (WIDTH, SHORTEST_MS) if options.statistics and not options.keep else None,
        )

    def packet(self, packet: Packet) -> bool:
        taken: bool = self.engine.packet(packet.link_type, packet.data, packet.number, packet.time_ns)
        return taken

    def segment(self, segment: TcpSegment, packet: Packet) -> None:
        self.engine.segment(*msgspec.structs.astuple(segment), packet.number, packet.time_ns)

    def passed(self, packet: Packet) -> None:
        self.engine.passed(packet.time_ns)

    def damaged(self, packet: int, problem: str) -> None:
        self.engine.damaged(packet, problem)

    def finish(self) -> None:
        self.engine.finish()

    def ready(self) -> Iterable[FoundExchanges]:
        for found in self.engine.ready():
            if not isinstance(found, tuple):
                yield found
            elif len(found) == 2:
                yield LinesOfExchanges(*found)
            elif len(found) == 4:
                self._summary.problem(*found[:2])
            elif self._spans:
                yield SpansOfExchanges(*found)
            elif len(found) == 5:
                yield StatisticsOfExchanges(*found[:3])
            else:
                from kafkawire.capture.exchange_arrays import arrays

                yield arrays(self._file, *found, body=self._body)

    @property
    def open(self) -> int:
        count: int = self.engine.open
        return count

    @property
    def held(self) -> int:
        size: int = self.engine.held
        return size


class _ExchangeHandler:
    """The part of the tracker that the native engine calls. It looks up the attributes and methods by these names."""

    def __init__(
        self,
        file: str,
        decoder: FrameDecoder,
        summary: Summary,
        secrets: Secrets,
        owns: Callable[[Ends], bool] | None,
        selector: Selector | None,
    ) -> None:
        self.versions = decoder.recognizer.versions
        self.ports = decoder.recognizer.ports
        self._file = file
        self._decoder = decoder
        self._selector = selector
        self._encode = decoder.options.columns
        self.row = ExchangeRows(file, decoder).row
        self._summary = summary
        self.problem = summary.problem
        self._secrets = secrets
        self._owns = owns
        # Writers of bodies, by api key; of record batches in them, where these are decoded; and of what is in bytes.
        self.request_writer = decoder.request_writer
        self.response_writer = decoder.response_writer
        self.record_rows = message_json.record_rows() if decoder.options.body and decoder.options.records else None
        self.inside = message_json.inside_json
        self.cut_response = decoder.cut_response
        self.error_name = error_name
        self.is_text = is_text
        self.follows = decoder.followed()
        self.spans = None
        if decoder.options.spans:
            from kafkawire.capture.otlp import SpanWriter

            self.spans = SpanWriter(), file.encode("utf-8", "replace").decode()

    def owned(self, key: Ends) -> bool:
        return self._owns is None or self._owns(key)

    def ends(self, number: int, client: _Address, broker: _Address) -> tuple[tuple[int, str, str], bytes]:
        """The fields that the rows of a connection have in common, and the same as JSON."""
        row = number, endpoint(client), endpoint(broker)
        fields = dict(zip(("file", "connection", "client", "broker"), (self._file, *row), strict=True))
        try:
            return row, msgspec.json.encode(fields)[1:-1]
        except UnicodeEncodeError:  # a file name that is not UTF-8: rows are not written as they are
            return row, b"\x7f"

    def finished(
        self, verdict: str, size: int, repeated: int, cut: int, joined: int, ends: Ends, session: TlsSession | None
    ) -> None:
        self._summary.connection(verdict, size, repeated=repeated, cut=cut, joined=joined)
        if session is not None or verdict == TLS:
            self._summary.tls_connection((endpoint(ends[0]), endpoint(ends[1])), session)

    def passed(self, count: int, skipped: int) -> None:
        """Counts exchanges that are not selected, and those that the timeline does not need."""
        self._summary.exchanges += count + skipped
        self._summary.selected += skipped

    def named(self, found: CapturedExchange) -> list[tuple[int, bytes]]:
        """The ids in an exchange that this class has read, for a timeline."""
        from kafkawire.capture.timeline import ids_of

        ids = ids_of(found)
        return [] if ids is None else ids.ids

    def selects(
        self, found: CapturedExchange, names: list[tuple[int, bytes]], topic_ids: list[bytes] | None
    ) -> tuple[bool, list[bytes], tuple[str, int | None] | None]:
        """Whether an exchange is selected; the ids of selected topics in its response; and the problem of one that is
        not selected.

        Args:
            found: an exchange of which this class has read a part.
            names: what the engine found in the other part.
            topic_ids: those of selected topics, if they are others than before.
        """
        assert self._selector is not None
        if topic_ids is not None:
            self._selector.topic_ids = {*topic_ids}
        selected = self._selector.selects(found, names)
        row = found.row
        problem = None if selected or row.problem is None else (row.problem, row.packet or row.response_packet)
        return selected, self._selector.new_topic_ids, problem

    # Frames -----------------------------------------------------------------------------------------------------------

    def request(self, frame: bytes) -> _Found:
        return self._asked(self._decoder.request(frame))

    def cut_request(self, head: bytes, why: str) -> _Found:
        return self._asked(self._decoder.cut_request(head, why))

    def response(self, frame: bytes, api_key: int, version: int) -> DecodedResponse:
        return self._decoder.response(frame, api_key, version)

    def answers(self, frame: bytes, api_key: int, version: int) -> bool:
        return self._decoder.answers(frame, api_key, version)

    def _asked(self, found: DecodedRequest) -> _Found:
        return found, found.api_key, found.version, found.correlation_id, found.silent

    # Searches ---------------------------------------------------------------------------------------------------------

    def first_request(self, data: bytes, other: tuple[bytes, list[int]], _final: bool) -> bool | None:
        found = self._decoder.recognizer.first_request(data, OtherDirection(*other))
        return {Recognition.YES: True, Recognition.NO: False}.get(found)

    def may_begin(self, data: bytes, starts: list[int], other: tuple[bytes, list[int]]) -> bool:
        return self._decoder.recognizer.may_begin(data, starts, OtherDirection(*other))

    def find_request(
        self, data: bytes, starts: list[int], other: tuple[bytes, list[int]], final: bool, known: bool
    ) -> tuple[int | None, int, int]:
        return self._decoder.recognizer.find_request(
            data, set(starts), OtherDirection(*other), final=final, known=known
        )

    def find_response(
        self, data: bytes, starts: list[int], outstanding: list[tuple[int, int, int]], final: bool
    ) -> tuple[int | None, int, int]:
        expected: dict[int, list[tuple[int, int]]] = {}
        for number, key, version in outstanding:
            expected.setdefault(number, []).append((key, version))
        return recognition.find_response(data, set(starts), expected, self._decoder.answers, final=final)

    def may_be_responses(self, data: bytes, starts: list[int]) -> bool:
        return one_way.may_be_responses(data, starts)

    def first_response(self, data: bytes, starts: list[int], port: int, ruled: bool) -> int | None:
        return one_way.first_response(data, starts, port, ruled=ruled, api_keys=self.versions)

    def may_be_request(self, data: bytes) -> bool:
        return self._decoder.recognizer.request(data) in (Recognition.YES, Recognition.LIKELY)

    def find_cut_request(
        self, data: bytes, starts: list[int], missing: int, other: tuple[bytes, list[int]], known: bool
    ) -> int | None:
        return self._decoder.recognizer.cut_request(data, starts, missing, OtherDirection(*other), known=known)

    def find_cut_response(self, data: bytes, starts: list[int], missing: int, outstanding: list[int]) -> int | None:
        return recognition.cut_response(data, starts, missing, set(outstanding))

    # TLS --------------------------------------------------------------------------------------------------------------

    def tls_session(self) -> TlsSession:
        from kafkawire.capture.tls import TlsSession

        return TlsSession(self._secrets)

    def tls_hopeless(self) -> bool:
        return self._secrets.hopeless

    def tls_receive(self, session: TlsSession, given: tuple[int, bytes, int, int]) -> _Decrypted:
        index, data, packet, time_ns = given
        return self._decrypted(session, session.receive(index, Chunk(data, packet, time_ns)))

    def tls_resume(
        self, session: TlsSession, index: int, sequence: int, opened: int, pieces: list[tuple[bytes, int, int]]
    ) -> None:
        session.take_back(index, sequence, opened, pieces)

    def tls_advance(self, session: TlsSession, given: tuple[int]) -> _Decrypted:
        return self._decrypted(session, session.advance(*given))

    def tls_lose(self, session: TlsSession, given: tuple[int, int, int, int]) -> _Decrypted:
        return self._decrypted(session, session.lose(*given))

    def tls_finish(self, session: TlsSession, given: tuple[()]) -> _Decrypted:
        return self._decrypted(session, session.finish())

    def tls_give_up(self, session: TlsSession, given: tuple[()]) -> _Decrypted:
        session.give_up()
        return self._decrypted(session, ())

    def _decrypted(self, session: TlsSession, events: Iterable[TlsEvent]) -> _Decrypted:
        found: list[_Event] = []
        for index, event in events:
            place = event.packet, event.time_ns
            if isinstance(event, Chunk):
                found.append((index, event.data, place, ""))
            else:
                found.append((index, None, place, lost_records(event)))
        steady = session.hand_over(0), session.hand_over(1)
        held_since = session.held_since(0), session.held_since(1)
        return found, session.failure is not None, session.held, held_since, steady

    def cells(self, found: CapturedExchange) -> tuple[Exchange, list[tuple[str, int]]]:
        """A row for columns, and its errors."""
        from kafkawire.capture.exchange_arrays import cells

        assert self._encode is not None
        self._summary.problem_of(found.row)
        return cells(found.row, self._encode)
