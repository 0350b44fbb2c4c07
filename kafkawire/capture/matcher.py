"""`Matcher`: matches the responses of one connection to its requests by correlation id, and makes their rows."""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import chain, islice

import msgspec

from kafkawire.capture import recognition
from kafkawire.capture.exchange_rows import ExchangeRows, Place
from kafkawire.capture.frame_decoding import DecodedRequest, DecodedResponse, FrameDecoder
from kafkawire.capture.frame_stream import StreamFrame
from kafkawire.capture.sequencer import Sequencer, Ticket

_SASL_HANDSHAKE = 17

NO_RESPONSE = "no response was captured"
NO_REQUEST = "its request was not captured"
AMBIGUOUS = "other requests under way have its correlation id: its response may be that of one of them"
FIRST = "the request in packet {} has the correlation id of this one: its response may be that of another"
TOKEN = "a SASL token, not shown"

#: Limits of one connection: requests without their responses, and responses without their requests.
MOST_OUTSTANDING = 10_000
MOST_EARLY = 100


class Pending(msgspec.Struct, frozen=True):
    """A request without its response yet; or a SASL token, or a problem: `asked` is None, and `problem` says which.

    `kind`: api key and version of a request. `frame`: if it is kept.
    """

    ticket: Ticket
    place: Place
    asked: DecodedRequest | None
    problem: str | None = None
    kind: tuple[int, int] = (-1, -1)
    frame: bytes | None = None


class Matcher:
    """Turns frames into exchanges and passes those to the sequencer.

    Attributes:
        outstanding: requests without their responses yet, by correlation id, oldest first: several may have one.
        incomplete: bytes of the connection were not captured; joined: some of them before its first packet.

    Args:
        rows: makes the rows. ends: number of the connection, client and broker.
        sequencer: puts exchanges in order.
        decoder: decodes frames.
    """

    def __init__(
        self, rows: ExchangeRows, ends: tuple[int, str, str], sequencer: Sequencer, decoder: FrameDecoder
    ) -> None:
        self.outstanding: OrderedDict[int, deque[Pending]] = OrderedDict()
        self.incomplete = self.joined = False
        self._waiting = 0  # number of those requests
        self._last: int | None = None  # correlation id of the last request, and its packet
        self._last_packet = 0
        self._doubtful: int | None = None  # a correlation id of several requests whose responses may be those of others
        self._rows, self._ends = rows, ends
        self._sequencer = sequencer
        self._options = decoder.options
        self._times = 8 if decoder.options.body else 3  # estimate: memory of a message, in its size on the wire
        self._decoder = decoder
        self._early: dict[int, tuple[Ticket, StreamFrame]] = {}
        self._raw_tokens = False  # after SaslHandshake v0: frames are tokens without headers
        self._tokens: deque[Pending] = deque()

    def request(self, frame: StreamFrame, *, late: bool) -> None:
        """Takes a frame from the client. `late`: its response may have been captured before it."""
        self.incomplete |= frame.missing > 0
        ticket = self._ticket(frame)
        if self._raw_tokens and not self._is_request(frame):
            self._tokens.append(Pending(ticket, _place(frame), None, TOKEN))
            if len(self._tokens) > MOST_OUTSTANDING:
                self._unanswered(self._tokens.popleft())
            return
        asked = (
            self._decoder.cut_request(frame.data, _cut(frame)) if frame.missing else self._decoder.request(frame.data)
        )
        pending = Pending(ticket, _place(frame), asked, frame=self._whole(frame))
        self._raw_tokens = asked.api_key == _SASL_HANDSHAKE and asked.version == 0
        if asked.silent or asked.correlation_id is None or asked.api_key is None or asked.version is None:
            self._close(pending)
            return
        # Requests with one correlation id before the capture may have the first responses in it.
        if self.joined and asked.correlation_id == self._last:
            if self._doubtful != self._last and self._last not in self.outstanding:
                self.report(FIRST.format(self._last_packet), frame.packet, frame.time_ns)
            self._doubtful = self._last
        self._last, self._last_packet = asked.correlation_id, frame.packet
        pending = msgspec.structs.replace(pending, kind=(asked.api_key, asked.version))
        self._wait(asked.correlation_id, pending, late=late)

    def response(self, frame: StreamFrame) -> None:
        """Takes a frame from the broker."""
        correlation_id = int.from_bytes(frame.data[:4], "big", signed=True)
        waiting = self.outstanding.get(correlation_id) if len(frame.data) >= 4 else None
        if self._tokens:
            # A client sends no request before its token is answered: if this answers one, the token's answer is lost.
            if waiting is None or not self._decoder.answers(frame.data, *waiting[0].kind):
                self._close(self._tokens.popleft(), frame)
                return
            while self._tokens:
                self._unanswered(self._tokens.popleft())
        if waiting is not None:
            self._answer(*self._answered(correlation_id, frame), frame)
            return
        # Captures may swap packets: its request may still come.
        self._unmatched(self._early.pop(correlation_id, None))
        self._early[correlation_id] = (self._ticket(frame), frame)
        if len(self._early) > MOST_EARLY:
            self._unmatched(self._early.pop(next(iter(self._early))))

    def report(self, problem: str, packet: int, time_ns: int) -> None:
        """Adds a row with a problem that belongs to no exchange.

        Args:
            problem: the sentence.
            packet: number of the packet that shows it, from 1.
            time_ns: time of that packet, epoch nanoseconds.
        """
        self._close(Pending(self._sequencer.ticket(packet), (time_ns, packet, None), None, problem))

    def expected(self, most: int) -> dict[int, list[tuple[int, int]]]:
        """Api keys and versions by correlation id: of the oldest requests, `most` of them."""
        oldest = islice(self.outstanding.items(), most)
        return {number: [pending.kind for pending in islice(waiting, most)] for number, waiting in oldest}

    def finish(self) -> None:
        """Closes all open exchanges at the connection's end."""
        for pending in chain(*self.outstanding.values(), self._tokens):
            self._unanswered(pending)
        for early in self._early.values():
            self._unmatched(early)

    def _is_request(self, frame: StreamFrame) -> bool:
        head = frame.size.to_bytes(4, "big") + frame.data[: recognition.HEAD]
        return self._decoder.recognizer.request(head) is recognition.Recognition.YES

    def _wait(self, correlation_id: int, pending: Pending, *, late: bool) -> None:
        early = self._early.pop(correlation_id, None)
        if early is not None and (late or early[1].packet > pending.place[1]):
            ticket, frame = early
            self._sequencer.close(ticket)
            self._answer(pending, None, frame)
            return
        self._unmatched(early)
        if self._waiting >= MOST_OUTSTANDING:
            self._unanswered(self._pop(next(iter(self.outstanding))))
        self.outstanding.setdefault(correlation_id, deque()).append(pending)
        self._waiting += 1

    def _pop(self, correlation_id: int) -> Pending:
        """Takes out the oldest request with a correlation id. The next one with it takes the last place."""
        waiting = self.outstanding.pop(correlation_id)
        oldest = waiting.popleft()
        self._waiting -= 1
        if waiting:
            self.outstanding[correlation_id] = waiting
        return oldest

    def _answered(self, correlation_id: int, frame: StreamFrame) -> tuple[Pending, str | None]:
        """Takes out the request that a response answers; also gives why that is not certain.

        Brokers answer in the order of requests: of several with one correlation id the oldest is answered. Where that
        one's response does not decode and another one's does, responses are missing.
        """
        waiting = self.outstanding[correlation_id]
        several = len(waiting) > 1
        if several and not frame.missing:
            decodes = (i for i, pending in enumerate(waiting) if self._decoder.answers(frame.data, *pending.kind))
            for _ in range(next(decodes, 0)):
                self.incomplete = True
                self._unanswered(self._pop(correlation_id))
        if several and self.incomplete:
            self._doubtful = correlation_id
        return self._pop(correlation_id), AMBIGUOUS if correlation_id == self._doubtful else None

    def _answer(self, pending: Pending, why: str | None, frame: StreamFrame) -> None:
        """Closes an exchange with its response. `why`: why it is not certain to be its response."""
        if frame.missing:
            found = self._decoder.cut_response(_cut(frame))
        else:
            found = self._decoder.response(frame.data, *pending.kind)
        self._close(msgspec.structs.replace(pending, problem=why), frame, found)

    def _unanswered(self, pending: Pending) -> None:
        problem = NO_RESPONSE if pending.problem is None else f"{pending.problem}; {NO_RESPONSE}"
        self._close(msgspec.structs.replace(pending, problem=problem))

    def _unmatched(self, early: tuple[Ticket, StreamFrame] | None) -> None:
        if early is not None:
            ticket, frame = early
            correlation_id = int.from_bytes(frame.data[:4], "big", signed=True) if len(frame.data) >= 4 else None
            place, whole = _place(frame), self._whole(frame)
            exchange = self._rows.row(self._ends, None, None, None, place, correlation_id, NO_REQUEST, None, whole)
            self._sequencer.close(ticket, exchange)

    def _whole(self, frame: StreamFrame) -> bytes | None:
        return frame.data if self._decoder.keeps_all and not frame.missing else None

    def _ticket(self, frame: StreamFrame) -> Ticket:
        return self._sequencer.ticket(frame.packet, self._times * len(frame.data))

    def _close(self, asked: Pending, frame: StreamFrame | None = None, found: DecodedResponse | None = None) -> None:
        """Closes a request with its response, or without."""
        place, whole = (None, None) if frame is None else (_place(frame), self._whole(frame))
        exchange = self._rows.row(
            self._ends, asked.asked, asked.place, found, place, None, asked.problem, asked.frame, whole
        )
        row, keeps = exchange.row, self._options.body or exchange.request is not None
        sizes = (row.request_bytes or 0) + (row.response_bytes or 0)
        self._sequencer.close(asked.ticket, exchange, self._times * sizes if keeps else 0)


def _place(frame: StreamFrame) -> Place:
    return frame.time_ns, frame.packet, frame.size


def _cut(frame: StreamFrame) -> str:
    return f"{frame.missing} of its {frame.size} bytes are missing in the capture"
