"""`kafkawire schema`."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import kafkawire
from kafkawire.cli import layouts
from kafkawire.messages import REGISTRY
from tests import golden
from tests.cli.runner import Run

SHIPPED = Path(kafkawire.__file__).parent / "schemas"
MINE = {
    "name": "Mine",
    "type": "data",
    "validVersions": "0-1",
    "flexibleVersions": "1+",
    "fields": [{"name": "Count", "type": "int32", "versions": "0+", "about": "How many."}],
}


def write(folder: Path, *schemas: dict[str, object]) -> Path:
    folder.mkdir(exist_ok=True)
    for schema in schemas:
        (folder / f"{schema['name']}.json").write_text(json.dumps(schema))
    return folder


# list ----------------------------------------------------------------------------------------------------------------


def test_list_prints_a_row_for_each_message(run: Run) -> None:
    rows = [json.loads(line) for line in run("schema", "list").out.splitlines()]
    assert [row["name"] for row in rows] == [entry.name for entry in REGISTRY]
    row = next(row for row in rows if row["name"] == "ListOffsetsRequest")
    assert row == {
        "name": "ListOffsetsRequest",
        "namespace": "kafka",
        "kind": "request",
        "family": "rpc",
        "api_key": 2,
        "versions": "0-11",
        "flexible": "6-11",
        "aliases": ["ListOffsetRequest"],
    }
    for row in rows:
        spec = kafkawire.lookup(row["name"]).spec
        assert row["flexible"] == (f"{spec.flexible_versions[0]}-{spec.flexible_versions[-1]}"
                                   if len(spec.flexible_versions) > 1 else
                                   str(spec.flexible_versions[0]) if spec.flexible_versions else None)  # fmt: skip


@pytest.mark.slow
def test_list_filters_by_family_kind_and_key(run: Run) -> None:
    def names(*arguments: object) -> list[str]:
        return [json.loads(line)["name"] for line in run("schema", "list", *arguments).out.splitlines()]

    assert names("--family", "transaction") == ["TransactionLogKey", "TransactionLogValue"]
    assert names("--api-key", 61) == ["DescribeProducersRequest", "DescribeProducersResponse"]
    assert names("--api-key", 61, "--kind", "response", "--family", "rpc") == ["DescribeProducersResponse"]
    assert names("--kind", "header") == ["RequestHeader", "ResponseHeader"]
    assert "WriteTxnMarkersRequest" in names("--namespace", "kip-664-draft")


def test_list_in_every_format(run: Run) -> None:
    arguments = ["schema", "list", "--family", "transaction", "--format"]
    assert [row["api_key"] for row in json.loads(run(*arguments, "json").out)] == [0, 0]
    assert run(*arguments, "csv").text.splitlines()[0] == "name,namespace,kind,family,api_key,versions,flexible,aliases"
    assert run(*arguments, "table").text.splitlines()[0].split() == [
        "name", "kind", "family", "api_key", "versions", "flexible",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--family", "tx"], "'tx' is none of common, group, "),
        (["--kind", "req"], "'req' is none of coordinator-key, "),
        (["--namespace", "x"], "no namespace 'x'"),
        (["--format", "xml"], "--format"),
    ],
)
def test_list_rejects_unknown_filters(run: Run, arguments: list[str], error: str) -> None:
    result = run("schema", "list", *arguments)
    assert (result.code, result.out) == (2, b"")
    assert error in result.err


# show ----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["DescribeProducersResponse"],
        ["DescribeProducersResponse", "--version", "0"],
        ["TransactionLogValue", "--version", "1"],
        ["FetchRequest", "--version", "4"],
        ["kip-360:TransactionStateValueLastEpoch"],
        ["FetchRequest.topics[].partitions", "--version", "3"],
        ["kip-664-draft:WriteTxnMarkersRequest.Markers.Topics"],
    ],
    ids="-".join,
)
def test_show_prints_fields_and_versions(run: Run, arguments: list[str]) -> None:
    name = " ".join(arguments)
    golden.check("cli/show.txt", run("schema", "show", *arguments).text, name)


def test_show_prints_fields_in_every_format(run: Run, tmp_path: Path) -> None:
    rows = json.loads(run("schema", "show", "AbortedTxn", "--version", 0, "--format", "json").out)
    assert [(row["field"], row["type"], row["bytes"]) for row in rows] == [
        ("producerId", "int64", "8"),
        ("firstOffset", "int64", "8"),
        ("lastOffset", "int64", "8"),
        ("lastStableOffset", "int64", "8"),
    ]
    run("schema", "show", "AbortedTxn", "-o", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().startswith("field,type,versions,")


def test_show_reads_schemas_of_a_folder(run: Run, tmp_path: Path) -> None:
    text = run("schema", "show", "--schemas", write(tmp_path / "s", MINE), "Mine").text
    assert "Mine: data" in text
    assert "How many." in text
    assert run("schema", "show", "Mine").code == 2


@pytest.mark.parametrize("path", ["coordinators.errorCode", "Coordinators[].ErrorCode", "coordinators.error_code"])
def test_show_takes_every_spelling_of_a_field(run: Run, path: str) -> None:
    for version in ([], ["--version", 4]):
        shown = run("schema", "show", f"FindCoordinatorResponse.{path}", *version, "--format", "jsonl")
        (row,) = map(json.loads, shown.out.splitlines())
        assert row["field"] == "coordinators[].errorCode"
        assert (
            row["about"] == kafkawire.lookup("FindCoordinatorResponse").codec.classes[0].spec.field("errorCode").about
        )


@pytest.mark.parametrize(
    ("field", "reason"),
    [
        ("Coordinators.Kez", "near: coordinators.key"),
        ("PORT", ""),
        ("Rack", "no field 'Rack'"),
        ("Coordinators.Key.X", "no field 'Coordinators.Key.X'; near: coordinators.key"),
        ("Coordinators..Key", "near: coordinators.key"),
    ],
)
def test_show_suggests_fields_with_similar_names(run: Run, field: str, reason: str) -> None:
    done = run("schema", "show", f"FindCoordinatorResponse.{field}")
    assert done.code == (2 if reason else 0)
    assert reason in done.err


def test_show_refuses_a_field_that_the_version_does_not_carry(run: Run) -> None:
    done = run("schema", "show", "FindCoordinatorResponse.Coordinators.Key", "--version", 3)
    assert done.code == 2
    assert "FindCoordinatorResponse.Coordinators.Key is not in version 3, but in 4-6" in done.err


@pytest.mark.slow
def test_show_finds_every_field_by_its_path() -> None:
    for name in kafkawire.messages.__all__:
        message = kafkawire.lookup(name)
        for row in layouts.all_fields(message):
            assert next(iter(layouts.all_fields(message, row.field))) == row


@pytest.mark.slow
def test_show_states_the_fixed_sizes_of_every_layout() -> None:
    checked = 0
    for name in kafkawire.messages.__all__:
        message = kafkawire.lookup(name)
        assert len(list(layouts.all_fields(message))) >= len(message.spec.fields)
        for version in message.spec.valid_versions:
            rows = list(layouts.fields_of_version(message, version))
            sizes = [row.bytes for row in rows]
            assert None not in sizes
            if all(size and size.isdigit() for size in sizes) and version not in message.spec.flexible_versions:
                assert sum(int(size or 0) for size in sizes) == len(message().encode(version))
                checked += 1
    assert checked > 20


# export --------------------------------------------------------------------------------------------------------------


def test_export_writes_one_schema(run: Run, tmp_path: Path) -> None:
    wanted = (SHIPPED / "kafka/rpc/DescribeProducersResponse.json").read_bytes()
    assert run("schema", "export", "DescribeProducersResponse").out == wanted
    path = tmp_path / "deep/er/rpc/DescribeProducersResponse.json"
    for _ in range(2):  # the same once more is no overwriting
        assert run("schema", "export", "DescribeProducersResponse", "-o", tmp_path / "deep/er").text == f"{path}\n"
        assert path.read_bytes() == wanted
    draft = (SHIPPED / "kip-360/DescribeTransactionStateRequest.json").read_bytes()
    assert run("schema", "export", "kip-360:DescribeTransactionStateRequest").out == draft


@pytest.mark.slow
def test_exported_schemas_can_be_generated(run: Run, tmp_path: Path) -> None:
    run("schema", "export", "--all", "-o", tmp_path / "kafka")
    exported = sorted(path.relative_to(tmp_path / "kafka") for path in (tmp_path / "kafka").rglob("*.json"))
    assert exported == sorted(path.relative_to(SHIPPED / "kafka") for path in (SHIPPED / "kafka").rglob("*.json"))
    run("schema", "export", "--all", "--namespace", "kip-664-adopted", "-o", tmp_path / "adopted")
    assert run("schema", "generate", "--schemas", tmp_path / "adopted", "-o", tmp_path / "out", "--drafts").code == 0
    result = run("schema", "check", "--schemas", tmp_path / "adopted", "-o", tmp_path / "out", "--drafts")
    assert (result.code, result.out) == (0, b"")


def test_export_does_not_overwrite_edited_schemas(run: Run, tmp_path: Path) -> None:
    run("schema", "export", "AbortedTxn", "-o", tmp_path)
    path = tmp_path / "common/AbortedTxn.json"
    path.write_text("{}")
    result = run("schema", "export", "AbortedTxn", "-o", tmp_path)
    assert (result.code, path.read_text()) == (1, "{}")
    assert f"{path} exists and differs" in result.err
    assert run("schema", "export", "AbortedTxn", "-o", tmp_path, "--force").code == 0
    assert path.read_text() != "{}"


@pytest.mark.parametrize("arguments", [[], ["AbortedTxn", "--all"], ["--all"], ["Foo"], ["--all", "--namespace", ".."]])
def test_export_rejects_invalid_options(run: Run, arguments: list[str]) -> None:
    assert run("schema", "export", *arguments).code == 2


# generate, check -----------------------------------------------------------------------------------------------------


def test_generate_writes_and_checks_a_package(run: Run, tmp_path: Path) -> None:
    schemas, out = write(tmp_path / "s", MINE, {**MINE, "name": "Other"}), tmp_path / "my_codecs"
    options = ["--schemas", schemas, "--output", out]
    result = run("schema", "check", *options)
    assert (result.code, result.text.count("missing")) == (1, 3)
    result = run("schema", "generate", *options)
    assert result.text.splitlines() == [
        f"created  {out / '__init__.py'}",
        f"created  {out / 'mine.py'}",
        f"created  {out / 'other.py'}",
        "2 messages, 3 of 3 files changed",
    ]
    assert run("schema", "check", *options).code == 0
    assert run("schema", "generate", *options).text == "2 messages, 0 of 3 files changed\n"

    (schemas / "Other.json").unlink()
    write(schemas, {**MINE, "about": "Changed."})
    result = run("schema", "check", *options)
    assert result.code == 1
    assert [line.rsplit(maxsplit=1)[0].strip() for line in result.text.splitlines()] == ["differs"] * 2 + ["left over"]
    assert "schema generate writes them" in result.err
    result = run("schema", "generate", *options)
    assert [line.split()[0] for line in result.text.splitlines()] == ["changed", "changed", "removed", "1"]
    assert not (out / "other.py").exists()


@pytest.mark.slow
def test_generated_package_works_with_kafkawire_alone(run: Run, tmp_path: Path) -> None:
    run("schema", "generate", "--schemas", write(tmp_path / "s", MINE), "--output", tmp_path / "my_codecs")
    code = "from my_codecs import Mine; print(Mine.decode(Mine(count=7).encode(1), 1).count)"
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True).stdout == b"7\n"


def test_generate_leaves_other_files_unchanged(run: Run, tmp_path: Path) -> None:
    options = ["--schemas", write(tmp_path / "s", MINE), "--output", tmp_path / "out"]
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine.py").write_text("print('mine')\n")
    (tmp_path / "out/notes.txt").write_text("")
    result = run("schema", "generate", *options)
    assert (result.code, result.out) == (1, b"")
    assert f"{tmp_path / 'out/mine.py'} was not generated" in result.err
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["mine.py", "notes.txt"]


@pytest.mark.parametrize("text", ["Of mine.", 'Ends in "', '""" + evil() + """', "\\", "a\nb"])
def test_generated_packages_have_docstrings(run: Run, tmp_path: Path, text: str) -> None:
    run("schema", "generate", "--schemas", write(tmp_path / "s", MINE), "-o", tmp_path / "out", "--package-doc", text)
    docstring = ast.get_docstring(ast.parse((tmp_path / "out/__init__.py").read_text()))
    assert docstring
    assert docstring.startswith(" ".join(text.split()))


def test_reports_all_mistakes_one_a_line(run: Run, tmp_path: Path) -> None:
    fields = [{"name": "A", "type": "int3", "versions": "0+"}, {"name": "b\x1b", "type": "int32", "versions": "x"}]
    schemas = write(tmp_path / "s", MINE, {**MINE, "name": "Bad", "fields": fields, "kind": 1})
    (schemas / "None.json").write_text("not json")
    result = run("schema", "generate", "--schemas", schemas, "--output", tmp_path / "out")
    assert (result.code, result.out) == (1, b"")
    assert not (tmp_path / "out").exists()
    (schemas / "None.json").unlink()
    lines = run("schema", "generate", "--schemas", schemas, "--output", tmp_path / "out").err.splitlines()
    assert len(lines) >= 4
    assert all(line.startswith("error: Bad.json: ") for line in lines)
    assert "\x1b" not in "".join(lines)


def test_rejects_a_folder_without_schemas(run: Run, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        for command in ("generate", "check"):
            result = run("schema", command, "--schemas", folder, "--output", tmp_path / "out")
            assert result.code == 1
            assert str(folder) in result.err
    assert run("schema", "generate").code == 2


def test_check_validates_schemas_without_a_package(run: Run, tmp_path: Path) -> None:
    (tmp_path / "Foo.json").write_text(
        '{"name": "Foo", "type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": []}'
    )
    assert run("schema", "check", "--schemas", tmp_path).out == b"1 message, no mistake found\n"
    (tmp_path / "Bar.json").write_text('{"name": "Bar"}')
    result = run("schema", "check", "--schemas", tmp_path)
    assert result.code == 1
    assert "Bar.json" in result.err


def test_shared_structs_are_shown_once(run: Run, tmp_path: Path) -> None:
    depth = 25
    kinds = [*(f"S{number}" for number in range(1, depth)), "int32"]
    structs = [
        {"name": f"S{at}", "versions": "0+", "fields": [{"name": n, "type": kind, "versions": "0+"} for n in "AB"]}
        for at, kind in enumerate(kinds)
    ]
    fields = [{"name": "X", "type": "S0", "versions": "0+"}]
    deep = {"name": "Deep", "type": "data", "validVersions": "0", "flexibleVersions": "none", "fields": fields}
    folder = str(write(tmp_path / "deep", deep | {"commonStructs": structs}))
    for version in ([], ["--version", "0"]):
        shown = run("schema", "show", "Deep", "--schemas", folder, "--format", "jsonl", *version)
        assert len(shown.out.splitlines()) == 1 + 2 * depth
