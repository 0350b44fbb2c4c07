"""The model: message schemas after every rule of the language has been checked and every default has its value.

`resolve` makes it, `lower` and the emitters read it. It holds version *ranges*: which layout a version has is decided
in `kafkawire.wire.lowering`. All ranges are cut to the message's valid versions, so an open end ("3+") is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkawire.codegen.versions import NO_VERSIONS, VersionRange
from kafkawire.wire.layout import KIND_NAMES


@dataclass(frozen=True, slots=True)
class FieldType:
    """`kind` is one of the kinds of `wire.layout` (STRUCT for structs); `struct` the struct's name, else None."""

    kind: int
    array: bool = False
    struct: str | None = None

    def __str__(self) -> str:
        """The type as the schema language writes it: `int32`, `[]string`, `[]TopicData`."""
        return ("[]" if self.array else "") + (self.struct or KIND_NAMES[self.kind])


class EmptyStruct:
    """The default of a struct field that is not null by default: the struct with all its defaults."""

    def __repr__(self) -> str:
        return "EMPTY_STRUCT"


EMPTY_STRUCT = EmptyStruct()

#: A field's default, of the field's Python type; but a uuid as text (`00000000-0000-0000-0000-000000000000` where none
#: is given), of an array the empty tuple.
Default = bool | int | float | str | bytes | None | tuple[()] | EmptyStruct


@dataclass(frozen=True, slots=True)
class FieldModel:
    """One field of a struct. `name` is the schema's."""

    name: str
    type: FieldType
    versions: VersionRange
    default: Default
    nullable: VersionRange = NO_VERSIONS
    tagged: VersionRange = NO_VERSIONS
    tag: int | None = None
    ignorable: bool = False
    map_key: bool = False
    zero_copy: bool = False
    entity_type: str | None = None
    #: Versions in which this field is written in compact form; differs from the message's only where the schema states
    #: it (RequestHeader.ClientId is never compact).
    flexible: VersionRange = NO_VERSIONS
    about: str = ""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StructModel:
    """A struct: the message itself or one nested in it. `versions` are those of the places where it is used."""

    name: str
    fields: tuple[FieldModel, ...]
    versions: VersionRange
    about: str = ""


@dataclass(frozen=True, slots=True)
class MessageModel:
    """A whole message. `structs` are the nested ones, each before those that use it; `root` is the message's own."""

    name: str
    kind: str
    family: str
    valid: VersionRange
    flexible: VersionRange
    root: StructModel
    structs: tuple[StructModel, ...] = ()
    api_key: int | None = None
    listeners: tuple[str, ...] = ()
    latest_version_unstable: bool = False
    about: str = ""
    aliases: tuple[str, ...] = ()
    #: The schema file, relative to the folder that was loaded: `rpc/FetchRequest.json`.
    source: str = field(default="", compare=False)

    def struct(self, name: str) -> StructModel:
        """The nested struct of that name, or KeyError."""
        for struct in self.structs:
            if struct.name == name:
                return struct
        raise KeyError(name)
