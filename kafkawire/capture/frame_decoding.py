"""`FrameDecoder`: decodes frames to the fields of rows: header fields, bodies as JSON, error codes.

Where rows need no message objects, the native engine reads frames and writes their bodies as JSON text with the writers
of this class (`wire.json_text`). Frames that it refuses, and bodies that rows change (secrets, decoded records and
bytes), are decoded to messages here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from kafkawire.capture import message_json
from kafkawire.capture.kafka_fields import kafka_name, kafka_name_of
from kafkawire.capture.named_entities import (
    NAMED_TOPIC_ID,
    PRODUCER,
    PRODUCER_ID,
    SPAN_NAMES,
    TOPIC,
    TRANSACTIONAL_ID,
    name_codes,
    partition_codes,
)
from kafkawire.capture.producer_overlaps import producer_codes
from kafkawire.capture.recognition import Recognizer
from kafkawire.capture.topic_names import tells_topic_ids
from kafkawire.errors import DecodeError
from kafkawire.frames import Request, Response, decode_request, decode_response
from kafkawire.frames.headers import request_header_version, response_header_version
from kafkawire.kafka_api_keys import api_name
from kafkawire.messages import REGISTRY, RequestHeader
from kafkawire.wire.backend import native
from kafkawire.wire.interpreter import Decoder
from kafkawire.wire.json_text import text_writer

if TYPE_CHECKING:
    from kafkawire.capture.exchange import ReadOptions
    from kafkawire.capture.exchange_selection import Selector
    from kafkawire.frames import UndecodedRequest
    from kafkawire.wire.message import Message

_PRODUCE = 0
_PRODUCE_REQUEST = "ProduceRequest"


class DecodedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request, as fields of its row.

    `silent`: the broker sends no response (Produce with `acks=0`). `note`: what is no problem. `message`: as far as it
    was read; None if no object was made, or none is kept.
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
    note: str | None = None


class DecodedResponse(msgspec.Struct, frozen=True, gc=False):
    """A response, as fields of its row. `note`: what is no problem. `message`: as far as it was read, or None."""

    errors: dict[str, int]
    problem: str | None
    body: Any
    message: Message | None = None
    note: str | None = None


class Followed(msgspec.Struct, frozen=True, kw_only=True):
    """A producer as the native engine follows it (`native/src/capture/following.rs`): its ids that are known, and api
    keys of what its timeline shows, and of what names topics."""

    transactional_ids: set[bytes]
    producer_ids: set[int]
    shown: set[int]
    naming: set[int]
    topics: dict[bytes, bytes]


class FrameDecoder:
    """Decodes the frames of all connections of a capture.

    Attributes:
        recognizer: recognises requests of the same messages.
        writes_text: whether the native engine may write bodies, so that rows have no message objects.
        keeps_all: whether all exchanges have their messages and frames.

    Args:
        options: what rows contain, and which messages there are.
        selector: what selects exchanges, if the native engine does it; the names that it looks for are found there.
    """

    def __init__(self, options: ReadOptions, selector: Selector | None = None) -> None:
        self.options = options
        self._selector = selector
        self._names = set() if selector is None else selector.names
        if options.spans:
            self._names |= SPAN_NAMES
        self.recognizer = Recognizer(options.registry, options.ports)
        self._registry = options.registry
        self._no_body = None if options.body else UNSET
        self.keeps_all = options.keep or options.spans or (selector is not None and selector.looks_inside)
        self.writes_text = native is not None and not options.keep and (options.text or not options.body)

    def request(self, frame: bytes) -> DecodedRequest:
        """Decodes the frame of a request: whole, up to the fault in it, or its header alone."""
        found = decode_request(frame, copy=False, registry=self._registry)
        message: Any = found.body  # an edited message has the fields of Kafka's, and is of another class
        if message is not None:
            acks = message.acks if kafka_name(message) == _PRODUCE_REQUEST else None
        else:
            acks = _acks_of_cut(self._message(found.api_key), frame, found.version)
        why = note = None
        if not isinstance(found, Request):
            why = None if found.left_over else found.reason
            note = _left_over("request", found.left_over)
            message = message or found.partial
        body, fault = self._body(message, found.version)
        return self._with_header(found, why or fault, body, acks, message, note)

    def response(self, frame: bytes, api_key: int, version: int) -> DecodedResponse:
        """Decodes the frame of a response: whole, or up to the fault in it.

        Args:
            frame: without its size prefix.
            api_key, version: those of its request.
        """
        found = decode_response(frame, api_key=api_key, version=version, copy=False, registry=self._registry)
        message, why, note = found.body, None, None
        if not isinstance(found, Response):
            why = None if found.left_over else found.reason
            note = _left_over("response", found.left_over)
            message = message or found.partial
        body, fault = self._body(message, found.version)
        why = why or fault
        return DecodedResponse(
            errors={} if message is None else message_json.errors(message),
            problem=None if why is None else f"response: {why}",
            body=body,
            message=message if self.keeps_all or api_key in self.options.keep_messages else None,
            note=note,
        )

    def cut_request(self, head: bytes, why: str) -> DecodedRequest:
        """The header fields of a request that the capture has only in part.

        Args:
            head: the frame's bytes before the first hole.
            why: the sentence about the missing bytes.
        """
        found = decode_request(head, copy=False, registry=self._registry)
        acks = _acks_of_cut(self._message(found.api_key), head, found.version)
        return self._with_header(found, why, self._no_body, acks)

    def cut_response(self, why: str) -> DecodedResponse:
        """The fields of a response that the capture has only in part. `why`: the sentence about the missing bytes."""
        return DecodedResponse({}, f"response: {why}", self._no_body)

    def answers(self, frame: bytes, api_key: int, version: int) -> bool:
        """Whether a frame decodes, to its last byte, as the response to a request of this api key and version. The
        check is strict because random bytes between two frames often begin with a short response.

        Args:
            frame: without its size prefix.
            api_key, version: of the request.
        """
        found = decode_response(frame, api_key=api_key, version=version, registry=self._registry)
        return isinstance(found, Response)

    def _body(self, message: Message | None, version: int | None) -> tuple[Any, str | None]:
        """The body as JSON, and what of its records cannot be read. None without a message, unset without
        `options.body`."""
        if not self.options.body or message is None or version is None:
            return self._no_body, None
        faults: list[str] = []
        body = message_json.body_json(
            message,
            version,
            show_secrets=self.options.show_secrets,
            decode_records=self.options.records,
            payloads=self.options.payloads,
            faults=faults,
        )
        more = f" (and {len(faults) - 1} more like it)" if len(faults) > 1 else ""
        return body, faults[0] + more if faults else None

    def request_writer(self, api_key: int) -> tuple[str, bool, Any] | None:
        """The api's name, whether it is selected, and the writer of its requests; None where rows need `request`."""
        cls = self._registry.rpc(api_key, "request")
        if cls is None or not self._is_shown_unchanged(cls):
            return None
        if api_key in self.options.keep_requests and not self.options.statistics:
            return None
        if api_key in self.options.keep_messages and not self._follows(api_key):
            return None
        # The acks of a Produce request determine whether a response is sent.
        if api_key == _PRODUCE and kafka_name_of(cls) is None:
            return None
        writer = text_writer(
            cls,
            counted=lambda field: api_key == _PRODUCE and field.name == "Acks",
            header_version=lambda version: request_header_version(cls, version),
            names=self._name_codes(cls),
            roles=message_json.inside_roles(cls) if self.options.body else (),
        )
        name = self._api_name(api_key)
        selected = self._selector is None or self._selector.takes_api(name, api_key)
        return None if writer is None else (name, selected, writer)

    def response_writer(self, api_key: int) -> Any | None:
        """The writer of an api's responses; None where rows need `response`."""
        cls = self._registry.rpc(api_key, "response")
        if cls is None or not self._is_shown_unchanged(cls):
            return None
        if api_key in self.options.keep_messages and not self._follows(api_key):
            return None
        return text_writer(
            cls,
            counted=message_json.is_error_code,
            header_version=lambda version: response_header_version(cls, version),
            names=self._name_codes(cls),
            roles=message_json.inside_roles(cls) if self.options.body else (),
        )

    def _name_codes(self, cls: type[Message]) -> list[bytes]:
        """The codes of the names that the native engine finds in a message, for the selection and for statistics."""
        others = producer_codes(cls) if self.options.statistics else {}
        if self.options.spans:
            others |= partition_codes(cls)
        names = self._names | self._followed_names(cls)
        return name_codes(cls, names, others) if names or others else []

    def followed(self) -> Followed | None:
        """The producer whose exchanges alone the native engine gives, if it is to."""
        if self.options.follows is None or self.options.keep:
            return None
        from kafkawire.capture.timeline import NAMING_APIS, SHOWN_APIS, first_ids

        names, numbers = first_ids(self.options.follows)
        return Followed(
            transactional_ids={name.encode("utf-8", "surrogateescape") for name in names},
            producer_ids={number for number in numbers if number < 1 << 63},
            shown={*filter(self._follows, SHOWN_APIS)},
            naming={*filter(self._follows, NAMING_APIS)},
            topics={},
        )

    def _follows(self, api_key: int) -> bool:
        """Whether the native engine finds the ids of a timeline in messages of an api: those that are Kafka's own."""
        return self.options.follows is not None and all(
            self._registry.rpc(api_key, kind) is REGISTRY.rpc(api_key, kind) for kind in ("request", "response")
        )

    def _followed_names(self, cls: type[Message]) -> set[int]:
        if cls.spec.api_key is None or not self._follows(cls.spec.api_key):
            return set()
        from kafkawire.capture.timeline import INIT_PRODUCER_ID, SHOWN_APIS

        if cls.spec.kind == "request":
            return {TRANSACTIONAL_ID, PRODUCER_ID, PRODUCER} if cls.spec.api_key in SHOWN_APIS else set()
        if tells_topic_ids(cls):
            return {TOPIC, NAMED_TOPIC_ID}
        return {PRODUCER_ID} if cls.spec.api_key == INIT_PRODUCER_ID else set()

    def _is_shown_unchanged(self, cls: type[Message]) -> bool:
        """Whether rows contain no body, or one without secrets."""
        return not self.options.body or (
            self.options.show_secrets or not message_json.may_contain_secrets(cls.spec.api_key, cls.spec.kind)
        )

    def _message(self, api_key: int | None) -> type[Message] | None:
        return None if api_key is None else self._registry.rpc(api_key, "request")

    def _api_name(self, api_key: int) -> str:
        """The name of its request in the registry, without `Request`; `UNKNOWN_<n>` for an unknown api key."""
        cls = self._message(api_key)
        return api_name(api_key) if cls is None else cls.spec.name.removesuffix("Request")

    def _with_header(
        self,
        found: Request[Message] | UndecodedRequest,
        why: str | None,
        body: Any,
        acks: int | None,
        message: Message | None = None,
        note: str | None = None,
    ) -> DecodedRequest:
        """A request's header fields with its body. `why`: why the body was not decoded wholly."""
        return DecodedRequest(
            api=None if found.api_key is None else self._api_name(found.api_key),
            api_key=found.api_key,
            version=found.version,
            correlation_id=found.correlation_id,
            client_id=found.client_id,
            problem=None if why is None else f"request: {why}",
            body=body,
            silent=acks == 0,
            message=message if self._keeps_request(found.api_key) else None,
            note=note,
        )

    def _keeps_request(self, api_key: int | None) -> bool:
        return self.keeps_all or api_key in self.options.keep_requests | self.options.keep_messages


def _left_over(what: str, count: int) -> str | None:
    """The note about bytes after a message, which Kafka's brokers and clients pass over."""
    return f"{what}: {count} byte{'s' * (count != 1)} left over behind the message" if count else None


def _acks_of_cut(cls: type[Message] | None, head: bytes, version: int | None) -> int | None:
    """The acks of a Produce request of which only the beginning was captured; None if they lie after it."""
    if cls is None or kafka_name_of(cls) != _PRODUCE_REQUEST or version not in cls.spec.valid_versions:
        return None
    assert version is not None
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
