"""Requests and responses: encoding and decoding of a frame's header and body.

Decoding does not raise for the content of a frame: a frame that cannot be decoded becomes an `UndecodedRequest` or an
`UndecodedResponse` with the reason. Drafts are not encoded: they have the api keys of released messages, and a broker
would misread them.
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import msgspec

from kafkawire.errors import DecodeError, EncodeError, UnsupportedVersionError
from kafkawire.frames.headers import API_VERSIONS, request_header_version, response_header_version
from kafkawire.messages import REGISTRY, RequestHeader, ResponseHeader
from kafkawire.wire.message import Message
from kafkawire.wire.values import octets

if TYPE_CHECKING:
    from kafkawire.wire.registry import Registry
    from kafkawire.wire.values import Input

_UNSUPPORTED_VERSION = b"\x00\x23"  # error code 35, as the first field of an ApiVersions body
_HEADER_START = struct.Struct(">hhi")  # api key, version, correlation id: the same in every version of the header


#: The message of a frame.
M = TypeVar("M", bound=Message)
N = TypeVar("N", bound=Message)


class Request(msgspec.Struct, Generic[M], frozen=True, gc=False):
    """A request frame: its `RequestHeader` and its message, of type `M` where that is known (`narrowed`)."""

    header: RequestHeader
    body: M

    def narrowed(self, message: type[N]) -> Request[N]:
        """This request, with a body of that type for type checkers.

        Raises:
            TypeError: the body is another message.
        """
        return cast("Request[N]", _checked(self, message))

    @property
    def api_key(self) -> int:
        return self.header.request_api_key

    @property
    def version(self) -> int:
        """The version of the body."""
        return self.header.request_api_version

    @property
    def correlation_id(self) -> int:
        return self.header.correlation_id

    @property
    def client_id(self) -> str | None:
        return self.header.client_id


class Response(msgspec.Struct, Generic[M], frozen=True, gc=False):
    """A response frame: its `ResponseHeader`, its message, and the message's version."""

    header: ResponseHeader
    body: M
    version: int

    def narrowed(self, message: type[N]) -> Response[N]:
        """This response, with a body of that type for type checkers."""
        return cast("Response[N]", _checked(self, message))

    @property
    def correlation_id(self) -> int:
        """The correlation id, which is that of the request."""
        return self.header.correlation_id


def _checked(frame: Request[M] | Response[M], message: type[N]) -> object:
    if not isinstance(frame.body, message):
        raise TypeError(f"the frame has a {frame.body.spec.name}, not a {message.spec.name}")
    return frame


class UndecodedRequest(msgspec.Struct, frozen=True, gc=False):
    """A request that could not be decoded.

    Attributes:
        raw: the bytes of the frame.
        reason: why it could not be decoded.
        api_key, version, correlation_id, client_id: fields of the header; None where they could not be read.
        body: the message, where the only error is trailing bytes, which Kafka's brokers accept. `left_over`: their
            number.
        partial: the message as far as it was read (`DecodeError.partial`); None where nothing of it was.
    """

    raw: bytes
    reason: str
    api_key: int | None = None
    version: int | None = None
    correlation_id: int | None = None
    client_id: str | None = None
    body: Message | None = None
    left_over: int = 0
    partial: Message | None = None


class UndecodedResponse(msgspec.Struct, frozen=True, gc=False):
    """A response that could not be decoded.

    Attributes:
        raw: the bytes of the frame.
        reason: why it could not be decoded.
        correlation_id: from the header; None where it could not be read.
        body, version: the message and its version, where the only error is trailing bytes. `left_over`: their number.
        partial: the message as far as it was read (`DecodeError.partial`); None where nothing of it was.
    """

    raw: bytes
    reason: str
    correlation_id: int | None = None
    body: Message | None = None
    version: int | None = None
    left_over: int = 0
    partial: Message | None = None


def decode_request(
    frame: Input, *, copy: bool = True, registry: Registry = REGISTRY
) -> Request[Message] | UndecodedRequest:
    """Decodes a request.

    Args:
        frame: the bytes of the frame, without its size.
        copy: whether record batches are copied; otherwise they are memoryviews of `frame`.
        registry: the messages; by default those of Kafka.
    """
    frame = octets(frame)
    if len(frame) < _HEADER_START.size:
        return UndecodedRequest(bytes(frame), f"{len(frame)} bytes, too few for a request header")
    api_key, version, correlation_id = _HEADER_START.unpack_from(frame)
    message = registry.rpc(api_key, "request")
    if message is None:
        reason = f"no request is known with api key {api_key}{_size_before(frame)}"
        return UndecodedRequest(bytes(frame), reason, api_key, version, correlation_id, _client_id(frame))
    body, end = None, len(frame)
    try:
        header, offset = RequestHeader.decode_from(frame, request_header_version(message, version))
        body, end = message.decode_from(frame, version, offset=offset, copy=copy)
        if end != len(frame):
            message.decode(frame, version, offset=offset)  # raises the error for the trailing bytes
        return Request(header, body)
    except (DecodeError, UnsupportedVersionError) as error:
        return UndecodedRequest(
            bytes(frame),
            str(error) + _size_before(frame),
            api_key,
            version,
            correlation_id,
            _client_id(frame),
            body,
            len(frame) - end,
            _partial(error, message),
        )


def decode_response(
    frame: Input, *, api_key: int, version: int, copy: bool = True, registry: Registry = REGISTRY
) -> Response[Message] | UndecodedResponse:
    """Decodes a response.

    A broker that does not support an ApiVersions request's version answers with version 0 (KIP-511). The response's
    `version` is 0 then.

    Args:
        frame: the bytes of the frame, without its size.
        api_key, version: those of the request. A response does not contain them.
        copy: whether record batches are copied; otherwise they are memoryviews of `frame`.
        registry: the messages; by default those of Kafka.
    """
    frame = octets(frame)
    if len(frame) < 4:
        return UndecodedResponse(bytes(frame), f"{len(frame)} bytes, too few for a response header")
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    message = registry.rpc(api_key, "response")
    if message is None:
        return UndecodedResponse(bytes(frame), f"no response is known with api key {api_key}", correlation_id)
    body, end = None, len(frame)
    try:
        header, offset = ResponseHeader.decode_from(frame, response_header_version(message, version))
        body, end = message.decode_from(frame, version, offset=offset, copy=copy)
        if end != len(frame):
            message.decode(frame, version, offset=offset)  # raises the error for the trailing bytes
        return Response(header, body, version)
    except (DecodeError, UnsupportedVersionError) as error:
        if api_key == API_VERSIONS and bytes(frame[4:6]) == _UNSUPPORTED_VERSION:
            with suppress(DecodeError):
                header, offset = ResponseHeader.decode_from(frame, 0)
                return Response(header, message.decode(frame, 0, offset=offset, copy=copy), 0)
        partial = _partial(error, message)
        known = None if body is None and partial is None else version
        reason = str(error) + _size_before(frame)
        return UndecodedResponse(bytes(frame), reason, correlation_id, body, known, len(frame) - end, partial)


def _size_before(frame: Input) -> str:
    """The hint for bytes that cannot be decoded and begin with their own size."""
    if int.from_bytes(frame[:4], "big", signed=True) != len(frame) - 4:
        return ""
    return "; the bytes begin with their own size, which is no part of a frame: FrameReader takes it off"


def _partial(error: Exception, message: type[Message]) -> Message | None:
    """The message as far as it was read; None for an error in the frame's header, whose partial message is the
    header's."""
    found = getattr(error, "partial", None)
    return found if isinstance(found, message) else None


def encode_request(body: Message, *, version: int, correlation_id: int, client_id: str | None = None) -> bytes:
    """The bytes of a request as a client sends them: size, header, body.

    Args:
        body: the request.
        version: the version of the body.
        correlation_id: the number that the response repeats, an int32.
        client_id: the client's name for logs and quotas; None for null.

    Raises:
        EncodeError: `body` is not a request of Kafka's protocol, or the version cannot carry one of its values.
        UnsupportedVersionError: the request does not have this version.
    """
    api_key = _sendable(body, "request", version)
    encoded = body.encode(version)  # first: it checks the version
    header_version = request_header_version(type(body), version)
    header = RequestHeader(
        request_api_key=api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return with_size(header.encode(header_version) + encoded)


def encode_response(body: Message, *, version: int, correlation_id: int) -> bytes:
    """The bytes of a response as a broker sends them: size, header, body.

    Args:
        body: the response.
        version: the version of the body, which is that of the request.
        correlation_id: that of the request.

    Raises:
        EncodeError: `body` is not a response of Kafka's protocol, or the version cannot carry one of its values.
        UnsupportedVersionError: the response does not have this version.
    """
    _sendable(body, "response", version)
    encoded = body.encode(version)
    header = ResponseHeader(correlation_id=correlation_id)
    return with_size(header.encode(response_header_version(type(body), version)) + encoded)


def with_size(frame: bytes) -> bytes:
    """A frame as it is sent: with its size before it, which `FrameReader` takes off."""
    return len(frame).to_bytes(4, "big") + frame


def _sendable(body: Message, kind: str, version: int) -> int:
    """The api key of a message. Raises EncodeError unless it is of this kind and of family `rpc`."""
    spec = body.spec
    if spec.family != "rpc" or spec.kind != kind or spec.api_key is None:
        reason = f"a {spec.kind} of family {spec.family!r} is no {kind} of Kafka's protocol and cannot be sent as one"
        raise EncodeError(reason, message=spec.name, version=version)
    return spec.api_key


def _client_id(frame: Input) -> str | None:
    """The client id, which has the same place in header versions 1 and 2; None where it cannot be read."""
    try:
        return RequestHeader.decode_from(frame, 1)[0].client_id
    except DecodeError:
        return None
