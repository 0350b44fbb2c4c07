"""The fields with values that one of a message's versions does not carry."""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from kafkawire.wire.values import NO_FIELDS

T = TypeVar("T", bound=Any)


class Unsupported(NamedTuple):
    """A field with a value other than its default, in a version that does not carry the field.

    Attributes:
        path: place of the field inside the message, `topics[3].partitions[0].leader_epoch`.
        value: what the field holds.
        ignorable: whether `encode` drops it without being asked, since the schema allows that; otherwise it refuses.
    """

    path: str
    value: Any
    ignorable: bool


def unsupported(value: Any, version: int, prefix: str = "") -> Iterator[Unsupported]:
    """The fields of a struct that the version does not carry, in the order of the schema.

    Args:
        value: the struct.
        version: of its message.
        prefix: path of the struct in the message, with a dot at its end.
    """
    for field in value.spec.fields:
        held = getattr(value, field.attribute)
        path = prefix + field.attribute
        if version not in field.versions:
            if held != field.default:
                yield Unsupported(path, held, field.ignorable)
        elif field.struct is not None and held is not None:
            for place, one in enumerate(held) if field.is_array else ((None, held),):
                yield from unsupported(one, version, f"{path}." if place is None else f"{path}[{place}].")
    if _has_lost_tags(value, version):
        yield Unsupported(f"{prefix}unknown_tagged_fields", value.unknown_tagged_fields, False)


def fitted(value: T, version: int) -> T:
    """The struct with what the version does not carry at its defaults; the same object where that is nothing."""
    changes: dict[str, Any] = {}
    for field in value.spec.fields:
        held = getattr(value, field.attribute)
        if version not in field.versions:
            new = field.default
            if held == new:
                continue
        elif field.struct is None or held is None:
            continue
        elif field.is_array:
            new = tuple(fitted(one, version) for one in held)
            if all(map(is_, new, held)):
                continue
        else:
            new = fitted(held, version)
            if new is held:
                continue
        changes[field.attribute] = new
    if _has_lost_tags(value, version):
        changes["unknown_tagged_fields"] = NO_FIELDS
    return replace(value, **changes) if changes else value


def _has_lost_tags(value: Any, version: int) -> bool:
    return bool(value.unknown_tagged_fields) and version not in value.codec.message.spec.flexible_versions
