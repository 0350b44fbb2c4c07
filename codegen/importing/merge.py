"""Two releases' schemas of one message -> one schema that describes every version of both.

Where both define something, the newest release counts. The older one adds the versions that the newest no longer
accepts, and the fields that only those versions carry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkawire.codegen.importing.facts import Schema
from kafkawire.codegen.versions import VersionRange
from kafkawire.wire.spec import json_name


class VersionGapError(ValueError):
    """Two schemas of a message leave versions out between theirs, which one schema cannot express.

    Attributes:
        message: its name.
        versions: those that no schema has, in order.
    """

    def __init__(self, message: str, versions: list[int]) -> None:
        named = f"version {versions[0]}" if len(versions) == 1 else f"versions {versions[0]} to {versions[-1]}"
        super().__init__(f"{message}: no input has {named}")
        self.message, self.versions = message, versions


def union(newest: Schema, older: Schema) -> Schema:
    """One schema for all versions of both; `newest` decides wherever the two differ.

    Raises ValueError, with the message's name, when no schema can express both.
    """
    if newest["type"] == "coordinator-key" and older["type"] != "coordinator-key":
        # The int16 before the key was its version up to 3.9 and is its apiKey since, with version 0 for all of them:
        # the numbers in `versions` mean different things, the bytes are the same.
        return newest
    if newest["validVersions"] == "none":
        return older
    valid, before = set(VersionRange.parse(newest["validVersions"])), set(VersionRange.parse(older["validVersions"]))
    dropped = before - valid
    both = valid | before
    if both and (missing := sorted(set(range(min(both), max(both))) - both)):
        raise VersionGapError(newest["name"], missing)
    lacks = _Lacks(both, dropped)
    try:
        out = newest | {"validVersions": str(VersionRange.of(both))}
        out["fields"] = _merge_fields(newest["fields"], older["fields"], lacks, structs_of(newest), structs_of(older))
        if "commonStructs" in newest:
            shared = structs_of(older)
            out["commonStructs"] = [
                struct | {"fields": _merge_fields(struct["fields"], shared.get(struct["name"], []), lacks, {}, {})}
                for struct in newest["commonStructs"]
            ]
    except ValueError as error:
        raise ValueError(f"{newest['name']}: {error}") from None
    return _with_aliases(out, older)


class _Lacks(NamedTuple):
    """The versions of the union, and those of them that the newest release dropped."""

    valid: set[int]
    dropped: set[int]

    def with_ignorable(self, field: Schema, old: Schema) -> Schema:
        """`field` with the older release's `ignorable` where it alone has the versions that lack the field:
        the flag has no effect in other versions (RequestHeader.ClientId, which version 0 lacks)."""
        carried = VersionRange.parse(field.get("versions") or field.get("taggedVersions") or "none")
        lacking = {version for version in self.valid if version not in carried}
        if not lacking or not lacking <= self.dropped or field.get("ignorable") == old.get("ignorable"):
            return field
        if old.get("ignorable"):
            return field | {"ignorable": True}
        return {key: value for key, value in field.items() if key != "ignorable"}


def _merge_fields(
    newest: list[Schema],
    older: list[Schema],
    lacks: _Lacks,
    newest_structs: dict[str, list[Schema]],
    older_structs: dict[str, list[Schema]],
) -> list[Schema]:
    """`newest` plus the fields that only `older` has, each cut to the dropped versions and at its old place.

    The cut is what keeps renamed fields and those of unfinished previews out: in versions that the newest release
    still reads, a field it does not name does not exist.
    """
    before = {_key(field): field for field in older}
    out = []
    for field in newest:
        old = before.get(_key(field))
        if old:
            field = lacks.with_ignorable(_with_aliases(field, old), old)
        if old and "fields" in field:
            old_fields = old.get("fields") or older_structs.get(element(old["type"]), [])
            merged = _merge_fields(field["fields"], old_fields, lacks, newest_structs, older_structs)
            field = field | {"fields": merged}
        elif old and lacks.dropped and "fields" in old and element(field["type"]) in newest_structs:
            raise ValueError(f"{field['name']}: an inline struct became a common one; its merge must be defined")
        out.append(field)
    kept = {_key(field) for field in newest}
    place = 0
    for field in older:
        if _key(field) in kept:
            place = 1 + next(i for i, other in enumerate(out) if _key(other) == _key(field))
        elif narrowed := narrow(field, lacks.dropped):
            out.insert(place, narrowed)
            place += 1
    return out


def narrow(field: Schema, to: set[int]) -> Schema | None:
    """`field` as it is in the versions `to` alone; None when none of them carries it."""
    out = dict(field)
    for key in ("versions", "nullableVersions", "taggedVersions"):
        if key in field:
            within = VersionRange.parse(field[key])
            out[key] = str(VersionRange.of(version for version in to if version in within))
            if out[key] == "none":
                del out[key]
    if "versions" not in out and "taggedVersions" not in out:
        return None
    if "fields" in field:
        out["fields"] = [kept for inner in field["fields"] if (kept := narrow(inner, to))]
    return out


def releases(newest_first: Iterable[dict[str, Schema]]) -> dict[str, Schema]:
    """The union of whole releases, each a message's name -> its schema.

    Its `validVersions` is "none" where no release has a version of a message: 4.x keeps the names of those it dropped.
    """
    out: dict[str, Schema] = {}
    for release in newest_first:
        for name, schema in release.items():
            out[name] = union(out[name], schema) if name in out else schema
    return out


def element(type_name: str) -> str:
    """The name of a field's type, or of its elements' type when it is an array."""
    return type_name.removeprefix("[]").strip()


def structs_of(schema: Schema) -> dict[str, list[Schema]]:
    """The common structs' fields, by name."""
    return {struct["name"]: struct["fields"] for struct in schema.get("commonStructs", [])}


def _with_aliases(newest: Schema, older: Schema) -> Schema:
    """`newest` with the earlier names that `older` (a union that was imported before) has and it lacks."""
    lacking = [alias for alias in older.get("aliases", []) if alias not in newest.get("aliases", [])]
    return newest | {"aliases": [*newest.get("aliases", []), *lacking]} if lacking else newest


def _key(field: Schema) -> str:
    # The first letter's case changed now and then (OffsetFetchRequest's groupId) and distinguishes no two fields.
    return json_name(field["name"])
