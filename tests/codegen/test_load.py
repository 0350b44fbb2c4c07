"""Schema files -> raw schemas: comments, places of mistakes, families; nothing but SchemaError for what is wrong."""

import json
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.codegen.load import MAX_SCHEMA, load_folder, load_text
from kafkawire.errors import Problem, SchemaError


def test_comments_may_stand_anywhere_but_in_strings() -> None:
    text = """// head
    /* a "string" in a comment, and
       // another one in it */
    {"a": 1, // after a value "
     "b//c": "/* no */ // comment \\" // still none", /**/ "d" /* here too */ : [2 /* and
     here */, 3]}
    // tail"""
    assert load_text(text).data == {"a": 1, "b//c": '/* no */ // comment " // still none', "d": [2, 3]}


def test_byte_order_mark() -> None:
    assert load_text('\ufeff{"a": 1}').data == {"a": 1}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["is empty"]),
        (" \n // nothing\n", ["is empty"]),
        ("[]", ["a schema is a JSON object, not an array"]),
        ('"x"', ["a schema is a JSON object, not 'x'"]),
        ("null", ["a schema is a JSON object, not null"]),
        ('{"a" 1}', ["line 1, column 6: expecting ':' delimiter"]),
        ('{\n  "a": 1 /* x\n */ "b": 2}', ["line 3, column 5: expecting ',' delimiter"]),
        ('{"a": "x\n"}', ["line 1, column 9: invalid control character at"]),
        ('{"a": "// x', ["line 1, column 7: unterminated string starting at"]),
        ('{"a": 1}\n/* on', ["line 2, column 1: a comment begins here and never ends"]),
        ('{"a": NaN}', ["NaN is no JSON"]),
        ('{"a": ' + "9" * 5000 + "}", ["the number 99999999999999999999... is too long"]),
        ('{"a": 1}\n // and\n  ] }', ["line 3, column 3: there is more after the end of the schema"]),
        ('{"b": [{"c": 1, "c": 2}], "b": 3}', ["the key 'b' is given twice"]),
        (
            '{"a": 1, "b": [0, {"c": 1, "c": 2}], "a": 3} x',
            [
                "the key 'a' is given twice",
                "b[1]: the key 'c' is given twice",
                "line 1, column 46: there is more after the end of the schema",
            ],
        ),
        (
            '{"a": {"b": {"c": 1, "d": 2, "c": 3, "c": 4, "d": 5}}}',
            ["a.b: the key 'c' is given twice", "a.b: the key 'd' is given twice"],
        ),
        ("[" * 100_000, ["is nested too deeply"]),
        ('{"a":' * 100_000, ["is nested too deeply"]),
    ],
)
def test_what_is_wrong_with_a_text(text: str, expected: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        load_text(text, file="Foo.json")
    assert [str(problem) for problem in caught.value.problems] == [f"Foo.json: {problem}" for problem in expected]


def test_lenient_forgives_what_kafkas_reader_forgives() -> None:
    assert load_text('{"a": 1, "a": 2}\n  ] }', lenient=True).data == {"a": 2}
    with pytest.raises(SchemaError):
        load_text('{"a": 1', lenient=True)


@given(st.text() | st.text(alphabet='{}[]",:/*\\ \n1truenl'))
def test_any_text_loads_or_is_a_schema_error(text: str) -> None:
    with suppress(SchemaError):
        load_text(text)


@given(st.text(alphabet='"\\/* \nx'))
def test_strings_are_never_taken_for_comments(text: str) -> None:
    assert load_text(json.dumps({"a": text, "b": [text]}) + " // " + text.replace("\n", "")).data["a"] == text


def write(root: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def test_raw_schemas_have_the_name_of_their_folder(tmp_path: Path) -> None:
    root = write(
        tmp_path / "mine", {"B.json": "{}", "A.json": "{}", "rpc/C.json": "{}", "a/b/D.json": "{}", "readme.txt": "no"}
    )
    loaded = [(raw.file, raw.family) for raw in load_folder(root)]
    assert loaded == [("A.json", "mine"), ("B.json", "mine"), ("a/b/D.json", "b"), ("rpc/C.json", "rpc")]
    assert load_folder(str(root)) == load_folder(root)


def test_family_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path / "mine", {"A.json": "{}"}))
    assert load_folder(".")[0].family == "mine"


def test_hidden_files_and_folders_are_left_out(tmp_path: Path) -> None:
    root = write(tmp_path, {"A.json": "{}", "._A.json": b"\xff", ".git/B.json": "no", "dir.json/C.json": "{}"})
    assert [raw.file for raw in load_folder(root)] == ["A.json", "dir.json/C.json"]


def test_a_file_has_the_name_of_its_message(tmp_path: Path) -> None:
    root = write(tmp_path, {"PongRequest.json": '{\n  "name": "PingRequest"}', "A.json": '{"name": 5}'})
    with pytest.raises(SchemaError) as caught:
        load_folder(root)
    assert str(caught.value) == (
        "PongRequest.json: line 2, column 11: name: the file of 'PingRequest' is named 'PongRequest': "
        "a file has the name of its message"
    )


def test_problems_of_all_files_at_once(tmp_path: Path) -> None:
    root = write(
        tmp_path, {"A.json": "", "B.json": "{}", "x/C.json": b'{"a": "\xff"}', "x/D.json": '{"a": 1, "a": 1} {'}
    )
    with pytest.raises(SchemaError) as caught:
        load_folder(root)
    assert caught.value.problems == [
        Problem("A.json", "", "is empty"),
        Problem("x/C.json", "", "is not UTF-8 (byte 7)"),
        Problem("x/D.json", "", "the key 'a' is given twice"),
        Problem("x/D.json", "", "line 1, column 18: there is more after the end of the schema"),
    ]


def test_folders_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.json").write_text("{}")
    for name, reason in [
        ("empty", "there is no schema (*.json) in this folder"),
        ("missing", "the folder does not exist"),
        ("file.json", "is no folder"),
    ]:
        with pytest.raises(SchemaError) as caught:
            load_folder(tmp_path / name)
        assert caught.value.problems == [Problem(str(tmp_path / name), "", reason)]


def test_names_without_a_file(tmp_path: Path) -> None:
    root = write(tmp_path, {"A.json": "{}"})
    (root / "B.json").symlink_to("nowhere.json")
    os.mkfifo(root / "C.json")
    with pytest.raises(SchemaError) as caught:
        load_folder(root)
    assert caught.value.problems == [
        Problem("B.json", "", "the file does not exist"),
        Problem("C.json", "", "is no file"),
    ]


def test_a_schema_that_is_too_long(tmp_path: Path) -> None:
    root = write(tmp_path, {"A.json": " " * (MAX_SCHEMA + 1)})
    with pytest.raises(SchemaError) as caught:
        load_folder(root)
    assert caught.value.problems == [Problem("A.json", "", "is longer than 4 MiB")]
