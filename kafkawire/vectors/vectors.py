"""`vectors`: values of each message and version, chosen by its layout; `refusals`: bytes that are no value of it.

Of each message and version: every field at its default, at its lowest and at its highest, with nulls, and with several
elements in each array, tagged fields set and an unknown one. The same schemas give the same vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from uuid import UUID

from kafkawire.errors import DecodeError
from kafkawire.records import Record, build
from kafkawire.wire.json_form import to_json
from kafkawire.wire.registry import Registry
from kafkawire.wire.spec import Field
from kafkawire.wire.values import TaggedField

#: How values are chosen.
CASES = ("defaults", "low", "high", "nulls", "many")

_SIZES = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_TEXTS = {"low": "", "high": "zürich-€-😀" + "x" * 120, "nulls": "n", "many": "a"}
_BYTES = {"low": b"", "high": bytes(range(256)), "nulls": b"\0", "many": b"\xff\x00"}
_FLOATS = {"low": -1.5, "high": 1.7976931348623157e308, "nulls": 0.0, "many": 2.5}
_UUIDS = {"low": 0, "high": (1 << 128) - 1, "nulls": 1, "many": 0x0123456789ABCDEF0123456789ABCDEF}
_UNKNOWN_TAG = 10_000


class Vector(NamedTuple):
    """A value of a message.

    Attributes:
        message, version, case: which one. `data`: its bytes. `json`: its JSON form, with unknown tagged fields.
    """

    message: str
    version: int
    case: str
    data: bytes
    json: dict[str, Any]


class Refusal(NamedTuple):
    """Bytes that are no value of a message. `reason`: why, with the place."""

    message: str
    version: int
    case: str
    data: bytes
    reason: str


def vectors(registry: Registry) -> Iterator[Vector]:
    """The vectors of all messages, sorted by name and version.

    Args:
        registry: the messages.
    """
    for entry in sorted(registry, key=lambda entry: entry.name):
        cls: Any = registry.load(entry)
        for version in cls.spec.valid_versions:
            seen = set()
            for case in CASES:
                value = cls(**_fields(cls, version, case))
                data = value.encode(version)
                if data not in seen:
                    seen.add(data)
                    # What the bytes say, in the fields that the version has.
                    json = to_json(cls.decode(data, version), version, unknown_tags=True)
                    yield Vector(entry.name, version, case, data, json)


def refusals(registry: Registry) -> Iterator[Refusal]:
    """Bytes that Kafka's own classes refuse: cut off, longer than the message, lengths that no input can hold.

    Args:
        registry: the messages.
    """
    for vector in vectors(registry):
        if vector.case != "many":
            continue
        cls: Any = registry.load(registry.entry(vector.message))
        for case, data in _damaged(vector.data):
            try:
                cls.decode(data, vector.version)
            except DecodeError as error:
                yield Refusal(vector.message, vector.version, case, data, str(error))


def _damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    yield "a byte more", data + b"\0"
    for place in sorted({0, len(data) // 3, len(data) // 2, len(data) - 1}):
        if place < len(data):
            yield f"cut after {place} bytes", data[:place]
    yield "lengths of ones", b"\xff" * min(len(data), 64)
    yield "lengths of 2 GiB", b"\x7f" + b"\xff" * min(len(data), 64)


def _fields(cls: type[Any], version: int, case: str, depth: int = 0) -> dict[str, Any]:
    """The fields of a struct that the version carries; others keep their defaults."""
    if case == "defaults":
        return {}
    values = {}
    for field in cls.spec.fields:
        if version in field.versions:
            values[field.attribute] = _value(cls, field, version, case, depth)
    flexible = version in cls.codec.message.spec.flexible_versions
    if case == "many" and flexible:
        values["unknown_tagged_fields"] = (TaggedField(_UNKNOWN_TAG + depth, b"\x01\x02"),)
    return values


def _value(cls: type[Any], field: Field, version: int, case: str, depth: int) -> Any:
    if case == "nulls" and version in field.nullable_versions:
        return None
    if not field.is_array:
        return _one(field, version, case, depth)
    if case == "low":
        return ()
    if case == "many":
        return tuple(_one(field, version, each, depth, outer=case) for each in ("low", "high", "many"))
    return (_one(field, version, case, depth),)


def _one(field: Field, version: int, case: str, depth: int, *, outer: str = "") -> Any:
    if field.struct is not None:
        # Deep inside of several elements one is enough: all else would multiply.
        inner = outer if outer and case == "many" and depth < 2 else case
        return field.struct(**_fields(field.struct, version, inner, depth + 1))
    kind = field.type.removeprefix("[]")
    if kind in _SIZES:
        bits = _SIZES[kind]
        return {"low": -(1 << (bits - 1)), "high": (1 << (bits - 1)) - 1, "nulls": 0, "many": 1}[case]
    if kind in ("uint16", "uint32"):
        return {"low": 0, "high": (1 << int(kind[4:])) - 1, "nulls": 1, "many": 2}[case]
    if kind == "bool":
        return case in ("high", "many")
    if kind == "float64":
        return _FLOATS[case]
    if kind == "uuid":
        return UUID(int=_UUIDS[case])
    if kind == "string":
        return _TEXTS[case]
    if kind == "records":
        return build([Record(key=b"k", value=case.encode(), timestamp=1)])
    return _BYTES[case]
