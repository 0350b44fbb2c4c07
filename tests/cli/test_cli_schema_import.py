"""`kafkawire schema import`: jars and folders to schemas, to a package that works; and what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire.codegen.generate import load
from tests.cli.runner import Run
from tools.import_schemas import __main__ as importer
from tools.import_schemas import schema_jars

pytestmark = pytest.mark.slow

SHIPPED = Path(kafkawire.__file__).parent / "schemas"

ROUND_TRIP = """
import sys
import package
for name in package.__all__:
    message = getattr(package, name)
    for version in message.spec.valid_versions:
        data = message().encode(version=version)
        assert message.decode(data, version=version, strict=True) == message(), (name, version)
        print(name, version, data.hex())
"""


def schema(name: str, valid: str = "0", *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    given = {"name": name, "type": "data", "validVersions": valid, "flexibleVersions": "none", "fields": [*fields]}
    return given | more


def jar(path: Path, *schemas: dict[str, Any]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for one in schemas:
            archive.writestr(f"common/message/{one['name']}.json", "// a comment\n" + json.dumps(one))
    return path


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def kafka_jar(artifact: str, release: str) -> Path:
    try:
        with redirect_stderr(StringIO()):  # what is fetched is not the command's own word
            schema_jars.fetch(importer.CACHE, [(artifact, release)])
    except schema_jars.JarError as error:
        pytest.skip(f"no jar: {error}")
    return schema_jars.find(importer.CACHE, artifact, release)


def round_trips(package: Path) -> dict[tuple[str, int], str]:
    """What a generated package writes: (message, version) -> hex of its defaults."""
    done = subprocess.run([sys.executable, "-c", ROUND_TRIP], cwd=package.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = (line.split(" ") for line in done.stdout.splitlines())
    return {(name, int(version)): data for name, version, data in lines}


@pytest.mark.parametrize(
    ("artifact", "release", "messages"),
    [("kafka-group-coordinator", "4.2.0", 44), ("kafka-clients", "2.4.1", 98), ("kafka-clients", "3.6.2", 146)],
)
def test_imports_an_unknown_release(run: Run, tmp_path: Path, artifact: str, release: str, messages: int) -> None:
    result = run("schema", "import", kafka_jar(artifact, release), "-o", tmp_path / "schemas")
    assert result.code == 0
    assert result.text.splitlines()[-1].endswith(f"message-versions, of {release}")
    assert len(files(tmp_path / "schemas")) == messages
    assert run("schema", "generate", "--schemas", tmp_path / "schemas", "--output", tmp_path / "package").code == 0
    written = round_trips(tmp_path / "package")
    assert {name for name, _ in written} == {message.name for message in load(tmp_path / "schemas")}
    if release == "4.2.0":  # whose layouts are those of today
        for (name, version), data in written.items():
            assert kafkawire.lookup(name)().encode(version=version).hex() == data, name


def test_imports_several_releases_at_once(run: Run, tmp_path: Path) -> None:
    given = [kafka_jar("kafka-clients", release) for release in ("2.4.1", "3.6.2", "3.4.1")]
    assert run("schema", "import", *given, "-o", tmp_path / "out").text.endswith("of 3.6.2, 3.4.1, 2.4.1\n")
    fields = json.loads((tmp_path / "out" / "rpc" / "FetchRequest.json").read_bytes())["fields"]
    assert ["MaxWait"] in [field.get("aliases") for field in fields]


def test_importing_our_schemas_changes_nothing(run: Run, tmp_path: Path) -> None:
    assert run("schema", "import", SHIPPED / "kafka", "-o", tmp_path).code == 0
    assert files(tmp_path) == files(SHIPPED / "kafka")
    assert all((tmp_path / file).read_bytes() == (SHIPPED / "kafka" / file).read_bytes() for file in files(tmp_path))


def test_prints_each_file_and_its_outcome(run: Run, tmp_path: Path) -> None:
    new = jar(
        tmp_path / "kafka-raft-2.0.jar", schema("A", "1"), {"name": "Gone", "type": "data", "validVersions": "none"}
    )
    old = jar(tmp_path / "kafka-raft-1.0.jar", schema("A", "0-1"))
    out = tmp_path / "out"
    (out / "raft").mkdir(parents=True)
    (out / "raft" / "Own.json").write_text("{}")
    assert run("schema", "import", old, new, "-o", out).text.splitlines() == [
        f"created  {out}/raft/A.json",
        f"kept     {out}/raft/Own.json: no input has it",
        "left out Gone: no input has a version of it",
        "1 message (raft 1), 2 message-versions, of 2.0, 1.0",
    ]
    assert run("schema", "import", old, new, "-o", out).text.splitlines()[0].startswith("kept")
    assert files(out) == {"raft/A.json", "raft/Own.json"}


def test_keeps_an_edited_file_unless_forced(run: Run, tmp_path: Path) -> None:
    given, out = jar(tmp_path / "kafka-raft-1.0.jar", schema("A"), schema("B")), tmp_path / "out"
    run("schema", "import", given, "-o", out)
    (out / "raft" / "A.json").write_text("mine")
    (out / "raft" / "B.json").unlink()
    refused = run("schema", "import", given, "-o", out)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "A.json exists and differs (1 in all): --force overwrites" in refused.err
    assert files(out) == {"raft/A.json"}
    assert run("schema", "import", given, "-o", out, "--force").text.splitlines()[:2] == [
        f"changed  {out}/raft/A.json",
        f"created  {out}/raft/B.json",
    ]


def test_rejects_conflicting_releases_without_newest_wins(run: Run, tmp_path: Path) -> None:
    new = jar(tmp_path / "kafka-raft-2.0.jar", schema("A", "0", {"name": "F", "type": "int8", "versions": "0"}))
    old = jar(tmp_path / "kafka-raft-1.0.jar", schema("A", "0", {"name": "F", "type": "int16", "versions": "0"}))
    refused = run("schema", "import", old, new, "-o", tmp_path / "out")
    assert refused.code == 1
    assert refused.err == ("error: 1 versions are laid out otherwise by an older release, A 0 of 1.0 first: "
                           "--newest-wins takes the newest layout\n")  # fmt: skip
    assert not (tmp_path / "out").exists()
    printed = run("schema", "import", old, new, "-o", tmp_path / "out", "--newest-wins").text
    assert "newest   A 0 of 1.0 is laid out otherwise there" in printed
    assert json.loads((tmp_path / "out" / "raft" / "A.json").read_bytes())["fields"][0]["type"] == "int8"


def test_imports_into_a_family_of_its_own(run: Run, tmp_path: Path) -> None:
    given = jar(tmp_path / "kafka-raft-1.0.jar", schema("A"))
    run("schema", "import", given, "-o", tmp_path / "out", "--family", "mine")
    assert files(tmp_path / "out") == {"mine/A.json"}
    for family in ("../x", "a/b", "", ".", "x" * 100):
        assert run("schema", "import", given, "-o", tmp_path / "out", "--family", family).code == 2


@pytest.mark.parametrize(
    ("name", "says"), [("../../x", "will not do as a name"), ("A" * 300, "too long"), ("a/b", "will not do")]
)
def test_writes_nothing_outside_the_folder(run: Run, tmp_path: Path, name: str, says: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.jar", "w") as archive:
        archive.writestr("message/A.json", json.dumps(schema(name)))
    before = files(tmp_path)
    refused = run("schema", "import", tmp_path / "x.jar", "-o", tmp_path / "out" / "deep")
    assert refused.code == 1
    assert says in refused.err
    assert files(tmp_path) == before


@pytest.mark.parametrize("content", [b"", b"no zip", b"PK\x03\x04" + b"\0" * 100, b"PK\x05\x06" + b"\xff" * 18])
def test_file_that_is_no_jar_is_a_one_line_error(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.jar").write_bytes(content)
    for given in ("x.jar", "missing.jar", "."):
        refused = run("schema", "import", tmp_path / given, "-o", tmp_path / "out")
        assert refused.code == 1
        assert refused.err.startswith(f"error: {tmp_path}")
        assert refused.err.count("\n") == 1


def test_schemas_that_cannot_be_merged_are_a_one_line_error(run: Run, tmp_path: Path) -> None:
    new, old = (jar(tmp_path / f"kafka-raft-{at}.0.jar", schema("A", at)) for at in ("5", "1"))
    refused = run("schema", "import", old, new, "-o", tmp_path / "out")
    assert (refused.code, refused.err) == (
        1,
        "error: A: no input has versions 2 to 4: give a release between those that were given, too\n",
    )
