"""Hypothesis strategies of messages, frames and record batches. Needs the extra `testing`.

    @given(strategies.messages(MetadataRequest, version=12))
    def test_proxy_keeps_the_request(body: MetadataRequest) -> None: ...

Values lie often at the edges: null, empty, lengths that need a second byte, text beyond the BMP, text of bytes that are
not UTF-8, integers at the borders of their types, NaN, tagged fields present and absent, unknown tagged fields on every
struct. Examples shrink to zeros, empty strings and empty arrays. Strategies read `spec` alone, never the layouts that
codecs execute.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple
from uuid import UUID

from kafkawire import frames as codec
from kafkawire import records as batch_format
from kafkawire.errors import MissingExtraError, UnsupportedVersionError
from kafkawire.messages import REGISTRY
from kafkawire.wire.layout import STRUCT
from kafkawire.wire.message import Message, Struct
from kafkawire.wire.registry import Registry
from kafkawire.wire.spec import Field
from kafkawire.wire.values import TaggedField

try:
    from hypothesis import strategies as st
except ImportError:
    raise MissingExtraError("kafkawire.testing.strategies", "testing") from None

__all__ = ["Build", "Frame", "batches", "frames", "messages", "records"]

RANGES = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
    "uint16": (0, (1 << 16) - 1),
    "uint32": (0, (1 << 32) - 1),
}

#: Structs in one array: fewer the deeper they lie, so that no message grows large.
_WIDTHS = (3, 2, 2, 1, 1, 1)


class _Source(NamedTuple):
    """What Hypothesis draws for a value, and the function that makes the value of it.

    One draw decides both, whether the value is an edge and which value it is: each further draw, and each `map`, would
    cost as much as the first.
    """

    strategy: st.SearchStrategy[Any]
    value: Callable[[Any], Any]


def _numbers(low: int, high: int, borders: Sequence[int]) -> _Source:
    def value(drawn: int) -> int:
        number, any_number = divmod(drawn, 2)
        if not any_number:
            return borders[number % len(borders)]
        if low == 0:
            return number
        return -(number // 2) - 1 if number % 2 else number // 2

    return _Source(st.integers(0, 2 * (high - low) + 1), value)


def _integers(low: int, high: int) -> _Source:
    return _numbers(low, high, [n for n in (0, 1, -1, 127, 128, -128, -129, 255, 256, high, low) if low <= n <= high])


def _uuids() -> _Source:
    highest = (1 << 128) - 1
    strategy, value = _numbers(0, highest, [0, 1, highest])
    return _Source(strategy, lambda drawn: UUID(int=value(drawn)))


_TEXTS = ["", "a", "topic-0", "\0", "é", "𝄞😀", "\ufeff", "x" * 126, "x" * 127, "é" * 64, "x" * 300]
_BLOBS = [b"\0", b"\xff" * 126, b"\x80" * 127, bytes(300)]


def _text(drawn: str) -> str:
    """The first character decides what the others become."""
    if not drawn:
        return ""
    number, kind = divmod(ord(drawn[0]), 3)
    if kind == 0:
        return drawn[1:]
    if kind == 1:
        return _TEXTS[number % len(_TEXTS)]
    # What decoding makes of bytes that are no UTF-8.
    return bytes(ord(character) % 256 for character in drawn[1:]).decode("utf-8", "surrogateescape")


def _blob(drawn: bytes) -> bytes:
    """The first byte decides what the others become."""
    return _BLOBS[drawn[0] % len(_BLOBS)] if drawn[:1] >= b"\x80" else drawn[1:]


def _as_drawn(drawn: Any) -> Any:
    return drawn


_BLOB = _Source(st.binary(max_size=9), _blob)
_SCALARS = {
    "bool": _Source(st.booleans(), _as_drawn),
    "float64": _Source(st.floats(allow_nan=False) | st.just(float("nan")), _as_drawn),
    "uuid": _uuids(),
    "string": _Source(st.text(max_size=9), _text),
    "bytes": _BLOB,
    "records": _BLOB,
    **{name: _integers(low, high) for name, (low, high) in RANGES.items()},
}
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    name: source.strategy.map(source.value) for name, source in _SCALARS.items()
}


def _array(items: _Source) -> _Source:
    def value(drawn: Any) -> tuple[Any, ...]:
        if isinstance(drawn, list):
            return tuple(map(items.value, drawn))
        item, length = drawn
        return tuple(repeat(items.value(item), length))

    # Long enough for a length of two bytes, and for more numbers than are read by one prepared call.
    long = st.tuples(items.strategy, st.sampled_from([64, 65, 127, 128]))
    return _Source(st.lists(items.strategy, max_size=4) | long, value)


_ARRAYS = {name: _array(items) for name, items in _SCALARS.items()}


def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Values of a message that a version can carry: `value.encode(version)` never raises.

    A field that the version lacks has its default, or any value where the schema has `ignorable`: then
    `comparison.carried` is what a decoder gets.

    Args:
        cls: a message of Kafka, of a generated package or of `load_schemas`.
        version: one of its valid versions.

    Raises:
        UnsupportedVersionError: the message does not have the version.
    """
    if version not in cls.spec.valid_versions:
        raise UnsupportedVersionError(cls.spec.name, version, cls.spec.valid_versions)
    return _structs(cls, version, version in cls.spec.flexible_versions, 0)


class _Drawn(NamedTuple):
    """A field of a struct, and how it is drawn. An optional one stays at its default in half of the values."""

    name: str
    optional: bool
    source: _Source


@cache
def _structs(cls: type[Struct], version: int, flexible: bool, depth: int) -> st.SearchStrategy[Any]:
    fields = []
    for field in cls.spec.fields:
        if version in field.versions:
            source = _value(field, version, flexible, depth)
            fields.append(_Drawn(field.attribute, version in field.tagged_versions, source))
        elif field.ignorable and field.versions:
            fields.append(_Drawn(field.attribute, True, _value(field, field.versions[-1], flexible, depth)))
    if flexible:
        own = frozenset(field.tag for field in cls.spec.fields if field.tag is not None)
        fields.append(_Drawn("unknown_tagged_fields", True, _unknown_tags(own)))
    return _struct(cls, fields)


_BOOLEANS = st.booleans()


@st.composite
def _struct(draw: st.DrawFn, cls: type[Struct], fields: list[_Drawn]) -> Struct:
    # Not of `fixed_dictionaries` or `tuples`, which add draws of their own.
    return cls(
        **{
            name: source.value(draw(source.strategy))
            for name, optional, source in fields
            if not optional or draw(_BOOLEANS)
        }
    )


def _value(field: Field, version: int, flexible: bool, depth: int) -> _Source:
    nullable = version in field.nullable_versions
    if field.kind != STRUCT and not field.is_array:
        strategy, value = _SCALARS[field.type]
        return _Source(strategy, lambda drawn: value(drawn) if drawn else None) if nullable else _SCALARS[field.type]
    if field.kind != STRUCT:
        strategy, value = _ARRAYS[field.type[2:]]
    elif field.is_array:
        structs = _structs(field.struct, version, flexible, depth + 1)
        strategy, value = st.lists(structs, max_size=_WIDTHS[min(depth, len(_WIDTHS) - 1)]), tuple
    else:
        strategy, value = _structs(field.struct, version, flexible, depth + 1), _as_drawn
    if nullable:
        return _Source(st.none() | strategy, lambda drawn: None if drawn is None else value(drawn))
    return _Source(strategy, value)


_TAGS = [*range(21), 127, 128, 16383, 16384, (1 << 28) - 1, (1 << 31) - 2]
_TAGGED_FIELDS = st.lists(st.binary(min_size=1, max_size=10), min_size=1, max_size=3)


@cache
def _unknown_tags(own: frozenset[int]) -> _Source:
    """Ascending tags that the struct knows in no version. The first byte drawn for a field decides its tag."""
    tags = [tag for tag in _TAGS if tag not in own]

    def value(drawn: list[bytes]) -> tuple[TaggedField, ...]:
        fields = {tags[raw[0] % len(tags)]: _blob(raw[1:]) for raw in drawn}
        return tuple(TaggedField(tag, fields[tag]) for tag in sorted(fields))

    return _Source(_TAGGED_FIELDS, value)


# Frames ---------------------------------------------------------------------------------------------------------------


class Frame(NamedTuple):
    """A request or a response as it is sent.

    Attributes:
        data: the bytes, with the size in front.
        body: the message. `version`: its version.
        correlation_id: of the header. `client_id`: of a request; None for null, and for a response.
    """

    data: bytes
    body: Any
    version: int
    correlation_id: int
    client_id: str | None = None


def frames(
    cls: type[Message] | None = None, version: int | None = None, *, registry: Registry = REGISTRY
) -> st.SearchStrategy[Frame]:
    """Frames of requests and responses.

    Args:
        cls: the message; None: any request or response of the protocol in `registry`.
        version: one of its versions; None: any.
        registry: the messages; by default those of Kafka.
    """
    if cls is not None:
        chosen = [(cls, v) for v in (cls.spec.valid_versions if version is None else (version,))]
        return st.sampled_from(chosen).flatmap(lambda pair: _frames(*pair))
    if version is not None:
        raise TypeError("a version is given, and no message")
    entries = [entry for entry in registry if entry.family == "rpc" and entry.valid_versions]
    chosen_entries = st.sampled_from([entry for entry in entries if entry.kind in ("request", "response")])
    return chosen_entries.flatmap(lambda entry: frames(registry.load(entry)))


def _frames(cls: type[Message], version: int) -> st.SearchStrategy[Frame]:
    numbers = SCALARS["int32"]
    if cls.spec.kind == "request":
        clients = st.none() if _has_no_client_id(cls, version) else st.none() | SCALARS["string"]
        return st.builds(_request, messages(cls, version), st.just(version), numbers, clients)
    return st.builds(_response, messages(cls, version), st.just(version), numbers)


def _has_no_client_id(cls: type[Message], version: int) -> bool:
    return codec.request_header_version(cls, version) == 0


def _request(body: Message, version: int, correlation_id: int, client_id: str | None) -> Frame:
    data = codec.encode_request(body, version=version, correlation_id=correlation_id, client_id=client_id)
    return Frame(data, body, version, correlation_id, client_id)


def _response(body: Message, version: int, correlation_id: int) -> Frame:
    return Frame(
        codec.encode_response(body, version=version, correlation_id=correlation_id), body, version, correlation_id
    )


# Record batches -------------------------------------------------------------------------------------------------------

_INT16, _INT64 = (st.integers(*RANGES[name]) for name in ("int16", "int64"))
_NUMBERS = st.integers(-1, RANGES["int32"][1])
_TIMES = st.integers(-1, 1 << 42)
_TIMESTAMPS = _TIMES | _INT64
_OFFSETS = st.integers(0, 1 << 50)
_DATA = st.none() | st.binary(max_size=200)
_HEADERS = st.lists(st.builds(batch_format.Header, st.text("aé€😀\0", max_size=10), _DATA), max_size=3).map(tuple)


class Build(NamedTuple):
    """A batch before it is written: its records, and the other arguments of `records.build`."""

    records: list[batch_format.Record]
    arguments: dict[str, Any]

    @property
    def data(self) -> bytes:
        """The bytes of the batch."""
        return batch_format.build(self.records, **self.arguments)


@st.composite
def records(draw: st.DrawFn, base_offset: int = 0) -> list[batch_format.Record]:
    """Records at ascending offsets from `base_offset` on, some missing as after compaction."""
    offset = base_offset - 1
    found = []
    for step in draw(st.lists(st.integers(1, 300), max_size=6)):
        offset += step
        found.append(batch_format.Record(draw(_DATA), draw(_DATA), draw(_HEADERS), offset, draw(_TIMESTAMPS)))
    return found


@st.composite
def batches(draw: st.DrawFn, *magics: int) -> Build:
    """Record batches that can be written: data of any producer, with each codec; none or more records.

    Args:
        magics: the formats, of 0, 1 and 2; by default 2. Of 0 and 1 they have a record at least.
    """
    magic = draw(st.sampled_from(magics or (2,)))
    base_offset = draw(_OFFSETS)
    if magic < 2:
        listed = [
            batch_format.Record(each.key, each.value, (), each.offset, draw(_TIMES) if magic else -1)
            for each in draw(records(base_offset).filter(bool))
        ]
        return Build(
            listed,
            {
                "magic": magic,
                "base_offset": base_offset,
                "append_time": draw(st.none() | st.integers(0, 1 << 42)) if magic else None,
                "codec": draw(st.sampled_from(batch_format.CODECS[:4])),
            },
        )
    listed = draw(records(base_offset))
    least = listed[-1].offset if listed else base_offset
    return Build(
        listed,
        {
            "base_offset": base_offset,
            "last_offset": draw(st.integers(least, base_offset + (1 << 31) - 1)),
            "append_time": draw(st.none() | _TIMESTAMPS),
            "codec": draw(st.sampled_from(batch_format.CODECS)),
            "producer_id": draw(_INT64),
            "producer_epoch": draw(_INT16),
            "base_sequence": draw(_NUMBERS),
            "partition_leader_epoch": draw(_NUMBERS),
            "transactional": draw(st.booleans()),
            "delete_horizon": draw(st.none() | st.integers(0, 1 << 42)),
        },
    )
