"""`resolve`: versions that no message sends, places of mistakes in the text, and families."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire.codegen.load import load_folder
from kafkawire.codegen.resolve import resolve, resolve_with_warnings
from kafkawire.errors import SchemaError
from tests.codegen.schema_builders import Schema, common, field, message, raw


def warnings_of(schema: Schema) -> list[str]:
    return [": ".join((one.path, one.reason)) for one in resolve_with_warnings([raw(schema)]).warnings]


def test_a_field_that_no_version_sends_is_refused() -> None:
    with pytest.raises(SchemaError, match="2\\+ has no version in common with those of its struct, 0-1"):
        resolve([raw(message(field(), field(name="Two", versions="2+"), validVersions="0-1"))])
    inner = field(name="T", type="[]T", versions="1+", fields=[field(versions="0")])
    with pytest.raises(SchemaError, match="0 has no version in common with those of its struct, 1-3"):
        resolve([raw(message(inner))])


def test_a_field_of_versions_that_the_message_dropped_is_allowed() -> None:
    fields = field(), field(name="Old", versions="0-1"), field(name="Older", versions="0")
    assert warnings_of(message(*fields, validVersions="1-3")) == []


def test_versions_above_the_last_one_are_warned_of() -> None:
    fields = field(), field(name="Two", versions="1-5"), field(name="Three", type="string", nullableVersions="7+")
    assert warnings_of(message(*fields)) == [
        "fields[1].versions: the field is never sent in 4-5: its struct ends with version 3",
        "fields[2].nullableVersions: 7+ has no effect: its struct ends with version 3",
    ]


def test_versions_of_a_common_struct_above_the_last_one_are_warned_of() -> None:
    user, struct = field(type="T"), common("T", field(), versions="0-5")
    assert warnings_of(message(user, commonStructs=[struct])) == [
        "commonStructs[0].versions: 0-5 goes beyond the message, which ends with version 3"
    ]
    assert warnings_of(message(user, commonStructs=[struct | {"versions": "0+"}])) == []


def test_problems_have_line_and_column(tmp_path: Path) -> None:
    (tmp_path / "Foo.json").write_text(
        """// A comment
{
  "name": "Foo", /* another */ "type": "data", "validVersions": "0", "flexibleVersions": "none",
  "fields": [
    {"name": "A", "type": "int32", "versions": "0+"},
    {"name": "B", "type": "int33", "versions": "0+",
     "tag": 1}
  ]
}"""
    )
    with pytest.raises(SchemaError) as caught:
        resolve(load_folder(tmp_path))
    assert [(one.line, one.column, one.path) for one in caught.value.problems] == [
        (6, 27, "fields[1].type"),
        (6, 5, "fields[1]"),
        (7, 13, "fields[1].tag"),
    ]
    assert str(caught.value).startswith("Foo.json: line 6, column 27: fields[1].type: there is no type 'int33'")


@pytest.mark.parametrize(
    ("kind", "folder", "family"),
    [
        ("request", "my", "rpc"),
        ("response", "group", "rpc"),
        ("metadata", "my", "metadata"),
        ("metadata", "storage", "storage"),
        ("data", "my", "common"),
        ("data", "raft", "raft"),
        ("coordinator-key", "transaction", "transaction"),
        ("coordinator-value", "my", "my"),
    ],
)
def test_family_follows_from_the_type(kind: str, folder: str, family: str) -> None:
    name = f"Foo{kind.capitalize()}" if kind in ("request", "response") else "Foo"
    (resolved,) = resolve([raw(message(name=name, type=kind, apiKey=9001), family=folder)])
    assert resolved.family == family
