"""The differences of two sets of messages: each change from old to new, and whether it breaks programs that use the
old.

The rules are those of Kafka's own checker (EvolutionVerifier and Unifier in its generator): api key and type stay, the
highest version never decreases, the flexible versions never shrink, and no field of a released version appears,
disappears, moves, or changes its type, nullability, tag or default. In addition, the bytes of a version that both sets
have are compared on lowered layouts (`shape`), whatever the schemas look like. Kafka's checker compares names; here a
field at the same place with the same shape under another name counts as renamed, which changes no byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from kafkawire.codegen.lower import field_spec
from kafkawire.codegen.model import EMPTY_STRUCT, FieldModel, MessageModel, StructModel
from kafkawire.codegen.shape import Comparison, became_key, bytes_code, same_versions
from kafkawire.codegen.versions import VersionRange, runs
from kafkawire.wire.layout import RECORDS
from kafkawire.wire.lowering import op_code
from kafkawire.wire.spec import json_name

#: Changes that are whole messages.
ADDED, REMOVED = "message added", "message removed"
#: Changes that explain why the bytes of a version differ.
_OF_BYTES = ("field added", "field removed", "field retyped", "nullable", "tag", "flexible versions")
#: Kinds whose version is agreed on between two peers before they use it: low versions may go.
_NEGOTIATED = ("request", "response", "header")


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change of a message.

    Attributes:
        message: its name, that of the new schemas.
        what: `message added`, `field retyped`, ... in a few words.
        versions: the versions that are concerned; "" where the message is as a whole.
        field: the field's path, names joined by dots; "" for the message.
        old, new: what there was and what there is.
        compatible: whether programs that read or write with the old schema keep working.
        why: why not, or a note on the change.
    """

    message: str
    what: str
    versions: str = ""
    field: str = ""
    old: str = ""
    new: str = ""
    compatible: bool = True
    why: str = ""


def compare(
    old: Iterable[MessageModel], new: Iterable[MessageModel], new_name: Callable[[str], str] = lambda name: name
) -> Iterator[SchemaChange]:
    """The changes from one set of schemas to another, by message in the order of names.

    Args:
        old, new: the messages of both.
        new_name: gives today's name of a message that was renamed, as the aliases in `new` do.
    """
    before, after = {message.name: message for message in old}, {message.name: message for message in new}
    aliases = {alias: message.name for message in after.values() for alias in message.aliases}
    pairs: dict[str, tuple[MessageModel | None, MessageModel | None]] = {
        name: (None, message) for name, message in after.items()
    }
    for name, message in before.items():
        now = name if name in after else aliases.get(name, new_name(name))
        taken = now != name and now in before
        pairs[name if taken else now] = message, None if taken else after.get(now)
    for name in sorted(pairs):
        one, other = pairs[name]
        if one is None:
            assert other is not None
            yield SchemaChange(name, ADDED, str(other.valid))
        elif other is None:
            yield SchemaChange(name, REMOVED, str(one.valid), compatible=False, why="the new schemas do not have it")
        else:
            yield from _message(one, other)


# Messages ------------------------------------------------------------------------------------------------------------


def _message(old: MessageModel, new: MessageModel) -> Iterator[SchemaChange]:
    name = new.name
    if old.name != name:
        yield SchemaChange(name, "message renamed", old=old.name, new=name, why="no byte of it names a message")
    changes = []
    if became_key(new, old):
        why = "the int16 before the key was its version, and is its api key"
        yield SchemaChange(name, "version became api key", old=str(old.valid), new=str(new.api_key), why=why)
    else:
        yield from _attributes(old, new)
        changes += list(_versions(old, new))
    same = list(same_versions(new, old))
    walk = _DiffWalk(old, new, same)
    changes += walk.structs(old.root, new.root, "", frozenset(after for after, _ in same))
    yield from changes
    yield from _unexplained(old, new, same, changes)


def _attributes(old: MessageModel, new: MessageModel) -> Iterator[SchemaChange]:
    if old.kind != new.kind:
        yield SchemaChange(
            new.name, "type", old=old.kind, new=new.kind, compatible=old.kind == "data", why=_kind_why(old)
        )
    if old.api_key != new.api_key:
        known = old.api_key is not None
        why = "it identifies requests and records" if known else ""
        yield SchemaChange(
            new.name, "api key", old=_text(old.api_key), new=_text(new.api_key), compatible=not known, why=why
        )
    if set(old.listeners) != set(new.listeners):
        yield SchemaChange(new.name, "listeners", old=", ".join(old.listeners), new=", ".join(new.listeners))
    if old.latest_version_unstable != new.latest_version_unstable:
        was, now = (_flag(message.latest_version_unstable) for message in (old, new))
        yield SchemaChange(new.name, "latest version unstable", old=was, new=now)


def _kind_why(old: MessageModel) -> str:
    return "no byte shows it" if old.kind == "data" else "it is used in other places"


def _versions(old: MessageModel, new: MessageModel) -> Iterator[SchemaChange]:
    shared = old.valid & new.valid
    for gone in runs(version for version in old.valid if version not in new.valid):
        agreed = bool(shared) and gone.high < shared.low and old.kind in _NEGOTIATED
        why = f"peers agree on {shared} instead" if agreed else "what is written in it can no longer be read"
        why = why if shared else "no version is left that both know"
        yield SchemaChange(new.name, "versions removed", str(gone), compatible=agreed, why=why)
    for come in runs(version for version in new.valid if version < old.valid.low):
        yield SchemaChange(new.name, "versions added", str(come), why="below the old ones: Kafka's checker refuses it")
    for version in new.valid:
        if version > old.valid.high:
            yield from _added_version(new, version)
    was, now = old.flexible & shared, new.flexible & shared
    for versions in runs(version for version in shared if (version in was) != (version in now)):
        why = "strings, arrays and the ends of structs are written otherwise"
        yield SchemaChange(new.name, "flexible versions", str(versions), "", str(was), str(now), False, why)


def _added_version(new: MessageModel, version: int) -> Iterator[SchemaChange]:
    """The changes of a version that is not released yet, compared with the version before it."""
    if version - 1 not in new.valid:
        yield SchemaChange(new.name, "version added", str(version))
        return
    flexible = version in new.flexible and version - 1 not in new.flexible
    changes = _DiffWalk(new, new, [(version, version - 1)]).structs(new.root, new.root, "", frozenset([version]))
    same = not flexible and not changes
    says = f"the bytes of {version - 1}" if same else "the first flexible one" if flexible else ""
    yield SchemaChange(new.name, "version added", str(version), new=says)
    for change in changes:
        yield replace(change, compatible=True, why="")


def _unexplained(
    old: MessageModel, new: MessageModel, same: list[tuple[int, int]], changes: list[SchemaChange]
) -> Iterator[SchemaChange]:
    """Versions whose bytes differ without another change: the same fields in another order."""
    explained = {version for change in changes if change.what in _OF_BYTES for version in _numbers(change.versions)}
    comparison = Comparison(new, old)
    differ = (now for now, was in same if now not in explained and not comparison.extends(now, was))
    for versions in runs(differ):
        yield SchemaChange(new.name, "layout", str(versions), compatible=False, why="the same fields in another order")


# Fields --------------------------------------------------------------------------------------------------------------


class _DiffWalk:
    """Compares the fields of a message, struct by struct, in the versions that both have.

    Versions are those of the new message; `was` has the old one's number for each (they differ for coordinator keys).
    """

    def __init__(self, old: MessageModel, new: MessageModel, same: list[tuple[int, int]]) -> None:
        self.old, self.new = old, new
        self.was = dict(same)
        self.seen: set[tuple[str, str, frozenset[int]]] = set()

    def structs(self, old: StructModel, new: StructModel, path: str, shared: frozenset[int]) -> list[SchemaChange]:
        """The changes below `path` in the `shared` versions; of a common struct, where it first stands."""
        key = old.name, new.name, shared
        if key in self.seen:
            return []
        self.seen.add(key)
        pairs = self._pairs(old, new, shared)
        out: list[SchemaChange] = []
        for before, after in pairs:
            if before is None:
                assert after is not None
                late = [now for now in sorted(shared) if now in after.versions]
                out += self._appeared(after, path + after.name, late)
            elif after is None:
                gone = [now for now in sorted(shared) if self.was[now] in before.versions]
                out += self._removed(before, path + before.name, gone)
            else:
                out += self._fields(before, after, path + after.name, shared)
        return out

    def _pairs(
        self, old: StructModel, new: StructModel, shared: frozenset[int]
    ) -> list[tuple[FieldModel | None, FieldModel | None]]:
        """The fields of both, matched: by name, by an alias that `new` has for the field, and else by place."""
        left = {json_name(field.name): field for field in old.fields}
        match: dict[str, FieldModel] = {}

        def take(field: FieldModel, name: str, *, together: bool = True) -> None:
            other = left.get(json_name(name))
            if field.name not in match and other is not None and (not together or self._meet(other, field, shared)):
                match[field.name] = left.pop(json_name(name))

        for field in new.fields:  # a name may have gone to another field: then the two share no version
            take(field, field.name, together=old is not new)
        for field in new.fields:
            for alias in field.aliases:
                take(field, alias)
        places = self._places(old, sorted(self.was[version] for version in shared))
        by_place = {places[field.name]: field for field in left.values() if field.name in places}
        places = self._places(new, sorted(shared))
        for field in new.fields:
            if field.name in places and (found := by_place.get(places[field.name])) is not None:
                take(field, found.name)
        for field in new.fields:
            take(field, field.name, together=False)
        pairs: list[tuple[FieldModel | None, FieldModel | None]] = [
            (match.get(field.name), field) for field in new.fields
        ]
        return pairs + [(field, None) for field in left.values()]

    def _meet(self, old: FieldModel, new: FieldModel, shared: frozenset[int]) -> bool:
        return any(now in new.versions and self.was[now] in old.versions for now in shared)

    @staticmethod
    def _places(struct: StructModel, versions: list[int]) -> dict[str, tuple[object, ...]]:
        """For each field's name, its place and its type by version."""
        out: dict[str, list[object]] = {}
        for index, version in enumerate(versions):
            place = 0
            for field in struct.fields:
                if version not in field.versions:
                    continue
                where = f"tag {field.tag}" if version in field.tagged else place
                place += version not in field.tagged
                out.setdefault(field.name, []).append((index, where, _code(field, version)))
        return {name: tuple(entries) for name, entries in out.items()}

    def _appeared(self, field: FieldModel, path: str, versions: list[int]) -> Iterator[SchemaChange]:
        what, text = "field added", _describe(field)
        tagged = [version for version in versions if version in field.tagged]
        plain = [version for version in versions if version not in field.tagged]
        yield from self._incompatible(what, path, plain, "", text, "the version was released without it")
        why = "tagged: readers that do not know it skip it"
        yield from (
            replace(change, compatible=True) for change in self._incompatible(what, path, tagged, "", text, why)
        )

    def _removed(self, field: FieldModel, path: str, versions: list[int]) -> Iterator[SchemaChange]:
        yield from self._incompatible(
            "field removed", path, versions, _describe(field), "", "the version was released with it"
        )

    def _fields(self, old: FieldModel, new: FieldModel, path: str, shared: frozenset[int]) -> Iterator[SchemaChange]:
        name = self.new.name
        late = [now for now in sorted(shared) if now in new.versions and self.was[now] not in old.versions]
        gone = [now for now in sorted(shared) if now not in new.versions and self.was[now] in old.versions]
        both = [now for now in sorted(shared) if now in new.versions and self.was[now] in old.versions]
        yield from self._appeared(new, path, late)
        yield from self._removed(old, path, gone)
        if not both:
            return
        if json_name(old.name) != json_name(new.name):
            why = "the same bytes at the same place; JSON shows the name"
            yield SchemaChange(name, "field renamed", _joined(both), path, old.name, new.name, why=why)
        if bytes_code(old.type.kind) != bytes_code(new.type.kind) or old.type.array != new.type.array:
            yield from self._incompatible("field retyped", path, both, str(old.type), str(new.type), "the bytes differ")
        elif str(old.type) != str(new.type):
            yield SchemaChange(
                name, "field retyped", _joined(both), path, str(old.type), str(new.type), why="the same bytes"
            )
        yield from self._marks(old, new, path, both)
        retyped = (old.type.kind, old.type.array) != (new.type.kind, new.type.array)  # another type, another default
        if old.default != new.default and not retyped and old.type.kind != RECORDS:  # which no schema gives one
            texts = _text(old.default, "null"), _text(new.default, "null")
            why = "a message without it means another value"
            yield SchemaChange(name, "default", _joined(both), path, *texts, compatible=False, why=why)
        yield from self._flags(old, new, path)
        if old.type.struct and new.type.struct:
            structs = self.old.struct(old.type.struct), self.new.struct(new.type.struct)
            yield from self.structs(*structs, f"{path}.", frozenset(both))

    def _marks(self, old: FieldModel, new: FieldModel, path: str, both: list[int]) -> Iterator[SchemaChange]:
        """Changes of a field's properties that depend on the version: nullability, tag, compact or not."""
        more = [now for now in both if now in new.nullable and self.was[now] not in old.nullable]
        less = [now for now in both if now not in new.nullable and self.was[now] in old.nullable]
        yield from self._incompatible(
            "nullable", path, more, "no", "yes", "readers of the old schema cannot read a null"
        )
        yield from self._incompatible(
            "nullable", path, less, "yes", "no", "a null of a writer of the old schema cannot be read"
        )
        tags = {now: (_tag(old, self.was[now]), _tag(new, now)) for now in both}
        for versions in runs(now for now in both if tags[now][0] != tags[now][1]):
            was, now = (_text(tag, "none") for tag in tags[versions.low])
            why = "it is written in another place"
            yield SchemaChange(self.new.name, "tag", str(versions), path, was, now, compatible=False, why=why)
        compact = [
            now
            for now in both
            if (now in new.flexible) != (self.was[now] in old.flexible)
            and (now in self.new.flexible) == (self.was[now] in self.old.flexible)  # else it is the whole message's
        ]
        before, after = str(old.flexible), str(new.flexible)
        yield from self._incompatible(
            "flexible versions", path, compact, before, after, "its length is written otherwise"
        )

    def _flags(self, old: FieldModel, new: FieldModel, path: str) -> Iterator[SchemaChange]:
        """Changes of properties that are not on the wire."""
        for what, was, now in (
            ("ignorable", _flag(old.ignorable), _flag(new.ignorable)),
            ("map key", _flag(old.map_key), _flag(new.map_key)),
            ("entity type", _text(old.entity_type), _text(new.entity_type)),
        ):
            if was != now:
                yield SchemaChange(self.new.name, what, "", path, was, now)

    def _incompatible(
        self, what: str, path: str, versions: list[int], old: str, new: str, why: str
    ) -> Iterator[SchemaChange]:
        """An incompatible change, for each run of versions."""
        for run in runs(versions):
            yield SchemaChange(self.new.name, what, str(run), path, old, new, False, why)


# Words ---------------------------------------------------------------------------------------------------------------


def _code(field: FieldModel, version: int) -> int:
    """The code of a field's type on the wire."""
    return bytes_code(op_code(field_spec(field), version, version in field.flexible))


def _tag(field: FieldModel, version: int) -> int | None:
    return field.tag if version in field.tagged else None


def _describe(field: FieldModel) -> str:
    return str(field.type) + (f", tag {field.tag}" if field.tag is not None else "")


def _text(value: object, nothing: str = "") -> str:
    if value is None:
        return nothing
    return "empty" if value == () or value is EMPTY_STRUCT else str(value)


def _flag(value: bool) -> str:
    return "yes" if value else "no"


def _joined(versions: Iterable[int]) -> str:
    return ", ".join(map(str, runs(versions)))


def _numbers(text: str) -> Iterator[int]:
    for part in text.split(", ") if text else ():
        yield from VersionRange.parse(part)
