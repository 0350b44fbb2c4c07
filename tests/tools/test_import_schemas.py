"""tools/import_schemas: Maven, our sentences, the union of Kafka's enums, and the command's errors."""

import zipfile
from pathlib import Path

import pytest

from kafkawire.codegen.importing.catalogue import Catalogue, CatalogueMessage, LayoutConflict
from kafkawire.codegen.tables import TABLES
from tools.import_schemas import __main__ as command
from tools.import_schemas import about, enums, schema_jars

pytestmark = pytest.mark.slow

# about


def test_rejects_two_descriptions_of_one_message(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"M": {"about": "x", "fields": {}}}')
    assert about.load(tmp_path) == {"M": about.About("x", {})}
    (tmp_path / "b.json").write_text('{"M": {"about": "y", "fields": {}}}')
    with pytest.raises(ValueError, match=r"b\.json: M is described in another file"):
        about.load(tmp_path)


@pytest.mark.parametrize("text", ["[]", "{", '{"M": {"abuot": ""}}', '{"M": 1}'])
def test_rejects_descriptions_of_another_shape(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ValueError, match=r"a\.json"):
        about.load(tmp_path)


def test_rejects_descriptions_of_unknown_messages() -> None:
    given = {"M": CatalogueMessage("rpc", {"name": "M", "fields": []})}
    assert command.with_sentences(given, {"M": about.About("M.", {})})["M"].schema["about"] == "M."
    with pytest.raises(ValueError, match="unknown message: N"):
        command.with_sentences(given, {"N": about.About("", {})})


# what the committed schemas may not leave open


def test_rejects_conflicts_and_messages_without_layout() -> None:
    with pytest.raises(ValueError, match="decide which: M 0 of 1"):
        command.check(Catalogue({}, [], [LayoutConflict("M", 0, "1")], []))
    with pytest.raises(ValueError, match="no release given has the layout of M"):
        command.check(Catalogue({}, [], [], ["M"]))
    with pytest.raises(ValueError, match=r"unknown message: .*ListOffsetsRequest"):
        command.check(Catalogue({}, [], [], []))


# enums


def test_newest_name_of_a_number_wins() -> None:
    newest = [{"key": 1, "name": "B", "clusterAction": False}]
    older = [{"key": 1, "name": "A"}, {"key": 0, "name": "Z", "clusterAction": True}]
    united = enums.unite([newest, older], "key")
    assert (
        enums.text(united)
        == """[
  {"key": 0, "name": "Z", "clusterAction": true},
  {"key": 1, "name": "B"}
]
"""
    )


def test_committed_tables_equal_javas() -> None:
    try:
        texts = enums.texts(schema_jars.RELEASES)
    except enums.EnumsError as error:
        pytest.skip(str(error))
    assert list(texts) == [file for file, _, _ in TABLES.values()]
    for file, text in texts.items():
        assert text.encode() == (command.SCHEMAS.parent / file).read_bytes()


# jars and the command


def jar(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    zipfile.ZipFile(path, "w").close()


def test_share_groups_have_a_jar_from_4_0_on() -> None:
    assert len(schema_jars.wanted("4.4.0")) == 7
    assert "kafka-share-coordinator" not in [artifact.name for artifact in schema_jars.wanted("3.9.1")]


def test_maven_is_not_run_for_cached_jars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    jar(tmp_path / "1.0" / "kafka-clients-1.0.jar")
    schema_jars.fetch(tmp_path, [("kafka-clients", "1.0")])
    with pytest.raises(schema_jars.JarError, match="no mvn in PATH"):
        schema_jars.fetch(tmp_path, [("kafka-clients", "1.0"), ("kafka-clients", "2.0")])


def test_mavens_error_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "mvn").write_text("#!/bin/sh\necho '[ERROR] no such artifact'\necho '[ERROR] more'\nexit 1\n")
    (tmp_path / "mvn").chmod(0o755)
    with pytest.raises(schema_jars.JarError, match=r"^Maven cannot fetch kafka-clients-9\.9: no such artifact$"):
        schema_jars.fetch(tmp_path, [("kafka-clients", "9.9")])


def test_missing_jars_are_a_one_line_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--jars", str(tmp_path), "--output", str(tmp_path / "out")]) == 1
    problem = capsys.readouterr().err
    assert problem.startswith("import_schemas: ")
    assert "kafka-clients-4.4.0.jar: the file or folder does not exist" in problem
    assert not (tmp_path / "out").exists()
