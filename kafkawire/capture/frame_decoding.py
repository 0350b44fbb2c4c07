"""`FrameDecoder`: frames to the fields of rows: header fields, bodies as JSON, error codes.

Where rows need no message objects, the native engine reads a frame in one call and writes the body as JSON text
(`wire.json_text`). Frames that it refuses, and bodies that rows change (secrets, decoded records), are decoded to
messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from kafkawire.capture import message_json
from kafkawire.errors import DecodeError
from kafkawire.frames import Request, Response, decode_request, decode_response
from kafkawire.frames.headers import request_header_version, response_header_version
from kafkawire.kafka_api_keys import api_name
from kafkawire.kafka_errors import error_name
from kafkawire.messages import REGISTRY, RequestHeader
from kafkawire.wire.backend import native
from kafkawire.wire.interpreter import Decoder
from kafkawire.wire.json_text import text_writer

if TYPE_CHECKING:
    from kafkawire.capture.exchange import ReadOptions
    from kafkawire.frames import UndecodedRequest
    from kafkawire.wire.message import Message

_PRODUCE, _FETCH = 0, 1


class DecodedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request, as fields of its row.

    `silent`: the broker sends no response (Produce with `acks=0`). `message`: None if no object was made.
    """

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
    """A response, as fields of its row. `message`: None if no object was made."""

    errors: dict[str, int]
    problem: str | None
    body: Any
    message: Message | None = None


class FrameDecoder:
    """Decodes the frames of all connections of a capture.

    Args:
        options: what rows contain.
    """

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._no_body = None if options.body else UNSET
        self._with_bodies = options.body
        self._use_text_writers = native is not None and not options.keep and (options.text or not options.body)
        self._requests: dict[bytes, tuple[str, int, Any] | None] = {}
        self._responses: dict[int, Any] = {}

    def request(self, frame: bytes) -> DecodedRequest:
        """Decodes the frame of a request."""
        if self._use_text_writers:
            key = frame[:2]
            known = self._requests[key] if key in self._requests else self._request_writer(key)
            if known is not None:
                api, api_key, writer = known
                found = writer.request(frame, self._with_bodies, self.options.payloads)
                if found is not None:
                    version, correlation_id, client_id, text, counts = found
                    silent = api_key == _PRODUCE and counts is None
                    body = self._no_body if text is None else msgspec.Raw(text)
                    return DecodedRequest(api, api_key, version, correlation_id, client_id, None, body, silent)
        return self._decoded_request(frame)

    def response(self, frame: bytes, api_key: int, version: int) -> DecodedResponse:
        """Decodes the frame of a response.

        Args:
            frame: without its size prefix.
            api_key, version: those of its request.
        """
        if self._use_text_writers and not self._hides_records(frame, api_key):
            writer = self._responses[api_key] if api_key in self._responses else self._response_writer(api_key)
            found = (
                None if writer is None else writer.response(frame, version, self._with_bodies, self.options.payloads)
            )
            if found is not None:
                text, counts = found
                errors = {} if counts is None else {error_name(code): counts[code] for code in sorted(counts)}
                return DecodedResponse(errors, None, self._no_body if text is None else msgspec.Raw(text))
        return self._decoded_response(frame, api_key, version)

    def cut_request(self, head: bytes, why: str) -> DecodedRequest:
        """The header fields of a request that the capture has only in part.

        Args:
            head: the frame's bytes before the first hole.
            why: the sentence about the missing bytes.
        """
        found = decode_request(head, copy=False)
        acks = _acks_of_cut(head, found.version) if found.api_key == _PRODUCE else None
        return _with_header(found, why, self._no_body, acks)

    def cut_response(self, why: str) -> DecodedResponse:
        """The fields of a response that the capture has only in part. `why`: the sentence about the missing bytes."""
        return DecodedResponse({}, f"response: {why}", self._no_body)

    def _decoded_request(self, frame: bytes) -> DecodedRequest:
        found = decode_request(frame, copy=False)
        acks = found.body.acks if found.api_key == _PRODUCE and found.body is not None else None
        why = None if isinstance(found, Request) else found.reason
        return _with_header(found, why, self._body(found.body, found.version), acks, found.body)

    def _decoded_response(self, frame: bytes, api_key: int, version: int) -> DecodedResponse:
        found = decode_response(frame, api_key=api_key, version=version, copy=False)
        return DecodedResponse(
            errors={} if found.body is None else message_json.errors(found.body),
            problem=None if isinstance(found, Response) else f"response: {found.reason}",
            body=self._body(found.body, found.version),
            message=found.body,
        )

    def _body(self, message: Message | None, version: int | None) -> Any:
        """The body as JSON; None without a message, unset without `options.body`."""
        if not self.options.body or message is None or version is None:
            return self._no_body
        return message_json.body_json(
            message,
            version,
            show_secrets=self.options.show_secrets,
            decode_records=self.options.records,
            payloads=self.options.payloads,
        )

    def _request_writer(self, key: bytes) -> tuple[str, int, Any] | None:
        api_key = int.from_bytes(key, "big", signed=True)
        cls = REGISTRY.rpc(api_key, "request")
        found = None
        if cls is not None and self._is_shown_unchanged(cls):
            # The acks of a Produce request determine whether a response is sent.
            writer = text_writer(
                cls,
                counted=lambda field: api_key == _PRODUCE and field.name == "Acks",
                header_version=lambda version: request_header_version(cls, version),
            )
            found = None if writer is None else (api_name(api_key), api_key, writer)
        self._requests[key] = found
        return found

    def _response_writer(self, api_key: int) -> Any | None:
        cls = REGISTRY.rpc(api_key, "response")
        found = None
        if cls is not None and self._is_shown_unchanged(cls):
            found = text_writer(
                cls,
                counted=message_json.is_error_code,
                header_version=lambda version: response_header_version(cls, version),
            )
        self._responses[api_key] = found
        return found

    def _hides_records(self, frame: bytes, api_key: int) -> bool:
        """Whether the body of a response may have record batches with secrets."""
        hides = self._with_bodies and self.options.payloads and not self.options.show_secrets
        return hides and api_key == _FETCH and message_json.names_metadata(frame)

    def _is_shown_unchanged(self, cls: type[Message]) -> bool:
        """Whether rows contain no body, or an unchanged one."""
        return not self._with_bodies or (
            (self.options.show_secrets or not message_json.may_contain_secrets(cls.spec.name))
            and not (self.options.records and message_json.has_records_fields(cls))
        )


def _with_header(
    found: Request | UndecodedRequest, why: str | None, body: Any, acks: int | None, message: Message | None = None
) -> DecodedRequest:
    """A request's header fields with its body. `why`: why the body was not decoded wholly."""
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
    """The acks of a Produce request of which only the beginning was captured; None if they lie after it."""
    cls = REGISTRY.rpc(_PRODUCE, "request")
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
