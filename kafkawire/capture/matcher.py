"""`Matcher`: matches the responses of one connection to its requests by correlation id, and makes their rows."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from typing import Any

import msgspec
from msgspec.structs import replace

from kafkawire.capture import recognition
from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.frame_decoding import FrameDecoder
from kafkawire.capture.frame_stream import StreamFrame
from kafkawire.capture.sequencer import Sequencer, Ticket
from kafkawire.rows import Exchange

_SASL_HANDSHAKE = 17

NO_RESPONSE = "no response was captured"
NO_REQUEST = "its request was not captured"
AMBIGUOUS = "other requests under way have its correlation id: its response may be that of one of them"
TOKEN = "a SASL token, not shown"

#: Limits of one connection: requests without their responses, and responses without their requests.
MOST_OUTSTANDING = 10_000
MOST_EARLY = 100


class PendingExchange(msgspec.Struct, frozen=True):
    """A request or SASL token without its response yet. `exchange`: what is known of both."""

    ticket: Ticket
    exchange: CapturedExchange


class Expected(msgspec.Struct, frozen=True):
    """A response that is waited for: api key and version of its request, and what decodes it."""

    api_key: int
    version: int
    decoder: FrameDecoder

    def is_answered_by(self, frame: bytes) -> bool:
        """Whether a frame with its correlation id decodes as its response."""
        return self.decoder.answers(frame, self.api_key, self.version)


class PendingRequest(PendingExchange, frozen=True):
    """A request with a header without its response yet."""

    expected: Expected


class Matcher:
    """Turns frames into exchanges and passes those to the sequencer.

    Attributes:
        outstanding: requests without their responses yet, by correlation id, oldest first. Of several with one
            correlation id the oldest.
        incomplete: bytes of the connection were not captured; joined: some of them before its first packet.

    Args:
        row: the fields that all rows of the connection have in common.
        sequencer: puts exchanges in order.
        decoder: decodes frames.
    """

    def __init__(self, row: Exchange, sequencer: Sequencer, decoder: FrameDecoder) -> None:
        self.outstanding: OrderedDict[int, PendingRequest] = OrderedDict()
        self.incomplete = self.joined = False
        #: The later requests with the correlation id of one of those, and their number.
        self._same: dict[int, deque[PendingRequest]] = {}
        self._repeated = 0
        self._last: int | None = None  # correlation id of the last request
        self._doubtful: int | None = None  # a correlation id of several requests whose responses may be those of others
        self._row = row
        self._sequencer = sequencer
        self._options = decoder.options
        self._decoder = decoder
        self._early: dict[int, tuple[Ticket, StreamFrame]] = {}
        self._raw_tokens = False  # after SaslHandshake v0: frames are tokens without headers
        self._tokens: deque[PendingExchange] = deque()

    def request(self, frame: StreamFrame, *, late: bool) -> None:
        """Takes a frame from the client. `late`: its response may have been captured before it."""
        self.incomplete |= frame.missing > 0
        ticket = self._sequencer.ticket(frame.packet)
        if self._raw_tokens and not self._is_request(frame):
            row = self._request_row(frame, problem=TOKEN)
            self._tokens.append(PendingExchange(ticket, CapturedExchange(row=row)))
            if len(self._tokens) > MOST_OUTSTANDING:
                self._unanswered(self._tokens.popleft())
            return
        asked = (
            self._decoder.cut_request(frame.data, _cut(frame)) if frame.missing else self._decoder.request(frame.data)
        )
        row = self._request_row(
            frame,
            api=asked.api,
            api_key=asked.api_key,
            version=asked.version,
            correlation_id=asked.correlation_id,
            client_id=asked.client_id,
            problem=asked.problem,
            note=asked.note,
            request=asked.body,
        )
        exchange = CapturedExchange(row=row, request=asked.message if self._keeps(asked.api_key) else None)
        if self._options.keep:
            exchange = CapturedExchange(row=row, request=asked.message, request_frame=_whole(frame))
        self._raw_tokens = asked.api_key == _SASL_HANDSHAKE and asked.version == 0
        if asked.silent or asked.correlation_id is None or asked.api_key is None or asked.version is None:
            self._close(ticket, exchange)
            return
        # Requests with one correlation id before the capture may have the first responses in it.
        if self.joined and asked.correlation_id == self._last:
            self._doubtful = self._last
        self._last = asked.correlation_id
        expected = Expected(asked.api_key, asked.version, self._decoder)
        self._wait(asked.correlation_id, PendingRequest(ticket, exchange, expected), late=late)

    def _request_row(self, frame: StreamFrame, **fields: Any) -> Exchange:
        """A row with the fields that packets give of a request, and `fields` of its content."""
        return replace(
            self._row,
            time=iso_time(frame.time_ns),
            time_ns=frame.time_ns,
            packet=frame.packet,
            request_bytes=frame.size,
            **fields,
        )

    def response(self, frame: StreamFrame) -> None:
        """Takes a frame from the broker."""
        correlation_id = int.from_bytes(frame.data[:4], "big", signed=True)
        waiting = self.outstanding.get(correlation_id) if len(frame.data) >= 4 else None
        if self._tokens:
            # A client sends no request before its token is answered: if this answers one, the token's answer is lost.
            if waiting is None or not waiting.expected.is_answered_by(frame.data):
                token = self._tokens.popleft()
                self._close(token.ticket, CapturedExchange(row=self._response_row(token.exchange.row, frame)))
                return
            while self._tokens:
                self._unanswered(self._tokens.popleft())
        if waiting is not None:
            self._answer(*self._answered(correlation_id, frame), frame)
            return
        # Captures may swap packets: its request may still come.
        self._unmatched(self._early.pop(correlation_id, None))
        self._early[correlation_id] = (self._sequencer.ticket(frame.packet), frame)
        if len(self._early) > MOST_EARLY:
            self._unmatched(self._early.pop(next(iter(self._early))))

    def report(self, problem: str, packet: int, time_ns: int) -> None:
        """Adds a row with a problem that belongs to no exchange.

        Args:
            problem: the sentence.
            packet: number of the packet that shows it, from 1.
            time_ns: time of that packet, epoch nanoseconds.
        """
        ticket = self._sequencer.ticket(packet)
        row = replace(self._row, time=iso_time(time_ns), time_ns=time_ns, packet=packet, problem=problem)
        self._close(ticket, CapturedExchange(row=row))

    def expected(self, most: int) -> dict[int, list[Expected]]:
        """What is expected by correlation id: of the oldest requests, `most` of them."""
        found = {}
        for correlation_id, oldest in islice(self.outstanding.items(), most):
            same = islice(self._same.get(correlation_id, ()), most - 1)
            found[correlation_id] = [oldest.expected, *(pending.expected for pending in same)]
        return found

    @property
    def held(self) -> int:
        """Estimate of the memory that unmatched requests and responses take, in bytes."""
        waiting = (*self._waiting, *self._tokens)
        early = sum(len(frame.data) for _, frame in self._early.values())
        return early + sum(self._weight(pending.exchange.row) for pending in waiting)

    def finish(self) -> None:
        """Closes all open exchanges at the connection's end."""
        for pending in (*self._waiting, *self._tokens):
            self._unanswered(pending)
        for early in self._early.values():
            self._unmatched(early)

    def _is_request(self, frame: StreamFrame) -> bool:
        head = frame.size.to_bytes(4, "big") + frame.data[: recognition.HEAD]
        return self._decoder.recognizer.request(head) is recognition.Recognition.YES

    @property
    def _waiting(self) -> Iterator[PendingRequest]:
        for correlation_id, oldest in self.outstanding.items():
            yield oldest
            yield from self._same.get(correlation_id, ())

    def _wait(self, correlation_id: int, pending: PendingRequest, *, late: bool) -> None:
        early = self._early.pop(correlation_id, None)
        if early is not None and (late or early[1].packet > (pending.exchange.row.packet or 0)):
            ticket, frame = early
            self._sequencer.close(ticket)
            self._answer(pending, None, frame)
            return
        self._unmatched(early)
        if len(self.outstanding) + self._repeated >= MOST_OUTSTANDING:
            self._unanswered(self._pop(next(iter(self.outstanding))))
        if correlation_id in self.outstanding:
            self._same.setdefault(correlation_id, deque()).append(pending)
            self._repeated += 1
        else:
            self.outstanding[correlation_id] = pending

    def _pop(self, correlation_id: int) -> PendingRequest:
        """Takes out the oldest request with a correlation id. The next one with it takes the last place."""
        oldest = self.outstanding.pop(correlation_id)
        same = self._same.get(correlation_id)
        if same is not None:
            self.outstanding[correlation_id] = same.popleft()
            self._repeated -= 1
            if not same:
                del self._same[correlation_id]
        return oldest

    def _answered(self, correlation_id: int, frame: StreamFrame) -> tuple[PendingRequest, str | None]:
        """Takes out the request that a response answers; also gives why that is not certain.

        Brokers answer in the order of requests: of several with one correlation id the oldest is answered. Where that
        one's response does not decode and another one's does, responses are missing.
        """
        same = self._same.get(correlation_id, ())
        several = bool(same)
        if several and not frame.missing:
            waiting = (self.outstanding[correlation_id], *same)
            decodes = (i for i, pending in enumerate(waiting) if pending.expected.is_answered_by(frame.data))
            for _ in range(next(decodes, 0)):
                self.incomplete = True
                self._unanswered(self._pop(correlation_id))
        if several and self.incomplete:
            self._doubtful = correlation_id
        return self._pop(correlation_id), AMBIGUOUS if correlation_id == self._doubtful else None

    def _answer(self, pending: PendingRequest, why: str | None, frame: StreamFrame) -> None:
        """Closes an exchange with its response. `why`: why it is not certain to be its response."""
        asked = pending.exchange.row
        if frame.missing:
            found = self._decoder.cut_response(_cut(frame))
        else:
            found = self._decoder.response(frame.data, pending.expected.api_key, pending.expected.version)
        problem = joined(asked.problem, found.problem, why) or None
        note = joined(asked.note, found.note) or None
        row = self._response_row(asked, frame, errors=found.errors, response=found.body, problem=problem, note=note)
        if self._options.keep:
            exchange = replace(pending.exchange, row=row, response=found.message, response_frame=_whole(frame))
        else:
            answer = found.message if asked.api_key in self._options.keep_messages else None
            exchange = CapturedExchange(row=row, request=pending.exchange.request, response=answer)
        self._close(pending.ticket, exchange)

    def _response_row(self, row: Exchange, frame: StreamFrame, **fields: Any) -> Exchange:
        """A row with the fields that packets give of a response, and `fields` of its content."""
        latency = None if row.time_ns is None else round((frame.time_ns - row.time_ns) / 1e6, 6)
        return replace(
            row,
            response_time_ns=frame.time_ns,
            response_packet=frame.packet,
            response_bytes=frame.size,
            latency_ms=latency,
            **fields,
        )

    def _unanswered(self, pending: PendingExchange) -> None:
        row = pending.exchange.row
        row = replace(row, problem=joined(row.problem, NO_RESPONSE))
        self._close(pending.ticket, replace(pending.exchange, row=row))

    def _unmatched(self, early: tuple[Ticket, StreamFrame] | None) -> None:
        if early is not None:
            ticket, frame = early
            correlation_id = int.from_bytes(frame.data[:4], "big", signed=True) if len(frame.data) >= 4 else None
            row = replace(self._response_row(self._row, frame), correlation_id=correlation_id, problem=NO_REQUEST)
            self._close(ticket, CapturedExchange(row=row, response_frame=_whole(frame) if self._options.keep else None))

    def _keeps(self, api_key: int | None) -> bool:
        return api_key in self._options.keep_requests or api_key in self._options.keep_messages

    def _close(self, ticket: Ticket, exchange: CapturedExchange) -> None:
        self._sequencer.close(ticket, exchange, self._weight(exchange.row))

    def _weight(self, row: Exchange) -> int:
        """Estimate of the memory that an exchange takes, in bytes: a multiple of its size on the wire."""
        if not (self._options.body or self._options.keep or self._keeps(row.api_key)):
            return 1000
        sizes = (row.request_bytes or 0) + (row.response_bytes or 0)
        return 1000 + (8 if self._options.body else 3) * sizes


class DiscardingMatcher:
    """Replaces `Matcher` in connections that are not owned: it discards their frames."""

    def __init__(self) -> None:
        self.outstanding: OrderedDict[int, PendingRequest] = OrderedDict()
        self.incomplete = self.joined = False
        self.held = 0

    def expected(self, most: int) -> dict[int, list[Expected]]:
        return {}

    def request(self, frame: StreamFrame, *, late: bool) -> None: ...

    def _discard(self, *_: object) -> None: ...

    response = report = finish = _discard


def iso_time(time_ns: int) -> str | None:
    """Epoch nanoseconds as ISO 8601 in UTC, with microseconds; None outside the years that `datetime` supports."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    second = _iso_second(seconds)
    return None if second is None else f"{second}.{rest // 1000:06d}Z"


@lru_cache(maxsize=64)
def _iso_second(seconds: int) -> str | None:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return None


def _cut(frame: StreamFrame) -> str:
    return f"{frame.missing} of its {frame.size} bytes are missing in the capture"


def _whole(frame: StreamFrame) -> bytes | None:
    return None if frame.missing else frame.data


def joined(*problems: str | None) -> str:
    """Problems of one row as one sentence."""
    return "; ".join(problem for problem in problems if problem)
