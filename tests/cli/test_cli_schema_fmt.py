"""`kafkawire schema fmt`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.runner import Run

SCHEMAS = Path(__file__).parents[2] / "schemas"
HEAD = "// Licensed to someone\n/* and\n more */\n\n"
MESSY = """{ "fields": [{"type": "int32", "name": "One", "about": "A number.", "versions": "0+", "tag": "0",
  "ignorable": false, "taggedVersions": "0+"}],
  "flexibleVersions": "0+", "name": "Foo", "validVersions": 0, "type": "data"}"""
CANONICAL = """{
  "name": "Foo",
  "type": "data",
  "validVersions": "0",
  "flexibleVersions": "0+",
  "fields": [
    {"name": "One", "type": "int32", "versions": "0+", "taggedVersions": "0+", "tag": 0,
      "about": "A number."}
  ]
}
"""


@pytest.fixture
def messy(tmp_path: Path) -> Path:
    file = tmp_path / "my" / "Foo.json"
    file.parent.mkdir()
    file.write_text(HEAD + MESSY)
    return file


def test_writes_the_canonical_form_and_keeps_the_comments_above(run: Run, messy: Path) -> None:
    result = run("schema", "fmt", messy.parent)
    assert (result.code, result.text) == (0, f"changed  {messy}\n1 file, 1 changed\n")
    assert messy.read_text() == HEAD + CANONICAL
    assert run("schema", "fmt", messy).text == "1 file, 0 changed\n"


def test_check_writes_nothing_and_exits_with_1(run: Run, messy: Path) -> None:
    result = run("schema", "fmt", "--check", messy)
    assert (result.code, result.text) == (1, f"differs  {messy}\n")
    assert "schema fmt writes it" in result.err
    assert messy.read_text() == HEAD + MESSY


def test_shipped_schemas_are_in_the_form(run: Run, tmp_path: Path) -> None:
    shutil.copytree(SCHEMAS / "kafka" / "common", tmp_path / "common")
    assert run("schema", "fmt", "--check", tmp_path).code == 0


def test_refuses_comments_that_the_form_has_no_place_for(run: Run, messy: Path) -> None:
    messy.write_text(MESSY.replace('"name": "Foo"', '\n"name": /* why */ "Foo"'))
    result = run("schema", "fmt", messy)
    assert (result.code, result.err) == (1, f"error: {messy}: line 4: the canonical form has no comments here\n")


def test_refuses_what_the_compiler_refuses(run: Run, messy: Path) -> None:
    messy.write_text(MESSY.replace("int32", "int33"))
    result = run("schema", "fmt", messy)
    assert (result.code, result.out) == (1, b"")
    assert result.err.startswith(f"error: {messy}: line 1, column 23: fields[0].type: there is no type 'int33'")
    assert json.loads(messy.read_text())["name"] == "Foo"


@pytest.mark.parametrize("path", ["missing", "."])
def test_path_without_schemas_is_a_one_line_error(run: Run, tmp_path: Path, path: str) -> None:
    result = run("schema", "fmt", tmp_path / path)
    assert (result.code, result.err.count("\n")) == (1, 1)
