"""The rules for one struct: its fields are read as the schema states them, and each rule of Kafka's is checked. Ranges
are cut later.

Kafka's rules are those of FieldSpec, StructSpec, FieldType and EntityType in its generator, and the checks that
MessageDataGenerator makes later. Where Kafka accepts a mistake, a comment describes its effect in Kafka.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kafkawire.codegen.defaults import NULLABLE_KINDS, default_value
from kafkawire.codegen.model import Default, FieldModel, FieldType
from kafkawire.codegen.quoting import quote
from kafkawire.codegen.reading import SchemaNode, nearest
from kafkawire.codegen.versions import ALL_VERSIONS, NO_VERSIONS, VersionRange
from kafkawire.wire.layout import BYTES, INT32, INT64, KIND_NAMES, RECORDS, STRING, STRUCT
from kafkawire.wire.limits import MAX_DEPTH

FIELD_KEYS = (
    "name", "aliases", "type", "versions", "nullableVersions", "taggedVersions", "tag", "flexibleVersions", "default",
    "ignorable", "mapKey", "entityType", "zeroCopy", "about", "fields",
)  # fmt: skip

_KINDS = {name: kind for kind, name in enumerate(KIND_NAMES) if kind != STRUCT}
ENTITY_KINDS = {
    "transactionalId": STRING,
    "producerId": INT64,
    "groupId": STRING,
    "topicName": STRING,
    "brokerId": INT32,
}
_FIELD_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_CLASS_NAME = re.compile(r"[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class FieldSpec:
    """A field with the object it was read from. `inline` are the fields of the struct that is defined in place."""

    node: SchemaNode
    field: FieldModel
    inline: tuple[FieldSpec, ...] | None = None


def is_class_name(text: str) -> bool:
    return bool(_CLASS_NAME.fullmatch(text))


def class_name(node: SchemaNode) -> str:
    """The name of a message or struct, "" where there is none that will do."""
    name = node.required("name")
    if name is None:
        return ""
    if is_class_name(name):
        return name
    node.problem(f"{quote(name)} will not do as a name: a capital, then letters and digits", "name")
    return ""


def read_fields(node: SchemaNode, flexible: VersionRange, *, depth: int, common: bool = False) -> tuple[FieldSpec, ...]:
    """The fields of one struct, and those of the structs defined in them.

    Args:
        node: the object of the message or struct.
        flexible: the flexible versions of the message.
        depth: 1 for the message itself.
        common: whether the struct is one of the commonStructs.
    """
    specs = tuple(_read_field(inner, flexible, depth, common) for inner in node.nodes("fields"))
    _check_names(specs)
    _check_tags(specs)
    return specs


def _read_field(node: SchemaNode, flexible: VersionRange, depth: int, common: bool) -> FieldSpec:
    node.check_keys(FIELD_KEYS)
    name = node.required("name")
    if name is not None and not _FIELD_NAME.fullmatch(name):
        node.problem(f"{quote(name)} will not do as a name: a letter, then letters and digits", "name")
    of = _read_type(node)
    tagged = node.versions("taggedVersions") or NO_VERSIONS
    versions = node.versions("versions")
    if versions is None:
        if node.data.get("versions") is None:
            if of and of.kind == STRUCT and node.data.get("fields"):
                # Kafka: they are the versions of the struct, too; for other fields tagged ones will do.
                node.problem("the key 'versions' is missing: a field that defines a struct needs it, tagged or not")
            elif node.data.get("taggedVersions") is None:
                node.problem("the key 'versions' is missing")
        versions = tagged or ALL_VERSIONS
    elif not versions:
        # Kafka: as above, a field that is never read or written.
        node.problem("a field has at least one version", "versions")
        versions = ALL_VERSIONS
    nullable = _read_nullable(node, of, versions)
    own_flexible = _read_flexible(node, of, flexible)
    tag = _read_tag(node, of, versions, nullable, tagged, own_flexible)
    map_key, zero_copy = node.flag("mapKey"), node.flag("zeroCopy")
    if map_key and depth == 1 and not common:
        node.problem("a field of the message itself cannot be a key: only those of structs in an array", "mapKey")
    if map_key and tag is not None:
        node.problem("a tagged field cannot be a key", "mapKey")
    if zero_copy and of not in (None, FieldType(BYTES)):
        node.problem(f"is for bytes only, not for {of}", "zeroCopy")
    field = FieldModel(
        name=name or "",
        type=of or FieldType(STRING),
        versions=versions,
        default=_read_default(node, of, versions, nullable),
        nullable=nullable,
        tagged=tagged,
        tag=tag,
        ignorable=node.flag("ignorable"),
        map_key=map_key,
        zero_copy=zero_copy,
        entity_type=_read_entity_type(node, of),
        flexible=own_flexible,
        about=node.text("about") or "",
        aliases=node.texts("aliases"),
    )
    return FieldSpec(node, field, _read_inline(node, of, flexible, depth, common))


def _read_type(node: SchemaNode) -> FieldType | None:
    text = node.required("type")
    if text is None:
        return None
    name = text.strip()
    array = name.startswith("[]")
    if array:
        name = name[2:].strip()
    if name.startswith("[]"):
        node.problem("there are no arrays of arrays: take an array of structs with an array in them", "type")
    elif array and name == KIND_NAMES[RECORDS]:
        node.problem("there are no arrays of records", "type")
    elif name in _KINDS:
        return FieldType(_KINDS[name], array)
    elif is_class_name(name):
        return FieldType(STRUCT, array, name)
    else:
        node.problem(f"there is no type {quote(text)}{nearest(name, _KINDS)}", "type")
    return None


def _read_nullable(node: SchemaNode, of: FieldType | None, versions: VersionRange) -> VersionRange:
    nullable = node.versions("nullableVersions") or NO_VERSIONS
    if nullable and of and not (of.array or of.kind in NULLABLE_KINDS):
        node.problem(f"{of} cannot be null", "nullableVersions")
    elif nullable and not nullable & versions:
        # Kafka: the field is never null.
        node.problem(f"{nullable} has no version in common with the field's versions, {versions}", "nullableVersions")
    return nullable


def _read_flexible(node: SchemaNode, of: FieldType | None, message: VersionRange) -> VersionRange:
    own = node.versions("flexibleVersions")
    if own is None:
        return message
    if of not in (None, FieldType(STRING), FieldType(BYTES)):
        node.problem(f"only string and bytes can have their own, not {of}", "flexibleVersions")
    elif not message.covers(own):
        node.problem(f"{own} is not within the message's, {message}", "flexibleVersions")
    return own


def _read_tag(
    node: SchemaNode,
    of: FieldType | None,
    versions: VersionRange,
    nullable: VersionRange,
    tagged: VersionRange,
    flexible: VersionRange,
) -> int | None:
    tag = node.integer("tag", 2**31 - 1)
    if tag is None:
        if tagged and node.data.get("tag") is None:
            node.problem("taggedVersions needs a tag")
        return tag
    if not tagged:
        if node.data.get("taggedVersions") in (None, "none"):
            node.problem("a tag needs taggedVersions")
    elif not tagged.open_ended:
        node.problem(f"{tagged} must have an open end, as in '{tagged.low}+'", "taggedVersions")
    elif not versions.covers(tagged):
        node.problem(f"{tagged} is not within the field's versions, {versions}", "taggedVersions")
    elif not flexible.covers(tagged):
        node.problem(f"{tagged} is not within the flexible versions, {flexible}", "taggedVersions")
    elif nullable & tagged not in (NO_VERSIONS, tagged):
        node.problem(f"all tagged versions ({tagged}) must be nullable, or none", "nullableVersions")
    if of == FieldType(RECORDS):
        node.problem("records cannot be tagged", "tag")
    return tag


def _read_default(node: SchemaNode, of: FieldType | None, versions: VersionRange, nullable: VersionRange) -> Default:
    text = node.text("default")
    if of is None:
        return None
    try:
        return default_value(text, of, nullable=nullable.covers(versions))
    except ValueError as error:
        node.problem(str(error), "default")
        return None


def _read_entity_type(node: SchemaNode, of: FieldType | None) -> str | None:
    text = node.text("entityType")
    if text is None or text == "unknown":
        return None
    kind = ENTITY_KINDS.get(text)
    if kind is None:
        node.problem(f"there is no entity type {quote(text)}{nearest(text, ENTITY_KINDS)}", "entityType")
    elif of and kind != of.kind:
        node.problem(f"{text} is for {KIND_NAMES[kind]}, not for {of}", "entityType")
    return text


def _read_inline(
    node: SchemaNode, of: FieldType | None, flexible: VersionRange, depth: int, common: bool
) -> tuple[FieldSpec, ...] | None:
    if node.data.get("fields") is None:
        return None
    if of and of.kind != STRUCT:
        # Kafka: refused, but for arrays, where they are ignored.
        node.problem(f"only structs have fields, not {of}", "fields")
        return None
    if common:
        # Kafka: this struct is not registered, and its class has no fields.
        node.problem("a common struct cannot define another one in place: move it to commonStructs", "fields")
        return None
    if depth == MAX_DEPTH:
        node.problem(f"structs are nested more than {MAX_DEPTH} deep", "fields")
        return None
    return read_fields(node, flexible, depth=depth + 1)


def _check_names(specs: tuple[FieldSpec, ...]) -> None:
    """No two fields of a struct may answer to one name. Kafka checks the names letter by letter only; but JSON keys
    differ from them in the first letter's case, and Python's snake_case in that of all.

    An older name may be that of another field in versions which this one does not have.
    """
    taken: dict[str, list[FieldSpec]] = {}
    for spec in specs:
        name = spec.field.name
        others = taken.setdefault(name.lower(), [])
        if name and others:
            spec.node.problem(f"{quote(name)} is the name of {others[0].node.path} already", "name")
        others.append(spec)
    for spec in specs:
        for alias in spec.field.aliases:
            if not _FIELD_NAME.fullmatch(alias):
                spec.node.problem(f"{quote(alias)} will not do as a name: a letter, then letters and digits", "aliases")
                continue
            others = taken.setdefault(alias.lower(), [])
            clash = next((other for other in others if other.field.versions & spec.field.versions), None)
            if clash is not None:
                spec.node.problem(f"{quote(alias)} is the name of {clash.node.path} already", "aliases")
            others.append(spec)


def _check_tags(specs: tuple[FieldSpec, ...]) -> None:
    taken: dict[int, SchemaNode] = {}
    for spec in specs:
        tag = spec.field.tag
        if tag is None:
            continue
        other = taken.setdefault(tag, spec.node)
        if other is not spec.node:
            spec.node.problem(f"{tag} is the tag of {other.path} already", "tag")
    missing = next(tag for tag in range(len(taken) + 1) if tag not in taken)
    above = min((tag for tag in taken if tag > missing), default=None)
    if above is not None:
        taken[above].problem(f"tags count from 0 without gaps: {above} is used, {missing} is not", "tag")
