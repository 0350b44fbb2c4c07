"""`Matcher`: the requests and responses of one connection, put together to rows."""

from __future__ import annotations

from collections import OrderedDict, deque
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from kafkawire.capture import recognition
from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.frame_decoding import FrameDecoder
from kafkawire.capture.frame_stream import Frame
from kafkawire.capture.sequencer import Sequencer, Ticket
from kafkawire.frames import Response, decode_response
from kafkawire.rows import Exchange

_SASL_HANDSHAKE = 17

NO_RESPONSE = "no response was captured"
NO_REQUEST = "its request was not captured"
TOKEN = "a SASL token, not shown"
LET_GO = "let go before its response came: too much was held in memory"

#: Most requests that wait for their responses, and responses for their requests, in one connection.
MOST_OUTSTANDING = 10_000
MOST_EARLY = 100


class PendingRequest(msgspec.Struct, frozen=True):
    """A request that waits for its response. `api_key` None: a SASL token."""

    ticket: Ticket
    half: CapturedExchange
    api_key: int | None
    version: int

    def is_answered_by(self, frame: bytes) -> bool:
        """Whether a frame with its correlation id is its response."""
        assert self.api_key is not None  # tokens are answered in their order
        return isinstance(decode_response(frame, api_key=self.api_key, version=self.version), Response)


class Matcher:
    """Turns frames into exchanges, and hands those to the sequencer.

    Attributes:
        outstanding: requests without a response yet, by correlation id, oldest first.
    """

    def __init__(self, row: Exchange, sequencer: Sequencer, reading: FrameDecoder) -> None:
        self.outstanding: OrderedDict[int, PendingRequest] = OrderedDict()
        self._row = row  # what all rows of the connection have in common
        self._sequencer = sequencer
        self._options = reading.options
        self._reading = reading
        self._early: dict[int, tuple[Ticket, Frame]] = {}
        self._raw_tokens = False  # SaslHandshake v0: what follows are tokens without headers
        self._tokens: deque[PendingRequest] = deque()

    def request(self, frame: Frame) -> None:
        """A frame from the client."""
        ticket = self._sequencer.ticket(frame.packet)
        if self._raw_tokens and not self._is_request(frame):
            row = self._begun(frame, problem=TOKEN)
            self._tokens.append(PendingRequest(ticket, CapturedExchange(row=row), None, 0))
            if len(self._tokens) > MOST_OUTSTANDING:
                self._unanswered(self._tokens.popleft())
            return
        asked = (
            self._reading.cut_request(frame.data, _cut(frame)) if frame.missing else self._reading.request(frame.data)
        )
        row = self._begun(
            frame,
            api=asked.api,
            api_key=asked.api_key,
            version=asked.version,
            correlation_id=asked.correlation_id,
            client_id=asked.client_id,
            problem=asked.problem,
            request=asked.body,
        )
        half = CapturedExchange(row=row)
        if self._options.keep:
            half = CapturedExchange(row=row, request=asked.message, request_frame=_whole(frame))
        self._raw_tokens = asked.api_key == _SASL_HANDSHAKE and asked.version == 0
        if asked.silent or asked.correlation_id is None or asked.version is None:
            self._close(ticket, half)
            return
        self._wait(asked.correlation_id, PendingRequest(ticket, half, asked.api_key, asked.version))

    def _begun(self, frame: Frame, **said: Any) -> Exchange:
        """A row with what the packets say of a request, and what it says itself."""
        return replace(
            self._row,
            time=iso_time(frame.time_ns),
            time_ns=frame.time_ns,
            packet=frame.packet,
            request_bytes=frame.size,
            **said,
        )

    def response(self, frame: Frame) -> None:
        """A frame from the broker."""
        if self._tokens:
            pending = self._tokens.popleft()
            self._close(pending.ticket, CapturedExchange(row=self._answered(pending.half.row, frame)))
            return
        correlation_id = int.from_bytes(frame.data[:4], "big", signed=True)
        waiting = self.outstanding.pop(correlation_id, None) if len(frame.data) >= 4 else None
        if waiting is not None:
            self._complete(waiting, frame)
            return
        # Packets may be swapped in a capture: perhaps its request still comes.
        self._unmatched(self._early.pop(correlation_id, None))
        self._early[correlation_id] = (self._sequencer.ticket(frame.packet), frame)
        if len(self._early) > MOST_EARLY:
            self._unmatched(self._early.pop(next(iter(self._early))))

    def trouble(self, problem: str, packet: int, time_ns: int) -> None:
        """Something that is no exchange and must not be passed over: a row with a problem only."""
        ticket = self._sequencer.ticket(packet)
        row = replace(self._row, time=iso_time(time_ns), time_ns=time_ns, packet=packet, problem=problem)
        self._close(ticket, CapturedExchange(row=row))

    @property
    def held(self) -> int:
        """About the bytes of memory that frames and exchanges take which wait for their other half."""
        waiting = (*self.outstanding.values(), *self._tokens)
        early = sum(len(frame.data) for _, frame in self._early.values())
        return early + sum(self._weight(pending.half.row) for pending in waiting)

    def shed(self) -> None:
        """Nothing is waited for any longer."""
        self._end(LET_GO)

    def finish(self) -> None:
        """No more frames come."""
        self._end(NO_RESPONSE)

    def _end(self, problem: str) -> None:
        for pending in (*self.outstanding.values(), *self._tokens):
            self._unanswered(pending, problem)
        for early in self._early.values():
            self._unmatched(early)
        self.outstanding.clear()
        self._tokens.clear()
        self._early.clear()

    def _is_request(self, frame: Frame) -> bool:
        head = frame.size.to_bytes(4, "big") + frame.data[: recognition.HEAD]
        return recognition.request(head) is recognition.Recognition.YES

    def _wait(self, correlation_id: int, pending: PendingRequest) -> None:
        early = self._early.pop(correlation_id, None)
        if early is not None:
            ticket, frame = early
            self._sequencer.close(ticket)
            self._complete(pending, frame)
            return
        if correlation_id in self.outstanding:
            self._unanswered(self.outstanding.pop(correlation_id))
        elif len(self.outstanding) >= MOST_OUTSTANDING:
            self._unanswered(self.outstanding.popitem(last=False)[1])
        self.outstanding[correlation_id] = pending

    def _complete(self, pending: PendingRequest, frame: Frame) -> None:
        asked = pending.half.row
        assert pending.api_key is not None  # tokens are answered in their order
        if frame.missing:
            found = self._reading.cut_response(_cut(frame))
        else:
            found = self._reading.response(frame.data, pending.api_key, pending.version)
        problem = asked.problem if found.problem is None else _joined(asked.problem, found.problem)
        row = self._answered(asked, frame, errors=found.errors, response=found.body, problem=problem)
        if self._options.keep:
            half = replace(pending.half, row=row, response=found.message, response_frame=_whole(frame))
        else:
            half = CapturedExchange(row=row)
        self._close(pending.ticket, half)

    def _answered(self, row: Exchange, frame: Frame, **said: Any) -> Exchange:
        """A row with what the packets say of a response, and what it says itself."""
        latency = None if row.time_ns is None else round((frame.time_ns - row.time_ns) / 1e6, 6)
        return replace(
            row,
            response_time_ns=frame.time_ns,
            response_packet=frame.packet,
            response_bytes=frame.size,
            latency_ms=latency,
            **said,
        )

    def _unanswered(self, pending: PendingRequest, problem: str = NO_RESPONSE) -> None:
        row = pending.half.row
        row = replace(row, problem=_joined(row.problem, problem))
        self._close(pending.ticket, replace(pending.half, row=row))

    def _unmatched(self, early: tuple[Ticket, Frame] | None) -> None:
        if early is not None:
            ticket, frame = early
            correlation_id = int.from_bytes(frame.data[:4], "big", signed=True) if len(frame.data) >= 4 else None
            row = replace(self._answered(self._row, frame), correlation_id=correlation_id, problem=NO_REQUEST)
            self._close(ticket, CapturedExchange(row=row, response_frame=_whole(frame) if self._options.keep else None))

    def _close(self, ticket: Ticket, matched: CapturedExchange) -> None:
        self._sequencer.close(ticket, matched, self._weight(matched.row))

    def _weight(self, row: Exchange) -> int:
        """About the bytes of memory that an exchange takes: messages and bodies a multiple of those on the wire."""
        sizes = (row.request_bytes or 0) + (row.response_bytes or 0) if self._options.body or self._options.keep else 0
        return 1000 + (8 if self._options.body else 3) * sizes


class DiscardingMatcher:
    """In a `Matcher`'s place where a connection is another's to read: nothing comes of its frames."""

    def __init__(self) -> None:
        self.outstanding: OrderedDict[int, PendingRequest] = OrderedDict()
        self.held = 0

    def request(self, frame: Frame) -> None: ...

    def response(self, frame: Frame) -> None: ...

    def trouble(self, problem: str, packet: int, time_ns: int) -> None: ...

    def shed(self) -> None: ...

    def finish(self) -> None: ...


def iso_time(time_ns: int) -> str | None:
    """Epoch nanoseconds as ISO 8601 in UTC, to the microsecond; None where no calendar reaches."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    second = _iso_second(seconds)
    return None if second is None else f"{second}.{rest // 1000:06d}Z"


@lru_cache(maxsize=64)
def _iso_second(seconds: int) -> str | None:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
    except (OverflowError, ValueError, OSError):
        return None


def _cut(frame: Frame) -> str:
    return f"{frame.missing} of its {frame.size} bytes are missing in the capture"


def _whole(frame: Frame) -> bytes | None:
    return None if frame.missing else frame.data


def _joined(*problems: str | None) -> str:
    return "; ".join(problem for problem in problems if problem)
