"""`TcpConnection`: one TCP connection, from the segments of both directions to frames for the matcher (sans-IO).

A connection carries Kafka's protocol if a request is found in one of its directions: at the beginning if that was
captured, anywhere otherwise. That direction is the client's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from heapq import merge
from itertools import repeat
from typing import TYPE_CHECKING

from kafkawire.capture import recognition
from kafkawire.capture.exchange_rows import ExchangeRows
from kafkawire.capture.frame_decoding import FrameDecoder
from kafkawire.capture.frame_stream import MAX_LOOSE_BYTES, FrameStream, StreamFrame
from kafkawire.capture.losses import byte_count, lost_records
from kafkawire.capture.matcher import Matcher
from kafkawire.capture.network import ACK, EXPORTED, FIN, RST, SYN, TcpSegment, endpoint
from kafkawire.capture.one_way import OneWay
from kafkawire.capture.recognition import OtherDirection, Recognition, SearchResult
from kafkawire.capture.sequencer import Sequencer, Ticket
from kafkawire.capture.tcp_stream import Chunk, Conflict, Event, Loss, Stream
from kafkawire.errors import DecodeError

if TYPE_CHECKING:
    from kafkawire.capture.tls import LostRecords, Secrets, TlsSession
    from kafkawire.capture.tls.session import TlsEvent

UNDECIDED, LIKELY, KAFKA, TLS, OTHER = "undecided", "likely", "kafka", "tls", "other"

#: Outstanding requests whose responses are searched for while a direction's frame boundaries are unknown.
_MOST_SEARCHED_IDS = 64
_MOST_EARLY_PROBLEMS = 16
#: Searches for frames in the bytes that a direction has left at its end.
_MOST_SEARCHES = 16


class TcpConnection:
    """One TCP connection.

    Attributes:
        number: from 1, in the order of first packets.
        verdict: `undecided`, `kafka`, `tls` or `other`; at its end `likely`: it may have requests, too few to decide.
        bytes: payload of its packets, retransmissions included; `cut`: those of them that the capture left out.
        joined: bytes before the first frame of each direction, if the connection's beginning was not captured.
        endpoints: address and port of the two ends. Directions have the index of the end that sends.
        owned: whether its frames are decoded. For other connections only the beginning and the end are determined.
        tls: its TLS layer, which stands between streams and frames; None without one.

    Args:
        rows: makes the rows of exchanges.
        segment: the first one.
        sequencer: puts exchanges in order.
        decoder: decodes frames.
        secrets: those of key logs, for TLS.
        continued: an earlier connection between the same endpoints was closed or dropped, so that the bytes before the
            first frame are in the capture.
    """

    def __init__(
        self,
        number: int,
        rows: ExchangeRows,
        segment: TcpSegment,
        sequencer: Sequencer,
        decoder: FrameDecoder,
        secrets: Secrets,
        *,
        owned: bool = True,
        continued: bool = False,
    ) -> None:
        self.number = number
        self.owned = owned
        self.verdict = UNDECIDED
        self.bytes = self.cut = self.joined = 0
        self._rows = rows
        self.endpoints = (segment.source, segment.destination)
        self._directions = (FrameStream(), FrameStream())
        self._records = (recognition.TlsRecords(), recognition.TlsRecords())
        self._sequencer = sequencer
        self._decoder = decoder
        self._secrets = secrets
        self.tls: TlsSession | None = None
        self._continued = continued
        self._opener: int | None = None  # the end that sent the SYN
        self._client = 0  # the end that sends requests, once the verdict is KAFKA
        self._matcher: Matcher | None = None  # of a connection that is decoded, once the verdict is KAFKA
        self._holds: list[Ticket | None] = [None, None]
        self._now = (0, 0)  # packet and time
        self._ending = False
        self._likely = False  # there may have been requests in bytes that were dropped
        #: The end that is a broker by the rules given; None where no rule names it.
        self._broker = decoder.recognizer.broker((segment.source[1], segment.destination[1]))
        self._closed: set[int] = set()  # ends that have closed a connection that is not decoded
        self._early_problems: list[tuple[int, str, int, int]] = []  # problems found before the verdict
        self._acknowledged: list[int | None] = [None, None]  # of each direction: the newest number from its receiver
        #: Packets captured after the acknowledgments of their bytes. A response to a request in such a packet may have
        #: been captured before it; to another one it was not: a broker acknowledges a request before it answers it.
        self._late: deque[int] = deque(maxlen=1000)
        ports, known = (port for _, port in self.endpoints), decoder.recognizer.versions
        self._alone = [OneWay(port, ruled=self._broker == end, api_keys=known) for end, port in enumerate(ports)]

    def reopened_by(self, segment: TcpSegment) -> bool:
        """Whether a segment begins a new connection between the same endpoints: a SYN that is no retransmission."""
        stream = self.streams[self.sender(segment)]
        return segment.flags & (SYN | ACK) == SYN and stream.started and not stream.begins_at(segment.sequence)

    @property
    def streams(self) -> list[Stream]:
        """The streams of both directions."""
        return [direction.stream for direction in self._directions]

    @property
    def repeated(self) -> int:
        """Number of retransmitted bytes."""
        return sum(stream.repeated for stream in self.streams)

    @property
    def ended(self) -> bool:
        """Whether both directions are complete."""
        return len(self._closed) == 2 or all(stream.complete for stream in self.streams)

    def process(self, segment: TcpSegment, packet: int, time_ns: int) -> None:
        """Takes one segment of either direction. `packet`: its packet's number, from 1; `time_ns`: that one's time."""
        self.bytes += len(segment.payload) + segment.missing
        self.cut += segment.missing
        self._now = (packet, time_ns)
        sender = self.sender(segment)
        if self.verdict in (TLS, OTHER):
            if segment.flags & (FIN | RST):
                self._closed |= {sender, 1 - sender if segment.flags & RST else sender}
            return
        stream = self._directions[sender].stream
        sequence = segment.sequence if not segment.flags & EXPORTED else stream.following
        if segment.flags & SYN:
            if not stream.started:
                stream.open(sequence)
                self._directions[sender].from_start = True
                self._opener = 1 - sender if segment.flags & ACK else sender
            sequence = (sequence + 1) & 0xFFFFFFFF  # a SYN may carry data (TCP Fast Open)
        if segment.flags & ACK and not segment.flags & RST:
            self._directions[1 - sender].stream.acknowledge(segment.acknowledgment)
            self._acknowledged[1 - sender] = segment.acknowledgment
        acknowledged, following = self._acknowledged[sender], stream.following if stream.started else sequence
        if segment.payload and (acknowledged is None or 0 < (acknowledged - following) & 0xFFFFFFFF < 1 << 31):
            self._late.append(packet)
        if segment.flags & FIN:
            stream.close(sequence + len(segment.payload) + segment.missing & 0xFFFFFFFF)
        for event in stream.segment(sequence, segment.payload, packet, time_ns):
            self._handle(sender, event)
        if segment.missing:
            stream.reach(sequence + len(segment.payload) + segment.missing & 0xFFFFFFFF)
        for index, each in enumerate(self.streams):
            for event in each.tick():
                self._handle(index, event)
        self._hold_back()

    def finish(self) -> None:
        """Ends the connection and reports what is incomplete."""
        left = (zip(repeat(index), [*stream.finish()]) for index, stream in enumerate(self.streams))
        for index, event in merge(*left, key=lambda one: one[1].packet):
            self._handle(index, event)
        if self.tls is not None and self.verdict != OTHER:
            self._decrypted(self.tls.finish())
        self._ending = True  # not before: the last events come one by one
        likely = self.verdict == UNDECIDED and (self._likely or any(map(self._may_have_requests, (0, 1))))
        for index, direction in enumerate(self._directions):
            direction.look_again()
            self._advance(index, self._found(index))
        if self.verdict == UNDECIDED and self._broker is not None:
            self._is_kafka(1 - self._broker)
            for direction in self._directions:
                direction.lose()  # no frame was found: all bytes are reported
        elif self.verdict == UNDECIDED and likely:
            self.verdict = LIKELY
        if self._matcher is not None:
            for index in (0, 1):
                self._finish_direction(index)
            self._matcher.finish()
        self._release()

    @property
    def held(self) -> int:
        """Number of bytes in memory that are in no exchange: segments ahead of the order, incomplete frames."""
        directions = sum(direction.stream.held + direction.held for direction in self._directions)
        return directions + (0 if self.tls is None else self.tls.held)

    def _finish_direction(self, index: int) -> None:
        """Reports the bytes left at the end: an incomplete frame, or one of a wrong size with others in it."""
        direction = self._directions[index]
        if direction.stream.early:
            self.report(index, f"{byte_count(direction.stream.early)} from before the first ones captured", *self._now)
        for _ in range(_MOST_SEARCHES):
            if not (direction.synchronized and direction.unframed):
                break
            cut, first = direction.unframed, direction.first_unframed or self._now
            if direction.missing:
                self.report(index, f"{byte_count(direction.missing)} are missing in the capture", *first)
            direction.lose()
            frames = self._found(index)
            if frames is None:
                self.report(index, f"{byte_count(cut)} of a frame that is not whole", *first)
                return
            self._advance(index, frames)
        if left := direction.unframed + direction.skipped:
            self._unframed(index, left)

    @property
    def _is_joined(self) -> bool:
        """Whether the connection began before the capture."""
        return self._opener is None and not self._continued

    def _unframed(self, index: int, count: int) -> None:
        """Counts bytes that are in no known frame.

        Before the first frame of a connection that began before the capture they are the end of a frame whose
        beginning was not captured. All others are reported as lost.
        """
        direction = self._directions[index]
        if self._is_joined and not direction.lost:
            self.joined += count
        else:
            first = direction.first_unframed or self._now
            self.report(index, f"{byte_count(count)} that belong to no known frame", *first)

    def sender(self, segment: TcpSegment) -> int:
        """The end that sends a segment."""
        return 0 if segment.source == self.endpoints[0] else 1

    @property
    def _ignored(self) -> bool:
        """Whether its frames are not decoded."""
        return self.verdict in (TLS, OTHER) or (self.verdict == KAFKA and not self.owned)

    def _handle(self, index: int, event: Event) -> None:
        if self._ignored:
            return
        direction = self._directions[index]
        if isinstance(event, Conflict):
            problem = f"{byte_count(event.bytes)} came again as others; the first copy counts"
            self.report(index, problem, event.packet, event.time_ns)
            return
        if self.tls is not None:
            self._decrypted(
                self.tls.receive(index, event)
                if isinstance(event, Chunk)
                else self.tls.lose(index, event.missing, event.packet, event.time_ns)
            )
            return
        if self._is_joined_tls(index, event):
            self._dismiss(TLS)
            return
        if isinstance(event, Chunk):
            self._advance(index, direction.take(event))
            return
        if self._decides(index):
            self._handle(index, event)
            return
        cut = self._cut_frame(index, event.missing)
        if cut is not None:
            self._advance(index, self._begin(index, cut))
        if cut is not None or self._bridges(index, event.missing):
            self._advance(index, direction.bridge(event.missing))
            return
        missing = event.missing + direction.missing
        self._lose(index, f"{byte_count(missing)} are missing in the capture", event)

    def _lose(self, index: int, what: str, event: Loss | LostRecords) -> None:
        """Reports bytes without which the frame boundaries are not known."""
        self._directions[index].lose()
        self._directions[index].drop()
        self.report(index, what, event.packet, event.time_ns)

    def _is_joined_tls(self, index: int, event: Chunk | Loss) -> bool:
        """Whether the connection proves to be TLS whose handshake was not captured."""
        if self.verdict != UNDECIDED or self._directions[index].from_start:
            return False
        if isinstance(event, Chunk):
            return self._records[index].feed(event.data)
        self._records[index].lose()
        return False

    def _begin_tls(self) -> None:
        """Puts the TLS layer between streams and frames; the bytes so far pass through it."""
        from kafkawire.capture.tls import TlsSession

        self.tls = TlsSession(self._secrets)
        chunks = [(chunk.packet, index, chunk) for index in (0, 1) for chunk in self._directions[index].withdraw()]
        for _, index, chunk in sorted(chunks, key=lambda one: one[0]):
            self._decrypted(self.tls.receive(index, chunk))
        if self._secrets.hopeless:
            self.tls.give_up()
            self._decrypted(())

    def _decrypted(self, events: Iterable[TlsEvent]) -> None:
        """Continues with what the TLS layer has decrypted, and with what it could not."""
        assert self.tls is not None
        for index, event in events:
            if self._ignored:
                continue
            if isinstance(event, Chunk):
                self._advance(index, self._directions[index].take(event))
            else:
                self._lose(index, lost_records(event), event)
        if self.tls.failure is not None and self.verdict == UNDECIDED:
            self._dismiss(TLS)

    def _bridges(self, index: int, missing: int) -> bool:
        """Whether a hole lies within one frame that its header identifies. Only that frame is lost then."""
        direction = self._directions[index]
        if self._matcher is None or not direction.bridges(missing):
            return False
        if direction.missing:
            return True
        head = direction.head
        if index == self._client:
            return self._decoder.recognizer.request(head) in (Recognition.YES, Recognition.LIKELY)
        return len(head) >= 8 and int.from_bytes(head[4:8], "big", signed=True) in self._matcher.outstanding

    def _decides(self, index: int) -> bool:
        """Whether the bytes before a hole decide what the connection is: nothing follows them."""
        if self.verdict != UNDECIDED or not self._directions[index].loose:
            return False
        self._likely |= self._may_have_requests(index)
        self._directions[index].look_again()
        self._advance(index, self._found(index))
        return self.verdict != UNDECIDED

    def _cut_frame(self, index: int, missing: int) -> int | None:
        """Where a packet begins with a frame that a hole cuts, while no frame boundary is known."""
        direction = self._directions[index]
        if direction.synchronized or direction.from_start or not direction.loose:
            return None
        data, starts, known = bytes(direction.loose), direction.starts(), self._matcher is not None
        if self._matcher is not None and index != self._client:
            return recognition.cut_response(data, starts, missing, self._matcher.outstanding)
        if not known and not self._may_be_client(index):
            return None
        offset = self._decoder.recognizer.cut_request(data, starts, missing, self._other(index), known=known)
        if offset is not None and not known:
            self._is_kafka(index)
        return offset

    def _advance(self, index: int, frames: Iterator[StreamFrame] | None) -> None:
        """Passes the frames of one direction to the matcher, also those after a frame boundary that is found again."""
        while frames is not None:
            try:
                for frame in frames:
                    self._match(index, frame)
            except DecodeError as error:
                direction = self._directions[index]
                problem = f"bytes that are no frame ({error.expected} expected, {error.found} found)"
                self.report(index, problem, *(direction.first_unframed or self._now))
                direction.lose()
                direction.drop(len(direction.loose) - 1)  # not at the same offset again
            frames = self._found(index)
        other = 1 - index
        if self.verdict == KAFKA and index == self._client and not self._directions[other].synchronized:
            self._advance(other, self._found(other))

    def _match(self, index: int, frame: StreamFrame) -> None:
        if self._matcher is None:
            return
        if index != self._client:
            self._matcher.response(frame)
            return
        other, late = self._directions[1 - index], frame.packet in self._late
        if not (late or self._matcher.outstanding or other.synchronized or other.from_start):
            other.drop_before(frame.packet)  # answers to earlier requests
        self._matcher.request(frame, late=late)

    def _found(self, index: int) -> Iterator[StreamFrame] | None:
        """Searches one direction for a frame; returns the frames from there, None where none is found."""
        direction = self._directions[index]
        if direction.synchronized or self._ignored:
            return None
        if self.verdict == UNDECIDED:
            offset = self._decide(index)
        elif direction.from_start:
            offset = 0
        else:
            offset = direction.find(self._look(index))
        return None if offset is None else self._begin(index, offset)

    def _begin(self, index: int, offset: int) -> Iterator[StreamFrame]:
        """The frames from an offset in the loose bytes on."""
        direction = self._directions[index]
        if before := offset + direction.skipped:
            self._unframed(index, before)
        return direction.begin(offset)

    def _look(self, index: int) -> Callable[[bytes, set[int]], SearchResult]:
        """The function that searches the bytes of a direction for the first response or request."""
        if self._matcher is not None and index != self._client:
            outstanding, answers = self._matcher.expected(_MOST_SEARCHED_IDS), self._decoder.answers
            return partial(recognition.find_response, outstanding=outstanding, answers=answers, final=self._ending)
        known = self.verdict == KAFKA or self._broker is not None
        other = OtherDirection() if known else self._other(index)
        return partial(self._decoder.recognizer.find_request, other=other, final=self._ending, known=known)

    def _may_have_requests(self, index: int) -> bool:
        direction = self._directions[index]
        return self._may_be_client(index) and self._decoder.recognizer.may_begin(
            bytes(direction.loose), direction.starts(), self._other(index)
        )

    def _other(self, index: int) -> OtherDirection:
        other = self._directions[1 - index]
        return OtherDirection(other.loose, other.starts())

    def _decide(self, index: int) -> int | None:
        """Decides whether this direction is that of a Kafka client; returns the offset of its first request."""
        direction = self._directions[index]
        offset = None
        due = self._ending or self._alone[index].is_due(direction)
        alone = self._may_be_alone(index) and self._alone[index].may_be_responses(direction)
        if self._may_be_client(index) and recognition.is_preamble(direction.loose):
            for each in self._directions:
                each.from_start = False
        if self._may_be_client(index) and direction.loose:
            if not direction.from_start:
                # While the other direction may hold requests, these may be their responses.
                keep = alone or self._directions[1 - index].waits
                offset = direction.find(self._look(index), keep=keep) if due or not alone else None
            elif self._broker is not None:
                offset = 0
            else:
                begins = self._decoder.recognizer.first_request(direction.loose, self._other(index))
                if begins is Recognition.NO:
                    if self.tls is None and recognition.is_tls(direction.loose):
                        self._begin_tls()
                    else:
                        self._dismiss(OTHER)
                    return None
                offset = 0 if begins is Recognition.YES else None
        if offset is not None:
            self._is_kafka(index)
            return offset
        if alone and (self._ending or len(direction.loose) > MAX_LOOSE_BYTES):
            offset = self._alone[index].first(direction)
        if offset is not None:
            self._is_kafka(1 - index)
        elif self._broker is None and any(
            len(direction.loose) + direction.skipped > MAX_LOOSE_BYTES for direction in self._directions
        ):
            self._dismiss(OTHER)
        return offset

    def _may_be_alone(self, index: int) -> bool:
        """Whether this direction is the only one captured, and may be the broker's."""
        return self._opener != index and self._broker != 1 - index and self._directions[1 - index].silent

    def _may_be_client(self, index: int) -> bool:
        if self._broker is not None:
            return index != self._broker
        return self._opener in (None, index)

    def _is_kafka(self, client: int) -> None:
        """Begins to match frames. `client`: the end that sends requests."""
        self.verdict = KAFKA
        self._client = client
        if not self.owned:
            return
        ends = self.number, endpoint(self.endpoints[client]), endpoint(self.endpoints[1 - client])
        self._matcher = Matcher(self._rows, ends, self._sequencer, self._decoder)
        self._matcher.joined = self._matcher.incomplete = self._opener is None
        for problem in self._early_problems:
            self.report(*problem)

    def _dismiss(self, verdict: str) -> None:
        self.verdict = verdict
        self._directions = (FrameStream(), FrameStream())
        self._release()

    def report(self, index: int, what: str, packet: int, time_ns: int) -> None:
        """Reports a problem of one direction, if the connection is Kafka's."""
        if self._matcher is None:
            self._early_problems = [*self._early_problems, (index, what, packet, time_ns)][-_MOST_EARLY_PROBLEMS:]
            return
        self._matcher.incomplete = True
        who = "client" if index == self._client else "broker"
        self._matcher.report(f"from the {who}: {what}", packet, time_ns)

    def _hold_back(self) -> None:
        """Makes later exchanges wait while bytes of earlier packets may still become frames."""
        if not self.owned:
            return
        for index, direction in enumerate(self._directions):
            first = direction.first_unframed
            encrypted = None if self.tls is None else self.tls.held_since(index)
            found = (first and first[0], direction.stream.held_since, encrypted)
            waiting = [packet for packet in found if packet is not None]
            self._holds[index] = self._sequencer.moved(self._holds[index], min(waiting, default=None))

    def _release(self) -> None:
        self._holds = [self._sequencer.moved(held, None) for held in self._holds]
