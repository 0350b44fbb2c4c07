"""The annotations with which the classes of messages declare their fields, and the functions that make `spec` of them.

A field is stated once, as an annotated attribute with its default:

    error_code: Int16 = 0
    rack: Annotated[str | None, Wire("1+", nullable="1+", ignorable=True)] = None
    partitions: tuple[Partition, ...] = ()

The annotation gives the type on the wire: `Int16` and the other names below, or a type of Python (`bool`, `float` for
float64, `str`, `bytes`, `uuid.UUID`, the class of a struct, `tuple[...]` for an array). `TopicName` and the other
entity types say what a string or a number names; for a type checker they are `str` and `int`, so that values need no
conversion. `Wire` adds the rest. Versions are written as in schemas ("3", "0-2", "3+", "none"); a field without them is
carried in all versions of its struct, and a struct without them is used in all versions of the message.

Annotations are evaluated when a spec is first used, not when a module is imported.
"""

from __future__ import annotations

import types
import uuid
from importlib import import_module
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from kafkawire.wire.spec import NEVER, Field, MessageSpec, StructSpec

#: What codecs import of it (`kafkawire.runtime`).
__all__ = [
    "BrokerId",
    "GroupId",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "ProducerId",
    "Records",
    "TopicName",
    "TransactionalId",
    "Uint16",
    "Uint32",
    "Wire",
    "message",
    "sibling",
    "struct",
]

Int8 = Annotated[int, "int8"]
Int16 = Annotated[int, "int16"]
Int32 = Annotated[int, "int32"]
Int64 = Annotated[int, "int64"]
Uint16 = Annotated[int, "uint16"]
Uint32 = Annotated[int, "uint32"]
Records = Annotated[bytes, "records"]


class Entity(NamedTuple):
    """The entity type of a field: the schema's `entityType`."""

    name: str


BrokerId = Annotated[Int32, Entity("brokerId")]
GroupId = Annotated[str, Entity("groupId")]
ProducerId = Annotated[Int64, Entity("producerId")]
TopicName = Annotated[str, Entity("topicName")]
TransactionalId = Annotated[str, Entity("transactionalId")]

#: Python's own types -> their names in schemas.
_NAMES: dict[Any, str] = {bool: "bool", float: "float64", str: "string", bytes: "bytes", uuid.UUID: "uuid"}


class Wire(NamedTuple):
    """The properties of a field that its annotation states beside the type.

    Attributes:
        versions: the versions that carry the field, where they are not all of its struct.
        nullable: the versions in which it may be null.
        tagged, tag: the versions in which it is a tagged field, and its number.
        flexible: the versions in which its length is an unsigned varint, where they are not the message's.
        name: the schema's name, where it is not the attribute's in camel case.
        ignorable, map_key, aliases: as in `kafkawire.wire.spec.Field`.
    """

    versions: str | None = None
    nullable: str = "none"
    tagged: str = "none"
    tag: int | None = None
    flexible: str | None = None
    name: str | None = None
    ignorable: bool = False
    map_key: bool = False
    aliases: tuple[str, ...] = ()


def versions_of(text: str, within: range) -> range:
    """The versions that a text as in schemas means, cut to those of the message.

    Args:
        text: "3", "0-2", "3+" or "none".
        within: the valid versions of the message.
    """
    if text == "none":
        return NEVER
    low, dash, high = text.partition("-")
    if dash:
        return range(max(int(low), within.start), min(int(high) + 1, within.stop))
    if low.endswith("+"):
        return range(max(int(low[:-1]), within.start), within.stop)
    return range(int(low), int(low) + 1)


class _StructSpec:
    """A class's `spec` until its first use; then the spec takes its place."""

    def __init__(self, name: str | None, versions: str | None) -> None:
        self.name = name
        self.versions = versions

    def __get__(self, value: object, owner: Any) -> Any:
        spec = owner.spec = self.of(owner)
        return spec

    def of(self, owner: Any) -> StructSpec:
        valid: range = vars(owner.codec.message)["spec"].valid_versions
        versions = valid if self.versions is None else versions_of(self.versions, valid)
        return StructSpec(self.name or owner.__name__, fields_of(owner, versions, valid), owner=owner)


class _MessageSpec(_StructSpec):
    def __init__(self, name: str | None, versions: str, stated: dict[str, Any]) -> None:
        super().__init__(name, versions)
        low, _, high = versions.partition("-")
        self.valid_versions = range(int(low), int(high or low) + 1)
        self.stated = stated

    def of(self, owner: Any) -> MessageSpec:
        valid = self.valid_versions
        fields = fields_of(owner, valid, valid)
        return MessageSpec(self.name or owner.__name__, fields, owner=owner, valid_versions=valid, **self.stated)


class _Sibling:
    """A class of another module of the package, until its first use; then the class takes its place."""

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.attribute = attribute

    def __get__(self, value: object, owner: Any) -> Any:
        found = getattr(import_module(f"{owner.__module__.rpartition('.')[0]}.{self.module}"), self.name)
        setattr(owner, self.attribute, found)
        return found


def sibling(module: str, name: str) -> Any:
    """The class `name` of another module of the package, imported on first use."""
    return _Sibling(module, name)


def struct(name: str | None = None, *, versions: str | None = None) -> Any:
    """The `spec` of a struct's class, made of its annotations.

    Args:
        name: the schema's name of the struct, where it is not the class's.
        versions: the versions in which the struct is used, where they are not all of the message.
    """
    return _StructSpec(name, versions)


def message(versions: str, *, flexible: str = "none", name: str | None = None, **stated: Any) -> Any:
    """The `spec` of a message's class, made of its annotations.

    Args:
        versions, flexible: the valid versions, and those that are flexible.
        name: the schema's name, where it is not the class's.
        stated: further attributes of `kafkawire.wire.spec.MessageSpec`.
    """
    spec = _MessageSpec(name, versions, stated)
    if flexible != "none":
        stated["flexible_versions"] = versions_of(flexible, spec.valid_versions)
    return spec


def camel_case(attribute: str) -> str:
    """The schema's name of an attribute, by the rule that nearly all names follow: `throttle_time_ms` ->
    `ThrottleTimeMs`."""
    return "".join(part.capitalize() for part in attribute.split("_"))


def fields_of(owner: Any, versions: range, valid: range) -> tuple[Field, ...]:
    """The fields that a class states, in the order of its slots.

    Args:
        owner: the class of a struct or message.
        versions: the versions in which the struct is used.
        valid: the versions of the message.
    """
    scope = owner.codec.scope
    attributes, defaults = owner.__struct_fields__[:-1], owner.__struct_defaults__
    return tuple(
        _field(attribute, eval(owner.__annotations__[attribute], scope), default, owner, versions, valid)
        for attribute, default in zip(attributes, defaults, strict=False)
    )


_PLAIN = Wire()


def _field(attribute: str, annotation: Any, default: Any, owner: Any, struct_versions: range, valid: range) -> Field:
    stated, type_ = _parts(annotation)
    versions = struct_versions if stated.versions is None else versions_of(stated.versions, valid)
    name, cls, entity = _type(type_)
    return Field(
        stated.name or camel_case(attribute),
        attribute,
        name,
        versions,
        default=default,
        nullable_versions=versions_of(stated.nullable, valid),
        tagged_versions=versions_of(stated.tagged, valid),
        tag=stated.tag,
        struct=cls,
        ignorable=stated.ignorable,
        map_key=stated.map_key,
        entity_type=entity,
        aliases=stated.aliases,
        flexible_versions=None if stated.flexible is None else versions_of(stated.flexible, valid),
        owner=owner,
    )


def _parts(annotation: Any) -> tuple[Wire, Any]:
    """What `Wire` states, and the type."""
    if get_origin(annotation) is Annotated and isinstance(annotation.__metadata__[-1], Wire):
        *others, stated = annotation.__metadata__
        type_ = annotation.__origin__
        return stated, Annotated[type_, *others] if others else type_
    return _PLAIN, annotation


def _type(annotation: Any) -> tuple[str, Any, str | None]:
    """The type's name in schemas, the class of a struct, and the entity type."""
    origin = get_origin(annotation)
    if origin is Annotated:
        plain = annotation.__origin__
        name, cls, entity = _NAMES.get(plain), None, None
        if plain not in _NAMES and plain is not int:
            name, cls, entity = _type(plain)
        for stated in annotation.__metadata__:
            if isinstance(stated, Entity):
                entity = stated.name
            else:
                name = str(stated)
        assert name is not None
        return name, cls, entity
    if origin in (Union, types.UnionType):
        return _type(get_args(annotation)[0])
    if origin is tuple:
        name, cls, entity = _type(get_args(annotation)[0])
        return f"[]{name}", cls, entity
    if annotation in _NAMES:
        return _NAMES[annotation], None, None
    return annotation.spec.name, annotation, None
