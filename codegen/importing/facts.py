"""A schema as Kafka writes it -> its facts, in one spelling."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
"""A message, struct or field: the JSON object as Kafka writes it."""

_RANGES = ("validVersions", "flexibleVersions", "deprecatedVersions", "versions", "nullableVersions", "taggedVersions")
_LISTS = ("aliases", "listeners")


def facts(schema: Schema, *, prose: bool = False) -> Schema:
    """`schema` in one spelling: tags are numbers, ranges text, flags that are off left out; `about` only with `prose`.

    `default` stays exactly as Kafka has it: the string "null" makes the default null, the literal null counts as no
    default at all. What is no value of the schema language stays too, for the compiler to find.
    """
    out: Schema = {}
    for key, value in schema.items():
        if (key == "about" and not prose) or (value is False and key != "default"):
            continue
        if key in ("fields", "commonStructs"):
            inner = [value] if isinstance(value, dict) else value
            value = [facts(one, prose=prose) for one in inner] if _objects(inner) else value
        elif key == "tag" and isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
            value = int(value)
        elif key in _LISTS and isinstance(value, str):
            value = [value]
        elif key in _RANGES and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        out[key] = value
    return out


def _objects(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, dict) for one in value)
