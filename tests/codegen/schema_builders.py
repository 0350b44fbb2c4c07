"""Small schemas: each is without mistakes until a key is given another value."""

import json
from typing import Any

from kafkawire.codegen.load import RawSchema, load_text

Schema = dict[str, Any]


def message(*fields: Any, **keys: Any) -> Schema:
    """A message of `fields`, with `keys` in place of its own; a key that is ... is left out."""
    schema = {
        "name": "Foo",
        "type": "data",
        "validVersions": "0-3",
        "flexibleVersions": "2+",
        "fields": list(fields),
    } | keys
    return {key: value for key, value in schema.items() if value is not ...}


def request(**keys: Any) -> Schema:
    return message(**{"name": "FooRequest", "type": "request", "apiKey": 1} | keys)


def field(**keys: Any) -> Schema:
    """An int32 in all versions."""
    values = {"name": "One", "type": "int32", "versions": "0+"} | keys
    return {key: value for key, value in values.items() if value is not ...}


def tagged(**keys: Any) -> Schema:
    """A field that is tagged in all flexible versions of `message`."""
    return field(**{"tag": 0, "versions": "2+", "taggedVersions": "2+"} | keys)


def common(name: str, *fields: Schema, **keys: Any) -> Schema:
    """One of the commonStructs."""
    return {"name": name, "versions": "0+", "fields": list(fields)} | keys


def raw(schema: Schema, file: str = "Foo.json", family: str = "mine") -> RawSchema:
    return load_text(json.dumps(schema), file=file, family=family)
