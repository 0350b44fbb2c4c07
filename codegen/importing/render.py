"""A schema -> the text of its file: a message's keys one a line, one field a line, in one order."""

from __future__ import annotations

import json
from typing import Any

from kafkawire.codegen.importing.facts import Schema
from kafkawire.codegen.resolve import MESSAGE_KEYS
from kafkawire.codegen.rules import FIELD_KEYS
from kafkawire.codegen.structs import STRUCT_KEYS


def message(schema: Schema) -> str:
    """The whole file; raises ValueError for a key that the schema language does not have."""
    lines = []
    for key, value in _in_order(schema, MESSAGE_KEYS):
        if key == "fields":
            value = _block([_entry(field, FIELD_KEYS, "    ") for field in value], "  ")
        elif key == "commonStructs":
            value = _block([_entry(struct, STRUCT_KEYS, "    ") for struct in value], "  ")
        else:
            value = _json(value)
        lines.append(f"  {_json(key)}: {value}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _entry(entry: Schema, keys: tuple[str, ...], indent: str) -> str:
    """A field or struct on one line; a sentence and the fields within go to lines of their own."""
    parts = []
    for key, value in _in_order(entry, keys):
        if key == "fields":
            parts.append(f' "fields": {_block([_entry(inner, FIELD_KEYS, indent + "  ") for inner in value], indent)}')
        elif key == "about":
            parts.append(f"\n{indent}  {_json(key)}: {_json(value)}")
        else:
            parts.append(f" {_json(key)}: {_json(value)}")
    return indent + "{" + ",".join(parts).lstrip() + "}"


def _block(entries: list[str], indent: str) -> str:
    return "[\n" + ",\n".join(entries) + f"\n{indent}]" if entries else "[]"


def _in_order(schema: Schema, keys: tuple[str, ...]) -> list[tuple[str, Any]]:
    unknown = schema.keys() - set(keys)
    if unknown:
        raise ValueError(f"{schema.get('name')}: unknown keys {', '.join(sorted(unknown))}")
    return [(key, schema[key]) for key in keys if key in schema]


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
