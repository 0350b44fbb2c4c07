"""`TcpConnection`: what two endpoints say to each other: segments in, frames to the matcher (sans-IO).

A connection is Kafka's when a request is found in one of its directions: at the very beginning where the capture has
it, otherwise anywhere. That direction is the client's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from kafkawire.capture import recognition
from kafkawire.capture.frame_decoding import FrameDecoder
from kafkawire.capture.frame_stream import MAX_LOOSE_BYTES, Frame, FrameStream, ResumedState
from kafkawire.capture.matcher import DiscardingMatcher, Matcher
from kafkawire.capture.network import ACK, EXPORTED, FIN, RST, SYN, TcpSegment, endpoint
from kafkawire.capture.recognition import Recognition, SearchResult
from kafkawire.capture.sequencer import Sequencer, Ticket
from kafkawire.capture.tcp_stream import MAX_HELD_BYTES, Begun, Chunk, Conflict, Event
from kafkawire.errors import DecodeError

UNDECIDED, KAFKA, TLS, OTHER = "undecided", "kafka", "tls", "other"

#: How many outstanding requests are looked for the response of, when it is not known where one begins.
_MOST_IDS = 64
_MOST_UNSAID = 16
#: How often frames are looked for in the rest of a direction.
_MOST_HIDDEN = 16


class TcpConnection:
    """One TCP connection.

    Attributes:
        number: from 1, in the order in which connections appear.
        verdict: `undecided`, `kafka`, `tls` or `other`.
        bytes: data in its packets, what came again too; `cut`: of those, what the capture left out.
        joined: where the capture does not have the beginning, bytes before the first frame of each direction.
        endpoints: address and port of each side.
        reset_ns: since when it is certain that one side has broken it off, if that is: the other side's last data may
            still come.
        heard: whether its frames are read; all else is done without, so that it is known where it begins and ends.

    Args:
        continued: a connection between the same ends was let go before: the capture has what this one begins with.
    """

    def __init__(
        self,
        number: int,
        file: str,
        segment: TcpSegment,
        sequencer: Sequencer,
        reading: FrameDecoder,
        *,
        heard: bool = True,
        continued: bool = False,
    ) -> None:
        self.number = number
        self.heard = heard
        self.verdict = UNDECIDED
        self.bytes = self.cut = self.joined = 0
        self.reset_ns: int | None = None
        self._lanes: Any = None  # the native `Lanes` that have it, until `resume`
        self._file = file
        self.endpoints = (segment.source, segment.destination)
        self._sides = (FrameStream(), FrameStream())
        self._sequencer = sequencer
        self._reading = reading
        self._continued = continued
        self._opener: int | None = None  # the side that sent the SYN
        self._client = 0  # the side that sends requests, once the verdict is KAFKA
        self._matcher: Matcher | DiscardingMatcher | None = None
        self._holds: list[tuple[int, Ticket] | None] = [None, None]
        self._now = (0, 0)  # packet and time
        self._ending = False
        self._reset: tuple[int, TcpSegment] | None = None  # the last RST, and the side that sent it
        self._gone: set[int] = set()  # sides that have closed a connection that is not looked into
        self._unsaid: list[tuple[int, str, int, int]] = []  # troubles of a connection that may not be Kafka's

    def reopened_by(self, segment: TcpSegment) -> bool:
        """Whether a segment begins another connection between the same endpoints: a SYN that is no repetition."""
        side = self._sides[self._sender(segment)]
        return (
            segment.flags & (SYN | ACK) == SYN and side.stream.started and not side.stream.begins_at(segment.sequence)
        )

    @property
    def repeated(self) -> int:
        """Bytes that came again."""
        return sum(side.stream.repeated for side in self._sides)

    @property
    def ended(self) -> bool:
        """Whether both ends have said all that they had to say."""
        return len(self._gone) == 2 or all(side.stream.complete for side in self._sides)

    @property
    def reset_in_doubt(self) -> bool:
        """Whether one side may have broken it off, if data before that RST is not in the capture."""
        return self._reset is not None and self.reset_ns is None

    def process(self, segment: TcpSegment, packet: int, time_ns: int) -> None:
        """One segment of either direction."""
        self.bytes += len(segment.payload) + segment.missing
        self.cut += segment.missing
        self._now = (packet, time_ns)
        sender = self._sender(segment)
        if self.verdict in (TLS, OTHER):
            if segment.flags & (FIN | RST):
                self._gone |= {sender, 1 - sender if segment.flags & RST else sender}
            return
        stream = self._sides[sender].stream
        sequence = segment.sequence if not segment.flags & EXPORTED else stream.following
        if segment.flags & SYN:
            if not stream.started:
                stream.open(sequence)
                self._sides[sender].from_start = True
                self._opener = 1 - sender if segment.flags & ACK else sender
            sequence = (sequence + 1) & 0xFFFFFFFF  # data may come along (TCP Fast Open)
        if segment.flags & ACK and not segment.flags & RST:
            self._sides[1 - sender].stream.acknowledge(segment.acknowledgment)
        if segment.flags & FIN:
            stream.close(sequence + len(segment.payload) + segment.missing & 0xFFFFFFFF)
        for event in stream.segment(sequence, segment.payload, packet, time_ns):
            self._take(sender, event)
        if segment.missing:
            stream.reach(sequence + len(segment.payload) + segment.missing & 0xFFFFFFFF)
        for index, side in enumerate(self._sides):
            for event in side.stream.tick():
                self._take(index, event)
        if segment.flags & RST:
            self._reset = (sender, segment)
        if self._reset is not None:
            self._look_at_reset(*self._reset)
        self._hold_back()

    def _look_at_reset(self, sender: int, reset: TcpSegment) -> None:
        """Whether the receiver has believed a RST, and nothing came behind it: now, since captures swap packets.

        It is believed where the receiver waits for just its sequence number (RFC 5961, 3.2), and as the answer to a SYN
        where it acknowledges that (RFC 9293, 3.10.7.3).
        """
        stream = self._sides[sender].stream
        behind = reset.sequence + len(reset.payload) + reset.missing
        if stream.started:
            certain = stream.awaits(behind)
            undecided = 0 < stream.ahead(behind) <= MAX_HELD_BYTES
        else:
            asked = self._sides[1 - sender].stream
            certain = bool(reset.flags & ACK) and asked.begins_at(reset.acknowledgment - 1)
            undecided = False
        if not certain:
            self.reset_ns = None
        elif self.reset_ns is None:
            self.reset_ns = self._now[1]
        if not certain and not undecided:
            self._reset = None

    def hand_over(self, lanes: Any) -> None:
        """The native `Lanes` go on with it where they can, until `resume` or `opened`."""
        if self._lanes is not None or self._reset is not None or self.endpoints[0] == self.endpoints[1]:
            return
        if self.verdict == KAFKA and all(side.in_order for side in self._sides):
            lanes.adopt(self, self.endpoints, tuple(side.hand_over() for side in self._sides), self._now)
            self._lanes = lanes
        elif self.verdict == UNDECIDED and self._opener is not None and all(side.stream.silent for side in self._sides):
            begun = self._sides[self._opener].stream.begun()
            if begun is not None:
                answered = self._sides[1 - self._opener].stream.begun()
                lanes.adopt_opening(self, self.endpoints, self._opener, (begun, answered), self._now)
                self._lanes = lanes

    def bring_back(self) -> None:
        """Whoever has it, has it no longer."""
        if self._lanes is not None:
            self._lanes.release(self.endpoints)

    def receive(self, index: int, frames: Iterable[tuple[bytes, int, int]], first: int | None) -> None:
        """While it is away: frames of one side, and the packet with the first byte that is in no frame yet."""
        assert self._matcher is not None
        take = self._matcher.request if index == self._client else self._matcher.response
        for frame in frames:
            take(Frame(*frame))
        self._hold(index, first)

    def resume(self, sides: tuple[ResumedState, ...], now: tuple[int, int], count: int) -> None:
        """It is no longer away; `count` bytes of data were in its packets."""
        self._lanes = None
        self.bytes += count
        self._now = now
        for side, state in zip(self._sides, sides, strict=True):
            side.resume(state)

    def opened(self, sides: tuple[Begun, Begun | None], now: tuple[int, int]) -> None:
        """It is no longer away, and has said nothing; the first side is the one that sent the SYN."""
        assert self._opener is not None
        self._lanes = None
        self._now = now
        for index, begun in zip((self._opener, 1 - self._opener), sides, strict=True):
            if begun is not None:
                self._sides[index].stream.begin(*begun)
                self._sides[index].from_start = True

    def finish(self) -> None:
        """Nothing more comes: what is incomplete is reported."""
        self.bring_back()
        self._ending = True
        for index, side in enumerate(self._sides):
            for event in side.stream.finish():
                self._take(index, event)
            side.look_again()
            self._advance(index, self._found(index))
        if self._matcher is not None:
            for index in (0, 1):
                self._rest(index)
            self._matcher.finish()
        self._release()

    @property
    def held(self) -> int:
        """About the bytes of memory that it takes: what waits for others before it, or for an answer. What is in lanes
        is not counted."""
        sides = sum(side.stream.held + side.held for side in self._sides)
        return sides + (0 if self._matcher is None else self._matcher.held)

    @property
    def silent_since(self) -> int:
        """Number of its last packet."""
        return self._now[0]

    def shed(self) -> None:
        """Let go what is held; what is lost by that is told."""
        self.bring_back()
        for index, side in enumerate(self._sides):
            for event in side.stream.flush():
                self._take(index, event)
        for index, side in enumerate(self._sides):
            if side.unframed:
                first = side.first_unframed or self._now
                side.lose()
                side.drop()
                self._trouble(index, "too much is held in memory: what follows is given up", *first)
        if self._matcher is not None:
            self._matcher.shed()
        self._hold_back()

    def _rest(self, index: int) -> None:
        """The bytes that are left at the end: a frame that lacks some, or whose size was wrong and hides others."""
        side = self._sides[index]
        if side.stream.early and self._is_joined:
            self.joined += side.stream.early
        elif side.stream.early:
            self._trouble(index, f"{_bytes(side.stream.early)} from before the first ones captured", *self._now)
        for _ in range(_MOST_HIDDEN):
            if not (side.synchronized and side.unframed):
                break
            cut, first = side.unframed, side.first_unframed or self._now
            if side.missing:
                self._trouble(index, f"{_bytes(side.missing)} are missing in the capture", *first)
            side.lose()
            frames = self._found(index)
            if frames is None:
                self._trouble(index, f"{_bytes(cut)} of a frame that is not whole", *first)
                return
            self._advance(index, frames)
        if left := side.unframed + side.skipped:
            self._unframed(index, left)

    @property
    def _is_joined(self) -> bool:
        """Whether the capture does not have the connection's beginning."""
        return self._opener is None and not self._continued

    def _unframed(self, index: int, count: int) -> None:
        """Bytes in no known frame. Before the first frame of a connection whose beginning was not captured they are
        the end of a frame that the capture cannot have; all others are lost."""
        side = self._sides[index]
        if self._is_joined and not side.lost:
            self.joined += count
        else:
            self._trouble(index, f"{_bytes(count)} that belong to no known frame", *(side.first_unframed or self._now))

    def _sender(self, segment: TcpSegment) -> int:
        return 0 if segment.source == self.endpoints[0] else 1

    def _take(self, index: int, event: Event) -> None:
        if self.verdict in (TLS, OTHER):
            return
        side = self._sides[index]
        if isinstance(event, Chunk):
            self._advance(index, side.take(event))
            return
        if isinstance(event, Conflict):
            what = f"{_bytes(event.bytes)} came again as others; the first copy counts"
            self._trouble(index, what, event.packet, event.time_ns)
            return
        if self._bridges(index, event.missing):
            self._advance(index, side.bridge(event.missing))
            return
        missing = event.missing + side.missing
        side.lose()
        side.drop()
        self._trouble(index, f"{_bytes(missing)} are missing in the capture", event.packet, event.time_ns)

    def _bridges(self, index: int, missing: int) -> bool:
        """Whether a hole lies within a frame whose beginning tells what it is: it costs that frame only."""
        side = self._sides[index]
        if self._matcher is None or not side.bridges(missing):
            return False
        if side.missing:
            return True
        head = side.head
        if index == self._client:
            return recognition.request(head) is recognition.Recognition.YES
        return len(head) >= 8 and int.from_bytes(head[4:8], "big", signed=True) in self._matcher.outstanding

    def _advance(self, index: int, frames: Iterator[Frame] | None) -> None:
        """Hand on the frames of one direction, and those that are found when it is known where the next one begins."""
        while frames is not None:
            try:
                for frame in frames:
                    assert self._matcher is not None
                    (self._matcher.request if index == self._client else self._matcher.response)(frame)
            except DecodeError as error:
                side = self._sides[index]
                what = f"bytes that are no frame ({error.expected} expected, {error.found} found)"
                self._trouble(index, what, *(side.first_unframed or self._now))
                side.lose()
                side.drop(len(side.loose) - 1)  # not there again
            frames = self._found(index)
        other = 1 - index
        if self.verdict == KAFKA and index == self._client and not self._sides[other].synchronized:
            self._advance(other, self._found(other))

    def _found(self, index: int) -> Iterator[Frame] | None:
        """The frames from the next one on whose beginning is found in one direction; None where none is."""
        side = self._sides[index]
        if side.synchronized or self.verdict in (TLS, OTHER):
            return None
        if self.verdict == UNDECIDED:
            offset = self._decide(index)
        elif side.from_start:
            offset = 0
        else:
            offset = side.find(self._find_request if index == self._client else self._find_response)
        if offset is None:
            return None
        if offset + side.skipped:
            self._unframed(index, offset + side.skipped)
        return side.begin(offset)

    def _find_request(self, data: bytes, starts: set[int]) -> SearchResult:
        return recognition.find_request(data, starts, final=self._ending)

    def _find_response(self, data: bytes, starts: set[int]) -> SearchResult:
        assert self._matcher is not None
        asked = dict(islice(self._matcher.outstanding.items(), _MOST_IDS))
        return recognition.find_response(data, starts, asked, final=self._ending)

    def _decide(self, index: int) -> int | None:
        """Whether this is Kafka and this direction the client's: where its first request begins."""
        side = self._sides[index]
        offset = None
        if self._opener in (None, index) and side.loose:
            if side.from_start:
                looks = recognition.request(side.loose)
                if looks is Recognition.NO:
                    self._dismiss(TLS if recognition.is_tls(side.loose) else OTHER)
                    return None
                offset = 0 if looks is Recognition.YES else None
            else:
                offset = side.find(self._find_request)
        if offset is not None:
            self.verdict = KAFKA
            self._client = index
            if not self.heard:
                self._matcher = DiscardingMatcher()
                return offset
            row = self._reading.options.row(
                file=self._file,
                connection=self.number,
                client=endpoint(self.endpoints[index]),
                broker=endpoint(self.endpoints[1 - index]),
            )
            self._matcher = Matcher(row, self._sequencer, self._reading)
            for trouble in self._unsaid:
                self._trouble(*trouble)
        elif any(len(side.loose) + side.skipped > MAX_LOOSE_BYTES for side in self._sides):
            self._dismiss(OTHER)
        return offset

    def _dismiss(self, verdict: str) -> None:
        self.verdict = verdict
        self._sides = (FrameStream(), FrameStream())
        self._release()

    def _trouble(self, index: int, what: str, packet: int, time_ns: int) -> None:
        if self._matcher is None:
            self._unsaid = [*self._unsaid, (index, what, packet, time_ns)][-_MOST_UNSAID:]
            return
        who = "client" if index == self._client else "broker"
        self._matcher.trouble(f"from the {who}: {what}", packet, time_ns)

    def _hold_back(self) -> None:
        """Later exchanges wait while bytes of earlier packets may still become frames."""
        for index, side in enumerate(self._sides):
            first = side.first_unframed
            waiting = [packet for packet in (first and first[0], side.stream.held_since) if packet is not None]
            self._hold(index, min(waiting, default=None))

    def _hold(self, index: int, packet: int | None) -> None:
        hold = self._holds[index]
        if self.heard and packet != (hold and hold[0]):
            if hold:
                self._sequencer.close(hold[1])
            self._holds[index] = None if packet is None else (packet, self._sequencer.ticket(packet))

    def _release(self) -> None:
        for hold in self._holds:
            if hold:
                self._sequencer.close(hold[1])
        self._holds = [None, None]


def _bytes(count: int) -> str:
    return f"{count} byte{'s' * (count != 1)}"
