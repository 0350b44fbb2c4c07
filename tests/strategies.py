"""Hypothesis strategies of messages, built from what their schemas say (`spec`), and what goes with them.

`messages(cls, version)` makes every value that a version can carry: nulls, empty and long strings, bytes that are no
UTF-8, integers at the borders of their types, NaN, tagged fields present and absent, unknown tagged fields on every
struct, and fields that the version does not carry (at their default; anything where the schema says `ignorable`).
They read `spec` alone, never the layouts that codecs execute, so a wrong layout does not go unseen.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar
from uuid import UUID

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from kafkawire.wire.layout import STRUCT
from kafkawire.wire.message import Message, Struct
from kafkawire.wire.spec import Field
from kafkawire.wire.values import TaggedField

T = TypeVar("T")

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


def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    borders = [n for n in (low, -129, -128, -1, 0, 1, 127, 128, 255, 256, high) if low <= n <= high]
    return st.sampled_from(borders) | st.integers(low, high)


texts = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["", "a", "topic-0", "\0", "é", "𝄞😀", "\ufeff", "x" * 126, "x" * 127, "é" * 64, "x" * 300]),
    # What decoding makes of bytes that are no UTF-8.
    st.binary(max_size=6).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
)
blobs = st.binary(max_size=8) | st.sampled_from([b"\0", b"\xff" * 126, b"\x80" * 127, bytes(300)])

SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False) | st.just(float("nan")),
    "uuid": st.sampled_from([UUID(int=0), UUID(int=1), UUID(int=(1 << 128) - 1)])
    | st.integers(0, (1 << 128) - 1).map(lambda number: UUID(int=number)),
    "string": texts,
    "bytes": blobs,
    "records": blobs,
    **{name: _integers(low, high) for name, (low, high) in RANGES.items()},
}
_ARRAYS = {
    name: st.lists(items, max_size=4).map(tuple)
    # Long enough for a length of two bytes, and for more numbers than are read by one prepared call.
    | st.tuples(items, st.sampled_from([64, 65, 127, 128])).map(lambda pair: (pair[0],) * pair[1])
    for name, items in SCALARS.items()
}


def messages(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Values of a message that can be encoded in that version."""
    return _structs(cls, version, version in cls.spec.flexible_versions, 0)


@cache
def _structs(cls: type[Struct], version: int, flexible: bool, depth: int) -> st.SearchStrategy[Any]:
    fields = {field.attribute: _field(cls, field, version, flexible, depth) for field in cls.spec.fields}
    if flexible:
        own = frozenset(field.tag for field in cls.spec.fields if field.tag is not None)
        fields["unknown_tagged_fields"] = _unknown_tags(own)
    return st.fixed_dictionaries(fields).map(lambda values: cls(**values))


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
            values = st.lists(values, max_size=_WIDTHS[min(depth, len(_WIDTHS) - 1)]).map(tuple)
    else:
        values = _ARRAYS[field.type[2:]] if field.is_array else SCALARS[field.type]
    return st.none() | values if version in field.nullable_versions else values


@cache
def _unknown_tags(own: frozenset[int]) -> st.SearchStrategy[tuple[TaggedField, ...]]:
    """Ascending tags that the struct knows in no version."""
    numbers = st.integers(0, 20) | st.sampled_from([127, 128, 16383, 16384, (1 << 28) - 1, (1 << 31) - 2])
    tags = st.builds(TaggedField, numbers.filter(lambda tag: tag not in own), blobs)
    some = st.lists(tags, min_size=1, max_size=3, unique_by=lambda field: field.tag)
    return st.just(()) | some.map(lambda fields: tuple(sorted(fields, key=lambda field: field.tag)))


def carried(value: Any, version: int) -> Any:
    """A value after it went through the bytes of a version: fields that it lacks are at their default."""
    defaults = type(value)()
    values = {}
    for field in value.spec.fields:
        item = getattr(value if version in field.versions else defaults, field.attribute)
        if field.kind == STRUCT and item is not None:
            item = tuple(carried(part, version) for part in item) if field.is_array else carried(item, version)
        values[field.attribute] = item
    return type(value)(**values, unknown_tagged_fields=value.unknown_tagged_fields)


def same(left: Any, right: Any) -> bool:
    """Equality that tells 1 from True and 0.0 from -0.0, and holds for NaN; memoryviews are equal to their bytes."""
    if isinstance(left, memoryview):
        left = bytes(left)
    if isinstance(right, memoryview):
        right = bytes(right)
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack(">d", left) == struct.pack(">d", right)
    if isinstance(left, tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, (Struct, TaggedField)):
        return all(same(getattr(left, name), getattr(right, name)) for name in left.__struct_fields__)
    return bool(left == right)


def structs_of(cls: type[Struct]) -> list[type[Struct]]:
    """The message's class and all structs inside it."""
    found = [cls]
    for at in found:
        found += [field.struct for field in at.spec.fields if field.struct and field.struct not in found]
    return found


def for_all(
    strategy: st.SearchStrategy[T], share: float, name: str, check: Callable[[T], None], *, shrink: bool = True
) -> None:
    """Runs a check on a share of the profile's examples.

    Tests over every version of a message have thousands of such runs; where the profile is derandomized each begins
    at a place of its own, given by its name, instead of all at the same one. `shrink=False` is for checks that draw
    from a random generator, which shrinking only slows down.
    """

    def test(value: T) -> None:
        check(value)

    default = settings.default
    assert default is not None
    phases = [phase for phase in default.phases if shrink or phase not in (Phase.shrink, Phase.explain)]
    run = settings(max_examples=max(1, round(default.max_examples * share)), phases=phases)(given(strategy)(test))
    if default.derandomize:
        run = seed(zlib.crc32(name.encode()))(run)
    run()
