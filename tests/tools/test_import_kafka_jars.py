"""tools/import_schemas on Kafka's own jars: the import anew, and the earlier names."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.codegen import shape
from kafkawire.codegen.importing import decisions, merge
from kafkawire.codegen.importing.facts import Schema
from kafkawire.codegen.load import RawSchema
from kafkawire.codegen.model import MessageModel
from kafkawire.codegen.resolve import resolve
from kafkawire.codegen.versions import VersionRange
from tools.import_schemas import __main__ as command
from tools.import_schemas import about, schema_jars

pytestmark = pytest.mark.slow

CLIENTS = [schema_jars.Artifact("kafka-clients", "rpc")]
OLDER = ("2.4.1", "2.7.2", "3.4.1", "4.3.1")
"""Releases that, with 3.9.1, hold every earlier name."""


@pytest.fixture(scope="module")
def kafka_jars() -> Path:
    """The folder with the jars of the imported and of the `OLDER` releases."""
    jars_wanted = [
        (artifact.name, release) for release in schema_jars.RELEASES for artifact in schema_jars.wanted(release)
    ]
    try:
        schema_jars.fetch(command.CACHE, jars_wanted + [("kafka-clients", release) for release in OLDER])
    except schema_jars.JarError as error:
        pytest.skip(f"no jars: {error}")
    return command.CACHE


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_importing_again_changes_nothing(kafka_jars: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--jars", str(kafka_jars), "--output", str(tmp_path)]) == 0
    assert files(tmp_path) == files(command.SCHEMAS)
    assert "288 messages, 865 message-versions" in capsys.readouterr().out


def test_one_command_adds_a_release(
    kafka_jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """4.3.1 lies between the two: it changes no schema, and is remembered at its place."""
    generated: list[bool] = []
    before = files(command.SCHEMAS)
    monkeypatch.setattr(command, "SCHEMAS", tmp_path / "schemas" / "kafka")
    monkeypatch.setattr(command, "RELEASES_FILE", tmp_path / "releases.json")
    monkeypatch.setattr(command, "generate", lambda check: generated.append(check))
    monkeypatch.setattr(command.release_versions, "text", lambda cache: "{}\n")
    code = command.main(["--add", "4.3.1", "--cache", str(kafka_jars)])
    printed = capsys.readouterr()
    if code and ("Maven" in printed.err or "java" in printed.err):
        pytest.skip(printed.err)
    assert (code, [line for line in printed.err.splitlines() if not line.startswith("fetching ")]) == (0, [])
    assert files(tmp_path / "schemas" / "kafka") == before
    assert {path.name for path in (tmp_path / "schemas").glob("*.json")} == {
        "api_keys.json",
        "errors.json",
        "release_versions.json",
    }
    assert json.loads((tmp_path / "releases.json").read_text()) == ["4.4.0", "4.3.1", "3.9.1"]
    assert generated == [False]


def test_adds_a_new_description_and_reports_an_extra_file(
    kafka_jars: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sentences, output = tmp_path / "about", tmp_path / "out"
    sentences.mkdir()
    (sentences / "x.json").write_text('{"AbortedTxn": {"about": "New.", "fields": {"FirstOffset": "Newer."}}}')
    stale = output / "common" / "Stale.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    monkeypatch.setattr(about, "FOLDER", sentences)
    assert command.main(["--jars", str(kafka_jars), "--output", str(output)]) == 1
    written = json.loads((output / "common" / "AbortedTxn.json").read_text(encoding="utf-8"))
    assert written["about"] == "New."
    assert [entry.get("about") for entry in written["fields"]] == [None, "Newer.", None, None]
    assert "no release has Stale.json" in capsys.readouterr().err
    assert stale.exists()


def test_earlier_names_equal_those_of_the_jars(kafka_jars: Path) -> None:
    """Pair each release's fields with ours by place: other names are aliases, and all aliases are among them."""
    ours = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in command.SCHEMAS.glob("*/*.json")}
    new_name = {old: new for new, old_names in decisions.RENAMED_MESSAGES.items() for old in old_names}
    seen: set[tuple[str, str, str]] = set()
    for label in (*OLDER, "3.9.1"):
        artifacts = CLIENTS if label in OLDER else schema_jars.wanted(label)
        (release,) = schema_jars.load(kafka_jars, [(artifact.name, label) for artifact in artifacts])
        for name, (_, old) in release.messages.items():
            new = ours[new_name.get(name, name)]
            if name in new_name:
                seen.add((new["name"], "", name))
            if new["type"] == "coordinator-key" or old["validVersions"] == "none":
                continue
            for version in set(VersionRange.parse(old["validVersions"])) - set(shape.conflicts(model(new), model(old))):
                seen.update((new["name"], *pair) for pair in renames(new, old, version))
    table = {(name, "", old) for name, old_names in decisions.RENAMED_MESSAGES.items() for old in old_names}
    for name, fields in decisions.RENAMED_FIELDS.items():
        table.update((name, path, old) for path, old_names in fields.items() for old in old_names)
    assert seen == table


def model(schema: Schema) -> MessageModel:
    return resolve([RawSchema("", "", schema)], drafts=True)[0]


def renames(new: Schema, old: Schema, version: int) -> Iterator[tuple[str, str]]:
    """(path, earlier name) of the fields that `old` names otherwise at `version`, where both have the same layout."""
    structs = [{entry["name"]: entry["fields"] for entry in one.get("commonStructs", [])} for one in (new, old)]

    def walk(above: str, new_fields: list[Schema], old_fields: list[Schema]) -> Iterator[tuple[str, str]]:
        sides = [by_place(fields, version) for fields in (new_fields, old_fields)]
        for place in sides[1]:
            pair = sides[0][place], sides[1][place]
            path, before = above + pair[0]["name"], pair[1]["name"]
            if pair[0]["name"].lower() != before.lower():
                yield path, before
            within = [
                one.get("fields") or known.get(merge.element(one["type"]), [])
                for one, known in zip(pair, structs, strict=True)
            ]
            yield from walk(path + ".", *within)

    return walk("", new["fields"], old["fields"])


def by_place(fields: list[Schema], version: int) -> dict[tuple[str, int], Schema]:
    """Fields of `version` by their tag or, untagged, by their number in the order of writing."""
    present = [
        entry for entry in fields if version in VersionRange.parse(entry.get("versions") or entry["taggedVersions"])
    ]
    tagged = [entry for entry in present if version in VersionRange.parse(entry.get("taggedVersions", "none"))]
    ordered = [entry for entry in present if entry not in tagged]
    return {("tag", entry["tag"]): entry for entry in tagged} | {("field", i): e for i, e in enumerate(ordered)}
