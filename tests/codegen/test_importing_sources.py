"""codegen/importing/sources: what a jar or a folder holds, of which release and family; hostile ones."""

import json
import struct
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kafkawire.codegen.importing import sources
from kafkawire.errors import SchemaError


def schema(name: str, kind: str = "data", **more: Any) -> str:
    given = {"name": name, "type": kind, "validVersions": "0", "flexibleVersions": "none", "fields": [], **more}
    return json.dumps(given)


def jar(path: Path, **files: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name.replace("__", "/") + ".json", text)
    return path


def families(path: Path, **options: Any) -> dict[str, str]:
    return {source.schema["name"]: source.family for source in sources.read(path, **options)}


def refusal(path: Path) -> str:
    with pytest.raises(SchemaError) as caught:
        sources.read(path)
    assert all("\n" not in str(problem) for problem in caught.value.problems)
    return str(caught.value)


def test_the_name_is_the_schemas_and_the_folder_may_lack_common(tmp_path: Path) -> None:
    given = {
        "common__message__Other": schema("MRequest", "request", apiKey=1),
        "message__D": schema("D"),
        "META-INF__x": "{",
        "common__message__a__b": "{",
    }
    assert families(jar(tmp_path / "kafka-clients-1.0.jar", **given)) == {"MRequest": "rpc", "D": "common"}
    assert families(jar(tmp_path / "kafka-storage-1.0.jar", **given)) == {"MRequest": "storage", "D": "storage"}
    assert families(jar(tmp_path / "mine.jar", **given)) == {"MRequest": "rpc", "D": "common"}
    assert families(tmp_path / "mine.jar", family="own") == {"MRequest": "own", "D": "own"}


def test_a_folder_gives_the_family(tmp_path: Path) -> None:
    checkout = tmp_path / "group-coordinator" / "src" / "main" / "resources" / "common" / "message"
    for folder in (tmp_path / "share", tmp_path / "x" / "common" / "message", checkout):
        folder.mkdir(parents=True)
        (folder / f"M{len(folder.parts)}.json").write_text(schema(f"M{len(folder.parts)}"))
    (tmp_path / "RRequest.json").write_text(schema("RRequest", "request", apiKey=1))
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "x.json").write_text("{")
    depth = len(tmp_path.parts)
    assert families(tmp_path) == {
        f"M{depth + 1}": "share",
        f"M{depth + 3}": "x",
        f"M{depth + 6}": "group",
        "RRequest": "rpc",
    }
    assert families(checkout) == {f"M{depth + 6}": "group"}
    assert families(tmp_path / "RRequest.json") == {"RRequest": "rpc"}


def test_jars_in_a_folder_without_schemas_are_passed_over(tmp_path: Path) -> None:
    jar(tmp_path / "slf4j-api-2.0.jar")
    jar(tmp_path / "kafka-raft-1.0.jar", common__message__A=schema("A"))
    assert families(tmp_path) == {"A": "raft"}
    assert "no schema inside" in refusal(tmp_path / "slf4j-api-2.0.jar")


def test_old_files_need_no_flexible_versions_and_prose_comes_only_when_asked_for(tmp_path: Path) -> None:
    text = '{"name": "A", "type": "data", "validVersions": 0, "fields": [{"name": "F", "type": "int8", \
            "versions": "0", "about": "F."}]} // x\n] }'
    (tmp_path / "A.json").write_text(text)
    (read,) = sources.read(tmp_path)
    assert (read.schema["validVersions"], read.schema["flexibleVersions"]) == ("0", "none")
    assert read.schema["fields"][0]["about"] == "F."
    (read,) = sources.read(tmp_path, prose=False)
    assert "about" not in read.schema["fields"][0]


# releases


def labels(*given: Path) -> list[str]:
    return [release.label for release in sources.releases([sources.read(path) for path in given])]


def test_the_numbers_order_releases_whatever_the_order_given(tmp_path: Path) -> None:
    given = [
        jar(tmp_path / f"kafka-clients-{release}.jar", common__message__A=schema("A"))
        for release in ("4.9.1", "4.10.0-rc1", "3.9.2", "4.10.0")
    ]
    assert labels(*given) == ["4.10.0", "4.10.0-rc1", "4.9.1", "3.9.2"]
    assert labels(tmp_path) == ["4.10.0", "4.10.0-rc1", "4.9.1", "3.9.2"]


def test_the_order_given_decides_where_one_has_no_number(tmp_path: Path) -> None:
    old = jar(tmp_path / "kafka-clients-1.0.jar", common__message__A=schema("A"))
    new = jar(tmp_path / "kafka-clients-2.0.jar", common__message__A=schema("A"))
    mine = jar(tmp_path / "mine.jar", common__message__A=schema("A"))
    assert labels(old, mine, new) == ["1.0", "argument 2", "2.0"]


def test_the_release_of_a_jar_with_another_name_is_read_from_its_content(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.jar", "w") as archive:
        archive.writestr("kafka/kafka-version.properties", "commitId=1\nversion=4.4.0\n")
        archive.writestr("message/A.json", schema("A"))
    assert labels(tmp_path / "x.jar") == ["4.4.0"]


def test_one_release_has_one_schema_of_a_name(tmp_path: Path) -> None:
    one = jar(tmp_path / "a" / "kafka-clients-1.0.jar", message__A=schema("A"))
    same = jar(tmp_path / "b" / "kafka-clients-1.0.jar", message__A=schema("A"))
    other = jar(tmp_path / "c" / "kafka-raft-1.0.jar", message__A=schema("A", validVersions="0-1"))
    assert labels(one, same) == ["1.0"]
    with pytest.raises(SchemaError, match=r"kafka-raft-1\.0\.jar, message/A\.json: A of 1\.0 is in .* too"):
        labels(one, other)


# what is none, and what strangers made


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "line 1, column 2"),
        ("[]", "a schema is a JSON object"),
        ('{"type": "data"}', "the key 'name' is missing"),
        ('{"name": "M", "type": "data", "fields": ["x"]}', "must be an object"),
        ('{"name": "M", "type": "data", "validVersions": "x", "fields": []}', "no range of versions"),
        ('{"name": "M", "type": "data", "validVersions": "0", "fields": [{"name": "F", "tag": "x"}]}', "tag"),
        (schema("../../etc/passwd"), "will not do as a name"),
        (schema("A" * 300), "too long for the name of a file"),
        ("[" * 200_000, "nested too deeply"),
        (b"\xff", "is not UTF-8 (byte 0)"),
    ],
)
def test_a_file_that_is_no_schema_is_named(tmp_path: Path, text: str | bytes, says: str) -> None:
    message = refusal(jar(tmp_path / "kafka-clients-1.0.jar", message__A=text))
    assert "kafka-clients-1.0.jar, message/A.json" in message
    assert says in message


def test_a_jar_that_is_none(tmp_path: Path) -> None:
    assert "the file or folder does not exist" in refusal(tmp_path / "x.jar")
    (tmp_path / "x.jar").write_bytes(b"no zip")
    assert "x.jar: is no jar that can be read" in refusal(tmp_path / "x.jar")
    whole = jar(tmp_path / "y.jar", message__A=schema("A")).read_bytes()
    (tmp_path / "y.jar").write_bytes(whole[: len(whole) // 2])
    assert "y.jar: is no jar that can be read" in refusal(tmp_path / "y.jar")
    (tmp_path / "empty").mkdir()
    assert "there is no schema" in refusal(tmp_path / "empty")


@pytest.mark.slow
def test_flipped_bytes_in_a_jar_are_an_error_or_nothing(tmp_path: Path) -> None:
    whole = jar(tmp_path / "x.jar", message__A=schema("A"), message__B=schema("B")).read_bytes()
    for place in range(len(whole)):
        for flip in (0x01, 0x80, 0xFF):
            (tmp_path / "x.jar").write_bytes(whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :])
            try:
                read = sources.read(tmp_path / "x.jar")
            except SchemaError:
                continue
            assert {source.schema["name"] for source in read} <= {"A", "B"}


@pytest.mark.slow
def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    bomb = jar(tmp_path / "x.jar", message__A=b" " * (64 << 20))
    assert bomb.stat().st_size < 100_000
    assert "is longer than 4 MiB" in refusal(bomb)


def test_many_long_schemas_are_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "MAX_JAR", 1000)
    assert "its schemas are longer" in refusal(
        jar(tmp_path / "x.jar", **{f"message__{i}": schema(f"A{i}") for i in range(50)})
    )
    monkeypatch.setattr(sources, "MAX_FILES", 10)
    assert "more than 10 schemas" in refusal(tmp_path / "x.jar")


def test_a_size_that_the_directory_claims_is_not_believed(tmp_path: Path) -> None:
    whole = bytearray(jar(tmp_path / "x.jar", message__A=schema("A")).read_bytes())
    entry = whole.index(b"PK\x01\x02")
    struct.pack_into("<I", whole, entry + 24, 0x7FFFFFFF)
    (tmp_path / "x.jar").write_bytes(whole)
    with suppress(SchemaError):
        assert families(tmp_path / "x.jar") == {"A": "common"}


def test_an_entry_with_an_absurd_name_goes_nowhere(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.jar", "w") as archive:
        for name in ("../../message/A.json", "/message/B.json", "common/message/../../C.json", "message/\x1b[31m.json"):
            archive.writestr(name, schema("Evil"))
    assert [source.schema["name"] for source in sources.read(tmp_path / "x.jar")] == ["Evil"]
