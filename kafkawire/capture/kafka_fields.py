"""Checks whether a class is a message of Kafka, or a message of other schemas that has all fields of Kafka's.

Rows, spans and selections read fields of Kafka's messages. Schemas of the caller may replace a message by one that does
not have them.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from kafkawire.messages import REGISTRY

if TYPE_CHECKING:
    from kafkawire.wire.message import Message
    from kafkawire.wire.spec import StructSpec


def released_name(api_key: int | None, kind: str) -> str | None:
    """The name of Kafka's message of an api key; None where it has none. `kind`: `request` or `response`."""
    cls = None if api_key is None else REGISTRY.rpc(api_key, kind)
    return None if cls is None else cls.spec.name


def kafka_name(message: Message) -> str | None:
    """The name of Kafka's message that this one can be read as, by its class; None where it lacks a field of it."""
    return kafka_name_of(type(message))


@cache
def kafka_name_of(cls: type[Message]) -> str | None:
    """The name of Kafka's message that a request or response can be read as; None where it lacks a field of it."""
    spec = cls.spec
    released = REGISTRY.rpc(spec.api_key, spec.kind) if spec.family == "rpc" and spec.api_key is not None else None
    if released is None or not (cls is released or _has_fields(spec, released.spec)):
        return None
    return released.spec.name


def _has_fields(spec: StructSpec, wanted: StructSpec) -> bool:
    """Whether a struct has all fields of another one, by their names, with the same types, and null in no others."""
    mine = {field.name: field for field in spec.fields}
    return all(
        field.name in mine
        and (field.is_array, field.kind) == (mine[field.name].is_array, mine[field.name].kind)
        and bool(mine[field.name].nullable_versions) <= bool(field.nullable_versions)
        and (field.struct is None or _has_fields(mine[field.name].struct.spec, field.struct.spec))
        for field in wanted.fields
    )
