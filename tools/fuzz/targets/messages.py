"""Messages: bytes, columns, JSON, and frames of a connection."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cache, partial
from itertools import groupby
from typing import Any

import msgspec

from kafkawire import frames
from kafkawire.errors import DecodeError, EncodeError, JsonError, UnsupportedVersionError
from kafkawire.wire.json_form import from_json, to_json
from kafkawire.wire.json_text import text_writer
from kafkawire.wire.message import Message
from tools.fuzz import inputs, seed_vectors
from tools.fuzz.target import FuzzTarget

#: Values in one input of columns.
_MOST_VALUES = 8


# Codecs ---------------------------------------------------------------------------------------------------------------


def check_codec(data: bytes) -> None:
    from tests.engines import agree

    name, version, body = inputs.split(data)
    agree(inputs.message_of(name), version, body)


def _codecs() -> Iterator[bytes]:
    for name, version, data, _ in seed_vectors.messages():
        yield inputs.message(name, version, data)
    for name, version, data in seed_vectors.damaged():
        yield inputs.message(name, version, data)


def check_columns(data: bytes) -> None:
    from tests.wire.column_engines import check

    name, version, body = inputs.split(data)
    check(inputs.message_of(name), inputs.parts_of(body, _MOST_VALUES) or [b""], version)


def _columns() -> Iterator[bytes]:
    for (name, version), found in groupby(seed_vectors.messages(), key=lambda line: line[:2]):
        yield inputs.message(name, version, inputs.joined([data for _, _, data, _ in found][:_MOST_VALUES]))


def check_prefixed(data: bytes) -> None:
    name, _, body = inputs.split(data)
    cls = inputs.message_of(name)
    try:
        message, version = cls.decode_prefixed(body)
    except (DecodeError, UnsupportedVersionError):
        return
    with suppress(EncodeError):  # tags twice or out of order
        written = message.encode_prefixed(version)
        again, _ = cls.decode_prefixed(written)
        assert again.encode_prefixed(version) == written


def _prefixed() -> Iterator[bytes]:
    for name, version, data, _ in seed_vectors.messages(100):
        yield inputs.message(name, version, version.to_bytes(2, "big") + data)


# JSON -----------------------------------------------------------------------------------------------------------------


@cache
def _text_writer(cls: type[Message]) -> Any:
    return text_writer(cls, counted=lambda field: field.name.endswith("ErrorCode"))


def check_json_text(data: bytes) -> None:
    name, version, body = inputs.split(data)
    cls = inputs.message_of(name)
    writer = _text_writer(cls)
    written = None if writer is None else writer.body(body, version, True, True)
    text = None if written is None else written[0]
    try:
        message = cls.decode(body, version)
    except DecodeError:
        assert text is None
        return
    form = to_json(message, version, unknown_tags=True)
    if text is not None:
        assert bytes(text) == msgspec.json.encode(form)
    again = from_json(cls, json.loads(json.dumps(form)), version)
    assert to_json(again, version, unknown_tags=True) == form


def check_from_json(data: bytes) -> None:
    name, version, body = inputs.split(data)
    try:
        form = json.loads(body)
    except (ValueError, RecursionError):
        return
    cls = inputs.message_of(name)
    try:
        message = from_json(cls, form, version)
    except JsonError:
        return
    written = _encoded(message, version)
    if written is not None:
        assert _encoded(from_json(cls, to_json(message, version, unknown_tags=True), version), version) == written
        assert cls.decode(written, version).encode(version) == written


def _encoded(message: Message, version: int) -> bytes | None:
    try:
        return message.encode(version)
    except EncodeError:
        return None


def _json() -> Iterator[bytes]:
    for name, version, data, form in seed_vectors.messages(200):
        if data or not version:
            yield inputs.message(name, version, json.dumps(form).encode())
    for depth in (30, 900, 990, 5000):
        for opened, closed in ((b"[", b"]"), (b'{"a":', b"}")):
            yield inputs.message("FetchRequest", 12, opened * depth + b"1" + closed * depth)
    yield inputs.message("FetchRequest", 12, b'{"replicaId": ' + b"1" * 4301 + b"}")


# Frames ---------------------------------------------------------------------------------------------------------------

#: Sizes in which a stream arrives.
_CHUNKS = (1, 2, 3, 5, 8, 64, 1000, 1 << 20)
_MOST_FRAME = 1 << 16


def check_frames(data: bytes) -> None:
    """The first byte selects the size of the stream's pieces, the next two the expected response."""
    name, version, stream = inputs.split(data[1:])
    size = inputs.pick(_CHUNKS, data)
    whole = _cut(stream, len(stream) or 1)
    assert _cut(stream, size) == whole
    api_key = inputs.message_of(name).spec.api_key
    for frame in whole[0]:
        request = frames.decode_request(frame)
        if isinstance(request, frames.UndecodedRequest):
            assert (request.raw, bool(request.reason)) == (frame, True)
        else:
            send = partial(frames.encode_request, correlation_id=request.correlation_id, client_id=request.client_id)
            _sent(send, request, frames.decode_request)
        expected = partial(frames.decode_response, api_key=-1 if api_key is None else api_key, version=version)
        response = expected(frame)
        if isinstance(response, frames.UndecodedResponse):
            assert (response.raw, bool(response.reason)) == (frame, True)
        elif response.version == version:
            send = partial(frames.encode_response, correlation_id=response.header.correlation_id)
            _sent(send, response, expected)


def _cut(stream: bytes, size: int) -> tuple[list[bytes], str | None]:
    """The frames of a stream that comes in pieces; and what is wrong with it."""
    reader = frames.FrameReader(_MOST_FRAME)
    found: list[bytes] = []
    try:
        for place in range(0, len(stream), size):
            found += reader.feed(stream[place : place + size])
    except DecodeError as error:
        return found, str(error)
    assert sum(len(frame) + 4 for frame in found) + reader.pending == len(stream)
    return found, None


def _sent(send: Any, found: Any, decode: Any) -> None:
    """Sent on, it is read as it was."""
    try:
        frame = send(found.body, version=found.version)
    except EncodeError:
        return
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    again = decode(frame[4:])
    assert again.body.encode(found.version) == found.body.encode(found.version)


def _frames() -> Iterator[bytes]:
    for name, version, data, _ in seed_vectors.messages(200):
        kind = inputs.message_of(name).spec.kind
        if kind not in ("request", "response"):
            continue
        body = inputs.message_of(name).decode(data, version)
        with suppress(EncodeError):
            if kind == "request":
                frame = frames.encode_request(body, version=version, correlation_id=7, client_id="c")
            else:
                frame = frames.encode_response(body, version=version, correlation_id=7)
            yield b"\3" + inputs.message(name, version, frame + frame)


# ----------------------------------------------------------------------------------------------------------------------

TARGETS = (
    FuzzTarget(
        name="codecs",
        reads="a message's bytes: generated functions, native engine, interpreter",
        holds="same verdict, value, end, error and bytes written again; strict accepts what is written as it was read",
        check=check_codec,
        seeds=_codecs,
        form=inputs.MESSAGE,
    ),
    FuzzTarget(
        name="columns",
        reads="some messages' bytes as Arrow columns: object by object and native engine",
        holds="rows and errors are those of `decode`",
        check=check_columns,
        seeds=_columns,
        form=inputs.MESSAGE_PARTS,
    ),
    FuzzTarget(
        name="prefixed",
        reads="a message after its version (coordinators' keys and values, markers, snapshots)",
        holds="what is written again is read as the same",
        check=check_prefixed,
        seeds=_prefixed,
        form=inputs.MESSAGE,
    ),
    FuzzTarget(
        name="json-text",
        reads="a message's bytes as JSON text: native engine, and `to_json`",
        holds="same text; `from_json` of it gives the same bytes",
        check=check_json_text,
        seeds=_codecs,
        form=inputs.MESSAGE,
    ),
    FuzzTarget(
        name="from-json",
        reads="any JSON as a message's",
        holds="`JsonError`, or a value that is written and read as the same",
        check=check_from_json,
        seeds=_json,
        form=inputs.MESSAGE,
        longest=5000,
        words=(
            b"null",
            b"true",
            b'"',
            b"{}",
            b"[]",
            b"1e400",
            b"NaN",
            b'"AA=="',
            b'"_unknownTaggedFields"',
            b"\\ud800",
        ),
    ),
    FuzzTarget(
        name="frames",
        reads="a stream of frames, as requests and as responses",
        holds="same frames in whatever pieces they come; nothing is raised, and what is sent on is read as it was",
        check=check_frames,
        seeds=_frames,
    ),
)
