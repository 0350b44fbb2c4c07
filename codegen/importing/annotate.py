"""The annotations that this project adds to imported schemas: aliases and `about` sentences, found by a field's
path."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from kafkawire.codegen.importing.facts import Schema
from kafkawire.codegen.importing.merge import element, structs_of


def aliased(schema: Schema, names: list[str], fields: Mapping[str, list[str]], *, everywhere: bool = True) -> Schema:
    """`schema` with its earlier names and those of its fields.

    Args:
        schema: of a message.
        names: of the message.
        fields: path of a field, names joined by dots -> its earlier names.
        everywhere: False passes over paths that lead nowhere: a release may be older than the new name.

    Raises:
        ValueError: a path leads nowhere.

    Raises ValueError when a path leads nowhere, unless `everywhere` is off: a release may be older than the new name.
    """
    out = deepcopy(schema)
    if names:
        out["aliases"] = _joined(names, out)
    for path, old_names in fields.items():
        try:
            field = _find(out, path)
        except ValueError:
            if everywhere:
                raise
            continue
        field["aliases"] = _joined(old_names, field)
    return out


def described(schema: Schema, about: str, fields: Mapping[str, str]) -> Schema:
    """`schema` with our sentences on itself and on its fields.

    Args:
        schema: of a message.
        about: on the message; empty: none.
        fields: path of a field, names joined by dots -> the sentence.

    Raises:
        ValueError: a path leads nowhere, or two paths give the field of a common struct two sentences.

    Raises ValueError when a path leads nowhere, or when two paths give the field of a common struct two sentences.
    """
    out = deepcopy(schema)
    if about:
        out["about"] = about
    for path, text in fields.items():
        field = _find(out, path)
        if field.setdefault("about", text) != text:
            raise ValueError(f"{schema['name']}.{path}: the field of a common struct is described twice")
    return out


def _joined(names: list[str], entry: Schema) -> list[str]:
    return list(dict.fromkeys([*names, *entry.get("aliases", [])]))


def _find(schema: Schema, path: str) -> Schema:
    """The field at `path`, names joined by dots."""
    structs = structs_of(schema)
    fields: list[Schema] = schema["fields"]
    *above, last = path.split(".")
    for name in above:
        field = _named(schema, fields, name, path)
        fields = field.get("fields") or structs.get(element(field["type"]), [])
    return _named(schema, fields, last, path)


def _named(schema: Schema, fields: list[Schema], name: str, path: str) -> Schema:
    for field in fields:
        if field["name"] == name:
            return field
    raise ValueError(f"{schema['name']}.{path}: there is no field {name}")
