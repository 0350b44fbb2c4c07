"""What frames say, as rows show it: the fields of a header, the body, the error codes.

Where nobody needs the messages themselves, the native engine reads a frame in one call, and writes the body as JSON
text (`wire.json_text`). What it refuses, and bodies that are not shown as they are (secrets, decoded records), are
decoded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from kafkawire.capture import message_json
from kafkawire.errors import DecodeError
from kafkawire.frames import Request, Response, decode_request, decode_response
from kafkawire.frames.headers import request_header_version, response_header_version
from kafkawire.frames.rpc import message_of
from kafkawire.kafka_api_keys import api_name
from kafkawire.kafka_errors import error_name
from kafkawire.messages import RequestHeader
from kafkawire.wire.backend import native
from kafkawire.wire.interpreter import Decoder
from kafkawire.wire.json_text import text_writer

if TYPE_CHECKING:
    from kafkawire.capture.exchange import ReadOptions
    from kafkawire.frames import UndecodedRequest
    from kafkawire.wire.message import Message

_PRODUCE = 0


class DecodedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request, with the fields of its row. `silent`: it is never answered. `message`: None where none was made."""

    api: str | None
    api_key: int | None
    version: int | None
    correlation_id: int | None
    client_id: str | None
    problem: str | None
    body: Any
    silent: bool
    message: Message | None = None


class DecodedResponse(msgspec.Struct, frozen=True, gc=False):
    """A response, with the fields of its row."""

    errors: dict[str, int]
    problem: str | None
    body: Any
    message: Message | None = None


class FrameDecoder:
    """Reads frames for rows that show what `options` says; one for all connections of a capture."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._nothing = None if options.body else UNSET
        self._texts = options.body
        self._quick = native is not None and not options.keep and (options.text or not options.body)
        self._requests: dict[bytes, tuple[str, int, Any] | None] = {}
        self._responses: dict[int, Any] = {}

    def request(self, frame: bytes) -> DecodedRequest:
        """A request's frame."""
        if self._quick:
            key = frame[:2]
            known = self._requests[key] if key in self._requests else self._request_writer(key)
            if known is not None:
                api, api_key, writer = known
                found = writer.request(frame, self._texts, self.options.payloads)
                if found is not None:
                    version, correlation_id, client_id, text, counts = found
                    silent = api_key == _PRODUCE and counts is None
                    body = self._nothing if text is None else msgspec.Raw(text)
                    return DecodedRequest(api, api_key, version, correlation_id, client_id, None, body, silent)
        return self._decoded_request(frame)

    def response(self, frame: bytes, api_key: int, version: int) -> DecodedResponse:
        """The frame of the response to a request."""
        if self._quick:
            writer = self._responses[api_key] if api_key in self._responses else self._response_writer(api_key)
            found = None if writer is None else writer.response(frame, version, self._texts, self.options.payloads)
            if found is not None:
                text, counts = found
                errors = {} if counts is None else {error_name(code): counts[code] for code in sorted(counts)}
                return DecodedResponse(errors, None, self._nothing if text is None else msgspec.Raw(text))
        return self._decoded_response(frame, api_key, version)

    def cut_request(self, head: bytes, why: str) -> DecodedRequest:
        """A request's frame of which the capture lacks something; `head`: what is there before that."""
        found = decode_request(head, copy=False)
        acks = _acks_of_cut(head, found.version) if found.api_key == _PRODUCE else None
        return _asked(found, why, self._nothing, acks)

    def cut_response(self, why: str) -> DecodedResponse:
        """A response's frame of which the capture lacks something."""
        return DecodedResponse({}, f"response: {why}", self._nothing)

    def _decoded_request(self, frame: bytes) -> DecodedRequest:
        found = decode_request(frame, copy=False)
        acks = found.body.acks if found.api_key == _PRODUCE and found.body is not None else None
        why = None if isinstance(found, Request) else found.reason
        return _asked(found, why, self._shown(found.body, found.version), acks, found.body)

    def _decoded_response(self, frame: bytes, api_key: int, version: int) -> DecodedResponse:
        found = decode_response(frame, api_key=api_key, version=version, copy=False)
        return DecodedResponse(
            errors={} if found.body is None else message_json.errors(found.body),
            problem=None if isinstance(found, Response) else f"response: {found.reason}",
            body=self._shown(found.body, found.version),
            message=found.body,
        )

    def _shown(self, message: Message | None, version: int | None) -> Any:
        """What a row shows of a body, where bodies are asked for and there is one."""
        if not self.options.body or message is None or version is None:
            return self._nothing
        return message_json.body_json(
            message,
            version,
            show_secrets=self.options.show_secrets,
            decode_records=self.options.records,
            payloads=self.options.payloads,
        )

    def _request_writer(self, key: bytes) -> tuple[str, int, Any] | None:
        api_key = int.from_bytes(key, "big", signed=True)
        cls = message_of(api_key, "request")
        found = None
        if cls is not None and self._is_shown_whole(cls):
            # Whether Produce is answered, its acks say.
            writer = text_writer(
                cls,
                counted=lambda field: api_key == _PRODUCE and field.name == "Acks",
                header_version=lambda version: request_header_version(cls, version),
            )
            found = None if writer is None else (api_name(api_key), api_key, writer)
        self._requests[key] = found
        return found

    def _response_writer(self, api_key: int) -> Any | None:
        cls = message_of(api_key, "response")
        found = None
        if cls is not None and self._is_shown_whole(cls):
            found = text_writer(
                cls,
                counted=message_json.is_error_code,
                header_version=lambda version: response_header_version(cls, version),
            )
        self._responses[api_key] = found
        return found

    def _is_shown_whole(self, cls: type[Message]) -> bool:
        """Whether rows show no body, or all that its bytes say."""
        return not self._texts or (
            (self.options.show_secrets or not message_json.may_hold_secrets(cls.spec.name))
            and not (self.options.records and message_json.holds_records(cls))
        )


def _asked(
    found: Request | UndecodedRequest, why: str | None, body: Any, acks: int | None, message: Message | None = None
) -> DecodedRequest:
    """What a request's header says, beside its body and why that is not all there is."""
    return DecodedRequest(
        api=None if found.api_key is None else api_name(found.api_key),
        api_key=found.api_key,
        version=found.version,
        correlation_id=found.correlation_id,
        client_id=found.client_id,
        problem=None if why is None else f"request: {why}",
        body=body,
        silent=acks == 0,
        message=message,
    )


def _acks_of_cut(head: bytes, version: int | None) -> int | None:
    """Which acknowledgment a Produce asks for of which only the beginning is there; None where that does not say."""
    cls = message_of(_PRODUCE, "request")
    if cls is None or version is None or version not in cls.spec.valid_versions:
        return None
    table = cls.codec.table
    layout = table.layouts[table.roots[version - table.first_version]]
    slot = cls.__struct_fields__.index("acks")
    last = next(place for place, op in enumerate(layout.ops) if op.slot == slot)
    try:
        _, offset = RequestHeader.decode_from(head, request_header_version(cls, version))
        # As if the message ended with the field.
        found = Decoder(table, cls.codec.classes, head, offset).struct(
            layout._replace(ops=layout.ops[: last + 1], tags=(), flexible=False)
        )
    except DecodeError:
        return None
    acks: int = found.acks
    return acks
