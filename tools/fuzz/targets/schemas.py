"""Schema files: text to classes, and the classes' codecs on bytes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from types import ModuleType

from kafkawire.codegen import names, render
from kafkawire.codegen.load import load_text
from kafkawire.codegen.resolve import resolve
from kafkawire.errors import SchemaError
from tools import ROOT
from tools.fuzz import inputs
from tools.fuzz.target import FuzzTarget

#: Between a schema and the bytes that its message is to read.
_BEHIND = b"\0\0"
_MODULE = "kafkawire_fuzzed"
_MOST_VERSIONS = 2
#: Kafka's schemas are alike: this many make one seed.
_EVERY = 8


def check_schema(data: bytes) -> None:
    """A schema's text, two zero bytes, and bytes for the codecs, which are read in some of its versions."""
    from tests.engines import agree, generated, native

    text, _, body = data.partition(_BEHIND)
    try:
        messages = resolve([load_text(text.decode("utf-8", "replace"), family="mine")])
    except SchemaError as error:
        _check_problems(error)
        return
    for message in messages:
        source = render.render_module(message)
        module = sys.modules[_MODULE] = ModuleType(_MODULE)
        exec(compile(source, "<fuzzed>", "exec"), module.__dict__)
        cls = getattr(module, names.class_name(message.name))
        for version in list(cls.spec.valid_versions)[:_MOST_VERSIONS]:
            agree(cls, version, body)
        generated.cache_clear()
        native.cache_clear()


def _check_problems(error: SchemaError) -> None:
    assert error.problems
    assert all(problem.reason and problem.file == "<text>" for problem in error.problems)


def _schemas() -> Iterator[bytes]:
    root = ROOT / "schemas"
    for path in sorted(root.glob("k*/**/*.json"))[::_EVERY]:
        data = _without_comments(path.read_text())
        if len(data) < 2500:
            yield data + _BEHIND + bytes(40)
    for path in sorted((ROOT / "tests" / "schemas_kafka").glob("*.json")):
        yield _without_comments(path.read_text()) + _BEHIND + bytes(range(60))
    for depth in (10, 31, 32, 33, 400):
        struct = '{"name":"F%d","type":"S%d","versions":"0+","fields":[%s]}'
        inner = '{"name":"A","type":"int8","versions":"0+"}'
        for level in range(depth):
            inner = struct % (level, level, inner)
        head = '{"name":"Foo","type":"data","validVersions":"0-1","flexibleVersions":"1+","fields":[%s]}'
        yield (head % inner).encode() + _BEHIND + bytes(8)
    for depth in (900, 990, 5000):
        yield b'{"a":' * depth + b"1" + b"}" * depth
        yield b'{"fields":' + b"[" * depth + b"]" * depth + b"}"
    yield b'{"apiKey": ' + b"1" * 5000 + b"}"


def _without_comments(text: str) -> bytes:
    """A schema in few bytes."""
    data = load_text(text).data
    return json.dumps(data, separators=(",", ":")).encode()


# ----------------------------------------------------------------------------------------------------------------------

_TYPES = (
    "bool", "int8", "int16", "uint16", "int32", "uint32", "int64", "float64", "string", "bytes", "records", "uuid",
)  # fmt: skip
_KEYS = (
    *("name", "type", "versions", "validVersions", "flexibleVersions", "nullableVersions", "taggedVersions", "tag"),
    *("fields", "commonStructs", "default", "ignorable", "mapKey", "entityType", "about", "flexibleVersions", "apiKey"),
    *("listeners", "latestVersionUnstable", "zeroCopy", "deprecatedVersions"),
)

TARGETS = (
    FuzzTarget(
        name="schemas",
        reads="a schema's text, compiled and run; and bytes for its message",
        holds="`SchemaError` with places, or classes whose engines agree on the bytes",
        check=check_schema,
        seeds=_schemas,
        form=inputs.TEXT,
        longest=3000,
        words=(
            *(f'"{key}":'.encode() for key in dict.fromkeys(_KEYS)),
            *(f'"{name}"'.encode() for name in _TYPES),
            *(f'"[]{name}"'.encode() for name in _TYPES),
            *(b'"0+"', b'"1+"', b'"0-1"', b'"none"', b'"null"', b'"true"', b"true", b'"-1"', b'"0x7fff"', b"//", b"/*"),
        ),
    ),
)
