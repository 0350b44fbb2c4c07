"""`ExchangeRows`: makes the rows of exchanges from the requests and responses that a tracker has matched."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import UNSET

from kafkawire.capture.exchange import CapturedExchange
from kafkawire.capture.frame_decoding import DecodedRequest, DecodedResponse, FrameDecoder
from kafkawire.kafka_errors import error_name
from kafkawire.rows import Exchange

#: Time and packet of a frame's first byte, and its size in bytes; None: there is no frame.
Place = tuple[int, int, int | None]


class ExchangeRows:
    """Makes the rows of a file's exchanges.

    Args:
        file: its name.
        decoder: decodes its frames.
    """

    def __init__(self, file: str, decoder: FrameDecoder) -> None:
        self._file = file
        self._keeps_all = decoder.keeps_all
        self._no_body = None if decoder.options.body else UNSET

    def row(
        self,
        ends: tuple[int, str, str] | None,
        asked: DecodedRequest | tuple[str, int, int, int, str | None, bytes | None] | None,
        request: Place | None,
        answered: DecodedResponse | tuple[list[tuple[int, int]], bytes | None] | None,
        response: Place | None,
        correlation_id: int | None,
        problem: str | None,
        request_frame: bytes | None,
        response_frame: bytes | None,
    ) -> CapturedExchange:
        """An exchange, from what a tracker knows of it.

        Args:
            ends: number of the connection, client and broker; None where it has none.
            asked: the request as it was decoded; or the fields of its row, with the body as JSON.
            request: where it begins.
            answered: the response as it was decoded; or its error codes with their numbers, and the body as JSON.
            response: where it begins.
            correlation_id: where there is no request.
            problem: what is wrong besides what could not be decoded.
            request_frame, response_frame: the frames, if they are kept.
        """
        connection, client, broker = (None, None, None) if ends is None else ends
        time_ns, packet, request_bytes = (None, None, None) if request is None else request
        response_time_ns, response_packet, response_bytes = (None, None, None) if response is None else response
        problems = [problem]
        notes = [found.note for found in (asked, answered) if found is not None and not isinstance(found, tuple)]
        api = api_key = version = client_id = None
        body: Any = self._no_body
        answer: Any = self._no_body
        errors: dict[str, int] = {}
        if isinstance(answered, tuple):
            counts, text = answered
            errors = {error_name(code): count for code, count in counts}
            answer = self._no_body if text is None else msgspec.Raw(text)
        elif answered is not None:
            errors, answer = answered.errors, answered.body
            problems.insert(0, answered.problem)
        if isinstance(asked, tuple):
            api, api_key, version, correlation_id, client_id, text = asked
            body = self._no_body if text is None else msgspec.Raw(text)
        elif asked is not None:
            api, api_key, version, body = asked.api, asked.api_key, asked.version, asked.body
            correlation_id, client_id = asked.correlation_id, asked.client_id
            problems.insert(0, asked.problem)
        latency = None
        if time_ns is not None and response_time_ns is not None:
            latency = round((response_time_ns - time_ns) / 1e6, 6)
        row = Exchange(
            time=None if time_ns is None else iso_time(time_ns),
            time_ns=time_ns,
            response_time_ns=response_time_ns,
            file=self._file,
            connection=connection,
            client=client,
            broker=broker,
            api=api,
            api_key=api_key,
            version=version,
            correlation_id=correlation_id,
            client_id=client_id,
            latency_ms=latency,
            request_bytes=request_bytes,
            response_bytes=response_bytes,
            packet=packet,
            response_packet=response_packet,
            errors=errors,
            problem=joined(*problems) or None,
            note=joined(*notes) or None,
            request=body,
            response=answer,
        )
        messages = [None if found is None or isinstance(found, tuple) else found.message for found in (asked, answered)]
        return CapturedExchange(
            row=row,
            request=messages[0],
            response=messages[1],
            request_frame=request_frame if self._keeps_all else None,
            response_frame=response_frame if self._keeps_all else None,
        )


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


def joined(*problems: str | None) -> str:
    """Problems of one row as one sentence."""
    return "; ".join(problem for problem in problems if problem)
