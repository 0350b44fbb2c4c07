"""Classes for the schema of a message as data, which `SomeMessage.spec` gives.

Ranges are `range` objects over the message's valid versions; an empty range means "in no version".
"""

from __future__ import annotations

from typing import Any

import msgspec

from kafkawire.wire.layout import KIND_NAMES, STRUCT

#: What codecs import of it (`kafkawire.runtime`).
__all__ = ["MessageSpec", "StructSpec"]

NEVER = range(0)
_KINDS = {name: kind for kind, name in enumerate(KIND_NAMES) if kind != STRUCT}


def json_name(name: str) -> str:
    """The key in JSON of a field that a schema calls `name`: with a small first letter."""
    return name[:1].lower() + name[1:]


class Field(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One field of a struct.

    Attributes:
        name: the schema's name, `ThrottleTimeMs`; `attribute`: the Python attribute, `throttle_time_ms`.
        type: the schema's type, `int32`, `[]string`, `[]TopicData`; `struct`: the class where that is a struct.
        versions, nullable_versions, tagged_versions: where the field is carried, may be null, is tagged (with `tag`).
        default: the value that a version without the field decodes to.
        ignorable: whether a version without the field may drop a non-default value on encoding.
        map_key: the field is (part of) the key of the collection that Kafka's Java makes of the array.
        entity_type: what a string or integer names: topicName, transactionalId, groupId, producerId, brokerId.
        aliases: older names, which JSON input may use.
        flexible_versions: where its length is an unsigned varint, if those are not the message's.
        owner: the class that states the field.
    """

    name: str
    attribute: str
    type: str
    versions: range
    default: Any = None
    nullable_versions: range = NEVER
    tagged_versions: range = NEVER
    tag: int | None = None
    struct: Any = None
    ignorable: bool = False
    map_key: bool = False
    entity_type: str | None = None
    aliases: tuple[str, ...] = ()
    flexible_versions: range | None = None
    owner: Any = None

    @property
    def about(self) -> str:
        """A sentence on the field's meaning, or nothing: the docstring of the attribute."""
        from kafkawire.wire.abouts import about

        return about(self.owner, self.attribute)

    @property
    def json_name(self) -> str:
        """The key in JSON."""
        return json_name(self.name)

    @property
    def json_names(self) -> tuple[str, ...]:
        """The keys by which JSON input may name the field: the one of today, then older ones."""
        return (self.json_name, *map(json_name, self.aliases))

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def kind(self) -> int:
        """The kind (see `wire.layout`) of the value, or of the elements of an array."""
        return _KINDS.get(self.type.removeprefix("[]"), STRUCT)


class StructSpec(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """A struct: its schema name, its fields in the schema's order (the order of the class's slots), and its class."""

    name: str
    fields: tuple[Field, ...]
    owner: Any = None

    @property
    def about(self) -> str:
        """A sentence on the struct's meaning, or nothing: the docstring of the class."""
        from kafkawire.wire.abouts import about

        return about(self.owner)

    def field(self, name: str) -> Field:
        """The field of that schema name, JSON name, attribute or alias; KeyError where there is none."""
        for field in self.fields:
            if name in (field.name, field.json_name, field.attribute):
                return field
        # Older names come after all others: one may be the name of another field by now.
        for field in self.fields:
            if name in field.aliases:
                return field
        raise KeyError(name)


class MessageSpec(StructSpec, frozen=True, repr_omit_defaults=True, kw_only=True):
    """A message.

    Attributes:
        kind: request, response, header, data, metadata, coordinator-key or coordinator-value.
        family: the set of messages within which an api key is unique for a kind: rpc, group, transaction, share,
            metadata, ...; the schema's folder.
        api_key: the number by which a header (rpc) or the prefix of a key or record names the message, or None.
        valid_versions, flexible_versions: ranges; `flexible_versions` is empty where no version is flexible.
        latest_version_unstable: the newest version is not released yet.
        source: the schema file, relative to its folder.
        aliases: older names of the whole message.
    """

    kind: str
    family: str
    valid_versions: range
    flexible_versions: range = NEVER
    api_key: int | None = None
    listeners: tuple[str, ...] = ()
    latest_version_unstable: bool = False
    source: str = ""
    aliases: tuple[str, ...] = ()
