"""`kafkawire schema diff`."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from kafkawire.codegen import shape
from kafkawire.codegen.diff import SchemaChange, compare
from kafkawire.codegen.importing import sources
from kafkawire.codegen.importing.decisions import new_name
from kafkawire.codegen.load import RawSchema
from kafkawire.codegen.model import MessageModel
from kafkawire.codegen.resolve import resolve
from kafkawire.codegen.versions import VersionRange
from tests import golden
from tests.cli.runner import Run
from tests.cli.test_cli_schema_import import jar, kafka_jar, schema


@pytest.fixture
def sides(tmp_path: Path) -> tuple[Path, Path]:
    key = {"name": "K", "type": "string", "versions": "0+"}
    level = {"name": "L", "type": "int8", "versions": "2+"}
    topics = {"name": "Topics", "type": "[]T", "versions": "0+"}
    old = schema("A", "0-1", topics | {"fields": [key]})
    new = schema("A", "0-2", topics | {"fields": [key | {"nullableVersions": "1+"}, level]}, flexibleVersions="2+")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "A.json").write_text(json.dumps(new))
    return jar(tmp_path / "kafka-raft-1.0.jar", old, schema("Gone")), tmp_path / "new"


def test_prints_changes_in_every_format(run: Run, sides: tuple[Path, Path]) -> None:
    results = {
        name: run("schema", "diff", *sides, "--all", "--format", name) for name in ("table", "json", "jsonl", "csv")
    }
    assert {result.code for result in results.values()} == {3}
    golden.check("cli/schema-diff.txt", results["table"].text)
    golden.check("cli/schema-diff.csv", results["csv"].text)
    rows = json.loads(results["json"].out)
    assert rows == [json.loads(line) for line in results["jsonl"].out.splitlines()]
    assert list(rows[0]) == ["message", "change", "versions", "field", "old", "new", "compatible", "why"]


@pytest.mark.slow
def test_a_narrow_table_shows_which_changes_are_compatible(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("schema", "diff", "kafka", "kip-664-draft", "--format", "table").text
    assert "compatible" in shown.splitlines()[0]


def test_incompatible_prints_incompatible_changes_alone(run: Run, sides: tuple[Path, Path]) -> None:
    rows = [json.loads(line) for line in run("schema", "diff", *sides, "--all", "--incompatible").out.splitlines()]
    assert [(row["message"], row["change"]) for row in rows] == [("A", "nullable"), ("Gone", "message removed")]


@pytest.mark.slow
def test_counts_messages_of_one_side_and_compares_them_with_all(run: Run, sides: tuple[Path, Path]) -> None:
    result = run("schema", "diff", *sides)
    assert {json.loads(line)["message"] for line in result.out.splitlines()} == {"A"}
    assert result.err == f"note: only in {sides[0]}: 1 message (Gone); --all compares them\n"
    edited = run("schema", "diff", "kafka", "kip-664-draft")
    assert edited.err.startswith("note: only in kafka: ")
    assert b"message removed" not in edited.out
    assert b"message removed" in run("schema", "diff", "kafka", "kip-664-draft", "--all").out


def test_exits_with_0_for_compatible_changes(run: Run, sides: tuple[Path, Path]) -> None:
    assert run("schema", "diff", sides[0], sides[0]).out == b""
    assert run("schema", "diff", "kip-360", "kip-360", "--format", "json").text == "[]\n"


def test_compares_namespaces(run: Run) -> None:
    result = run("schema", "diff", "kip-664-draft", "kip-664-adopted", "--format", "table")
    assert result.code == 3
    golden.check("cli/schema-diff-drafts.txt", result.text)


@pytest.mark.slow
def test_rejects_inputs_that_are_neither_path_nor_namespace(run: Run, tmp_path: Path) -> None:
    result = run("schema", "diff", "kafka", tmp_path / "x")
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "is no file, no folder, and no namespace (kafka, embedded, kip-360" in result.err
    (tmp_path / "x").write_bytes(b"no zip")
    assert run("schema", "diff", "kafka", tmp_path / "x").code == 1
    for release in ("1.0", "2.0"):
        jar(tmp_path / f"kafka-raft-{release}.jar", schema("A"))
    (tmp_path / "x").unlink()
    assert "holds several releases (2.0, 1.0)" in run("schema", "diff", "kafka", tmp_path).err


# Kafka's releases ----------------------------------------------------------------------------------------------------


@cache
def messages(release: str) -> list[MessageModel]:
    (found,) = sources.releases([sources.read(kafka_jar("kafka-clients", release), prose=False)])
    return resolve([RawSchema(name, family, one) for name, (family, one) in found.messages.items()], drafts=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"), [("2.4.1", "3.6.2"), ("3.6.2", "3.9.1"), ("3.9.1", "4.4.0"), ("4.3.1", "4.4.0")]
)
def test_reported_byte_changes_match_encoded_bytes(old: str, new: str) -> None:
    """The versions with another layout, found field by field, are those whose shapes differ, and no others."""
    before, after = messages(old), messages(new)
    found = list(compare(before, after, new_name))
    by_name = {message.name: message for message in after}
    differ = {
        (now.name, version)
        for was in before
        if (now := by_name.get(was.name, by_name.get(new_name(was.name)))) is not None
        for version in shape.conflicts(now, was)
    }
    assert {(change.message, version) for change in found if of_bytes(change) for version in numbers(change)} == differ


def of_bytes(change: SchemaChange) -> bool:
    return not change.compatible and change.what not in ("default", "versions removed", "message removed")


def numbers(change: SchemaChange) -> list[int]:
    return [version for part in change.versions.split(", ") for version in VersionRange.parse(part)]


@pytest.mark.slow
def test_reports_a_preview_version_that_changed_its_layout() -> None:
    found = [change for change in compare(messages("3.6.2"), messages("3.9.1")) if of_bytes(change)]
    assert {change.message for change in found} == {"ConsumerGroupHeartbeatRequest", "ConsumerGroupHeartbeatResponse"}
    assert {change.versions for change in found} == {"0"}
    assert {"ClientAssignors", "SubscribedTopicRegex"} <= {
        change.field for change in found if change.what == "field removed"
    }
