"""Hypothesis strategies of messages, frames and record batches. Needs the extra `testing`.

    @given(strategies.messages(MetadataRequest, version=12))
    def test_proxy_keeps_the_request(body: MetadataRequest) -> None: ...

Values lie often at the edges: null, empty, lengths that need a second byte, text beyond the BMP, text of bytes that are
not UTF-8, integers at the borders of their types, NaN, tagged fields present and absent, unknown tagged fields on every
struct. Examples shrink to zeros, empty strings and empty arrays. Strategies read `spec` alone, never the layouts that
codecs execute.
"""

from __future__ import annotations

from functools import cache
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
WIDTHS = (3, 2, 2, 1, 1, 1)

# Values at the edges, the simplest first.
TEXTS = ("", "a", "topic-0", "\0", "é", "𝄞😀", "\ufeff", "x" * 126, "x" * 127, "é" * 64, "x" * 300)
BLOBS = (b"\0", b"\xff" * 126, b"\x80" * 127, bytes(300))
UUIDS = (UUID(int=0), UUID(int=1), UUID(int=(1 << 128) - 1))
#: Long enough for a length of two bytes, and for more numbers than are read by one prepared call.
LENGTHS = (64, 65, 127, 128)
TAGS = (127, 128, 16383, 16384, (1 << 28) - 1, (1 << 31) - 2)


def borders(low: int, high: int) -> list[int]:
    """Integers of a range at which a length or a type ends."""
    return [n for n in (0, 1, -1, 127, 128, -128, -129, 255, 256, high, low) if low <= n <= high]


def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.sampled_from(borders(low, high)) | st.integers(low, high)


texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(TEXTS),
    # What decoding makes of bytes that are no UTF-8.
    st.binary(max_size=6).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)
blobs = st.binary(max_size=8) | st.sampled_from(BLOBS)

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False) | st.just(float("nan")),
    "uuid": st.sampled_from(UUIDS) | st.integers(0, (1 << 128) - 1).map(lambda number: UUID(int=number)),
    "string": texts,
    "bytes": blobs,
    "records": blobs,
    **{name: _integers(low, high) for name, (low, high) in RANGES.items()},
}
_ARRAYS = {
    name: st.lists(items, max_size=4).map(tuple)
    | st.tuples(items, st.sampled_from(LENGTHS)).map(lambda pair: (pair[0],) * pair[1])
    for name, items in SCALARS.items()
}


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


@cache
def _structs(cls: type[Struct], version: int, flexible: bool, depth: int) -> st.SearchStrategy[Any]:
    fields = {field.attribute: _field(cls, field, version, flexible, depth) for field in cls.spec.fields}
    if flexible:
        own = frozenset(field.tag for field in cls.spec.fields if field.tag is not None)
        fields["unknown_tagged_fields"] = _unknown_tags(own)
    # Not `fixed_dictionaries`, which draws an order of the keys, too.
    return st.tuples(*fields.values()).map(lambda values: cls(**dict(zip(fields, values, strict=True))))


def _field(cls: type[Struct], field: Field, version: int, flexible: bool, depth: int) -> st.SearchStrategy[Any]:
    default = getattr(cls(), field.attribute)
    if version not in field.versions:
        if not field.ignorable or not field.versions:
            return st.just(default)
        return st.just(default) | _value(field, field.versions[-1], flexible, depth)
    values = _value(field, version, flexible, depth)
    return st.just(default) | values if version in field.tagged_versions else values


def _value(field: Field, version: int, flexible: bool, depth: int) -> st.SearchStrategy[Any]:
    if field.kind == STRUCT:
        values = _structs(field.struct, version, flexible, depth + 1)
        if field.is_array:
            values = st.lists(values, max_size=WIDTHS[min(depth, len(WIDTHS) - 1)]).map(tuple)
    else:
        values = _ARRAYS[field.type[2:]] if field.is_array else SCALARS[field.type]
    return st.none() | values if version in field.nullable_versions else values


@cache
def _unknown_tags(own: frozenset[int]) -> st.SearchStrategy[tuple[TaggedField, ...]]:
    """Ascending tags that the struct knows in no version."""
    numbers = st.integers(0, 20) | st.sampled_from(TAGS)
    tags = st.builds(TaggedField, numbers.filter(lambda tag: tag not in own), blobs)
    some = st.lists(tags, min_size=1, max_size=3, unique_by=lambda field: field.tag)
    return st.just(()) | some.map(lambda fields: tuple(sorted(fields, key=lambda field: field.tag)))


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
        clients = st.none() if _has_no_client_id(cls, version) else st.none() | texts
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
