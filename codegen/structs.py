"""The structs of one message: which structs use which, in which versions, and their ranges cut to those versions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkawire.codegen.model import FieldModel, StructModel
from kafkawire.codegen.reading import SchemaNode, nearest
from kafkawire.codegen.rules import FieldSpec, class_name, read_fields
from kafkawire.codegen.versions import ALL_VERSIONS, NO_VERSIONS, VersionRange
from kafkawire.wire.layout import KIND_NAMES
from kafkawire.wire.limits import MAX_DEPTH

STRUCT_KEYS = ("name", "versions", "deprecatedVersions", "about", "fields")


@dataclass(frozen=True, slots=True)
class UncutStruct:
    """A struct before its ranges are cut. `limit`: the versions that a common struct states."""

    node: SchemaNode
    name: str
    fields: tuple[FieldSpec, ...]
    limit: VersionRange = ALL_VERSIONS
    about: str = ""


def resolve_structs(
    node: SchemaNode, name: str, valid: VersionRange, flexible: VersionRange
) -> tuple[StructModel, tuple[StructModel, ...]]:
    """The message's own struct and the nested ones, each before those that use it, for the schema `node`.

    Only what some version of `valid` carries is in them. The result is of use only if no problem was noted.

    Args:
        node: the object of the message.
        name: of the message.
        valid, flexible: its versions.
    """
    root = UncutStruct(node, name, read_fields(node, flexible, depth=1))
    common = [_read_common(inner, valid, flexible) for inner in node.nodes("commonStructs")]
    registry = _register(root, common)
    order = _Order(registry)
    order.visit(root)
    for struct in common:
        order.visit(struct)
    if order.broken:
        return StructModel(name, (), valid), ()
    versions = _versions_of_use(root, valid, registry, order.users_last)
    for struct in order.users_last:
        for spec in struct.fields:
            _check_sent(spec, versions[struct.name] or struct.limit & valid, valid)
    cut = {spec.name: _cut(spec, versions[spec.name]) for spec in order.users_last if versions[spec.name]}
    own = cut.pop(root.name)
    return own, tuple(cut.values())


def _read_common(node: SchemaNode, valid: VersionRange, flexible: VersionRange) -> UncutStruct:
    node.check_keys(STRUCT_KEYS)
    name = class_name(node)
    if node.data.get("versions") is None:
        node.problem("the key 'versions' is missing")
    stated = node.versions("versions")
    limit = stated or ALL_VERSIONS
    if stated is not None and not stated & valid:
        # Kafka: refused, whether the struct is used or not.
        node.problem(f"{stated} has no version in common with those of the message, {valid}", "versions")
        limit = ALL_VERSIONS
    elif valid.high < limit.high and not limit.open_ended:
        node.warn(f"{limit} goes beyond the message, which ends with version {valid.high}", "versions")
    node.versions("deprecatedVersions")
    fields = read_fields(node, flexible, depth=1, common=True)
    if node.data.get("fields") in (None, []):
        node.problem(f"the struct {name} has no fields")
    return UncutStruct(node, name, fields, limit, node.text("about") or "")


def _register(root: UncutStruct, common: list[UncutStruct]) -> dict[str, UncutStruct]:
    """Every struct by its name. One name, one definition: Kafka checks it too, but lets a struct that is defined
    nowhere through as one without fields."""
    registry = {"": root, root.name: root}
    shared: dict[str, UncutStruct] = {}
    for struct in common:
        if struct.name and struct.name in registry:
            _problem_twice(struct.node, "name", registry[struct.name])
        registry.setdefault(struct.name, struct)
        shared.setdefault(struct.name, struct)
    for spec in _fields_within(root.fields):
        name = spec.field.type.struct
        if name is None or spec.inline is None:
            continue
        if name in registry and (spec.inline or name not in shared):
            # (An empty list of fields beside a common struct's name is none.)
            _problem_twice(spec.node, "type", registry[name])
        elif name not in registry:
            if spec.node.data["fields"] == []:
                spec.node.problem(f"the struct {name} has no fields", "fields")
            registry[name] = UncutStruct(spec.node, name, spec.inline)
    everywhere = [*_fields_within(root.fields), *(spec for struct in common for spec in struct.fields)]
    for spec in everywhere:
        name = spec.field.type.struct
        if name is None or spec.node.data.get("fields") is not None:
            continue
        if name not in registry:
            suggestion = nearest(name, [*registry, *KIND_NAMES[:-1]])
            spec.node.problem(f"the struct {name} is defined nowhere{suggestion}", "type")
        elif name not in shared and name != root.name:
            definition = _path_of(registry[name])
            spec.node.problem(f"the struct {name} is used twice: move it from {definition} to commonStructs", "type")
    return registry


def _fields_within(fields: tuple[FieldSpec, ...]) -> Iterator[FieldSpec]:
    """The fields and those of the structs that are defined in them, in the order of the file."""
    for spec in fields:
        yield spec
        yield from _fields_within(spec.inline or ())


def _problem_twice(node: SchemaNode, key: str, other: UncutStruct) -> None:
    node.problem(f"there is a struct {other.name} already: {_path_of(other)}", key)


def _path_of(struct: UncutStruct) -> str:
    return struct.node.path or "the message itself"


def _used_by(spec: FieldSpec, registry: dict[str, UncutStruct]) -> UncutStruct | None:
    """The struct that is a field's type; None for other types and where it was a problem to find it."""
    used = registry.get(spec.field.type.struct) if spec.field.type.struct else None
    if used is not None and spec.inline and used.fields is not spec.inline:
        return None
    return used


class _Order:
    """Walks from users to what they use: finds circles and structs that are nested too deeply."""

    def __init__(self, registry: dict[str, UncutStruct]) -> None:
        self._registry = registry
        self._heights: dict[str, int] = {}
        self._path: list[str] = []
        self._too_deep = False
        self.users_last: list[UncutStruct] = []
        self.broken = False

    def visit(self, struct: UncutStruct) -> int:
        """How many levels of structs there are in `struct`, itself included."""
        if struct.name in self._heights:
            return self._heights[struct.name]
        self._path.append(struct.name)
        height = 1
        for spec in struct.fields:
            used = _used_by(spec, self._registry)
            if used is None:
                continue
            if used.name in self._path:
                circle = [*self._path[self._path.index(used.name) :], used.name]
                spec.node.problem(f"a struct cannot hold itself: {' > '.join(circle)}", "type")
                self.broken = True
                continue
            below = self.visit(used) if len(self._path) < MAX_DEPTH else 1
            height = max(height, 1 + below)
            if len(self._path) + below > MAX_DEPTH and not self._too_deep:
                spec.node.problem(f"structs are nested more than {MAX_DEPTH} deep", "type")
                self._too_deep = self.broken = True
        self._path.pop()
        self._heights[struct.name] = height
        self.users_last.append(struct)
        return height


def _versions_of_use(
    root: UncutStruct, valid: VersionRange, registry: dict[str, UncutStruct], users_last: list[UncutStruct]
) -> dict[str, VersionRange]:
    """For each struct the versions of the places where it is used; a range, so gaps between them are filled."""
    versions = dict.fromkeys((struct.name for struct in users_last), NO_VERSIONS) | {root.name: valid}
    for struct in reversed(users_last):
        for spec in struct.fields:
            used = _used_by(spec, registry)
            if used is None:
                continue
            here = spec.field.versions & versions[struct.name]
            if not used.limit.covers(here):
                # Kafka: the class of the struct refuses those versions when it is read or written.
                spec.node.problem(
                    f"the struct {used.name} has versions {used.limit}, and is used in {here} here", "type"
                )
            versions[used.name] = versions[used.name].hull(here)
    return versions


def _cut(struct: UncutStruct, versions: VersionRange) -> StructModel:
    fields = tuple(_cut_field(spec.field, versions) for spec in struct.fields if spec.field.versions & versions)
    return StructModel(struct.name, fields, versions, struct.about)


def _check_sent(spec: FieldSpec, versions: VersionRange, valid: VersionRange) -> None:
    """A problem where no version of the struct, which has `versions`, carries the field; a warning where a stated one
    above them does not exist. Versions below the `valid` ones are those that the message has dropped; a struct that
    only they have is a class without a version, which Kafka refuses to generate."""
    stated = spec.field.versions
    if stated.high < valid.low and not spec.inline:
        return
    key = "versions" if "versions" in spec.node.data else "taggedVersions"
    if not stated & versions:
        # Kafka: the class has a field that is never read or written.
        spec.node.problem(f"{stated} has no version in common with those of its struct, {versions}", key)
    elif stated.high > versions.high and not stated.open_ended:
        never = VersionRange(max(stated.low, versions.high + 1), stated.high)
        spec.node.warn(f"the field is never sent in {never}: its struct ends with version {versions.high}", key)
    for key, part in (("nullableVersions", spec.field.nullable), ("taggedVersions", spec.field.tagged)):
        if part.low > versions.high and part & stated:
            spec.node.warn(f"{part} has no effect: its struct ends with version {versions.high}", key)


def _cut_field(field: FieldModel, to: VersionRange) -> FieldModel:
    versions = field.versions & to
    nullable = field.nullable & versions
    return replace(
        field,
        versions=versions,
        # Records that are null by default and may never be: a value of Kafka's classes that cannot be written.
        default=b"" if field.default is None and not nullable else field.default,
        nullable=nullable,
        tagged=field.tagged & versions,
        flexible=field.flexible & versions,
    )
