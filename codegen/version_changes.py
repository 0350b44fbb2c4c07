"""The changes of each version of a message: fields that were added, removed or made nullable, and when it became
flexible."""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.codegen.model import FieldModel, MessageModel, StructModel

#: A change: what happened, and the paths of the fields that it happened to.
Change = tuple[str, list[str]]

ADDED, DROPPED, NULLABLE, NOT_NULLABLE, TAGGED = "adds", "drops", "may be null", "may not be null", "become tagged"
FLEXIBLE = "compact lengths and tagged fields (flexible)"


def changes(message: MessageModel) -> dict[int, list[Change]]:
    """Each version after the first -> what it changed; an empty list where it has the layout of the one before."""
    out: dict[int, list[Change]] = {}
    for version in list(message.valid)[1:]:
        found: dict[str, list[str]] = {}
        for what, path in _of_struct(message, message.root, version, "", set()):
            found.setdefault(what, []).append(path)
        out[version] = list(found.items())
        if message.flexible and message.flexible.low == version:
            out[version].append((FLEXIBLE, []))
    return out


def _of_struct(
    message: MessageModel, struct: StructModel, version: int, above: str, seen: set[str]
) -> Iterator[tuple[str, str]]:
    """The changes of a struct's fields; a struct that was added, removed or compared before is not compared again."""
    for field in struct.fields:
        path = above + field.name
        change = _of_field(field, version)
        if change:
            yield change, path
        nested = field.type.struct
        if nested and nested not in seen and change not in (ADDED, DROPPED) and version in field.versions:
            seen.add(nested)
            yield from _of_struct(message, message.struct(nested), version, f"{path}.", seen)


def _of_field(field: FieldModel, version: int) -> str:
    now, before = version in field.versions, version - 1 in field.versions
    if now != before:
        return ADDED if now else DROPPED
    if not now:
        return ""
    if (version in field.nullable) != (version - 1 in field.nullable):
        return NULLABLE if version in field.nullable else NOT_NULLABLE
    return TAGGED if version in field.tagged and version - 1 not in field.tagged else ""
