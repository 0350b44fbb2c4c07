"""`generate` and `render`: tiny schema -> exact source, and what may change when a schema does."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kafkawire
from kafkawire.codegen import __main__ as package
from kafkawire.codegen import generate
from kafkawire.codegen.render import render_module
from kafkawire.errors import ForeignFileError, SchemaError
from tests import golden

pytestmark = pytest.mark.slow

ROOT = Path(kafkawire.__file__).parents[1]
FIXED = {
    "name": "PingRequest",
    "type": "request",
    "apiKey": 1,
    "validVersions": "0-1",
    "flexibleVersions": "none",
    "about": "Asks for an answer.",
    "fields": [
        {"name": "Nonce", "type": "int64", "versions": "0+", "about": "Comes back in the answer."},
        {"name": "Urgent", "type": "bool", "versions": "1+", "default": "true"},
    ],
}
EVERYTHING = {
    "name": "KitchenSink",
    "type": "data",
    "validVersions": "0-3",
    "flexibleVersions": "2+",
    "commonStructs": [
        {
            "name": "Point",
            "versions": "0+",
            "fields": [
                {"name": "X", "type": "int32", "versions": "0+", "mapKey": True},
                {"name": "Y", "type": "int32", "versions": "0+", "default": "-1"},
            ],
        }
    ],
    "fields": [
        {"name": "Id", "type": "uuid", "versions": "0+"},
        {"name": "Title", "type": "string", "versions": "0+", "nullableVersions": "1+", "default": "none"},
        {"name": "Points", "type": "[]Point", "versions": "0+"},
        {"name": "Numbers", "type": "[]int16", "versions": "1+", "nullableVersions": "1+", "default": "null"},
        {"name": "Home", "type": "Point", "versions": "1+", "nullableVersions": "2+"},
        {"name": "Blob", "type": "bytes", "versions": "0+", "zeroCopy": True},
        {"name": "Weight", "type": "float64", "versions": "0-1", "ignorable": True},
        {"name": "Old", "type": "int8", "versions": "0"},
        {"name": "Tags", "type": "[]string", "versions": "2+", "taggedVersions": "2+", "tag": 0},
        {"name": "Note", "type": "string", "versions": "3+", "taggedVersions": "3+", "tag": 1,
         "nullableVersions": "3+", "default": "null", "aliases": ["Remark"]},
        {"name": "Far", "type": "Point", "versions": "3+", "taggedVersions": "3+", "tag": 2,
         "nullableVersions": "3+", "default": "null"},
    ],
}  # fmt: skip


def folder_of(tmp_path: Path, *schemas: dict[str, object]) -> Path:
    folder = tmp_path / "tiny"
    folder.mkdir(exist_ok=True)
    for schema in schemas:
        (folder / f"{schema['name']}.json").write_text(json.dumps(schema))
    return folder


def test_source_of_a_fixed_message(tmp_path: Path) -> None:
    (message,) = generate.load(folder_of(tmp_path, FIXED))
    golden.check("codegen/ping_request.py.txt", render_module(message))


def test_source_of_a_message_with_everything(tmp_path: Path) -> None:
    (message,) = generate.load(folder_of(tmp_path, EVERYTHING))
    golden.check("codegen/kitchen_sink.py.txt", render_module(message))


def test_source_of_a_package(tmp_path: Path) -> None:
    messages = generate.load(folder_of(tmp_path, FIXED, EVERYTHING))
    golden.check("codegen/package.py.txt", generate.package_files(messages, "Two messages.")["__init__.py"])


#: Names that annotations, decoders and modules use.
NAMES = (
    "Bool Bytes Classic Copy Data Elements Field Flexible Float Id Int Kafkawire Len List Message Mro None Object Out"
)
NAMES += " Partial Property Range Run Self Spec Str Strided Struct Tuple Type Typing Unknown Uuid Values Version Wire"


def fields_and_structs_named_as_types() -> tuple[dict[str, object], dict[str, object]]:
    types = ("string", "bytes", "uuid", "[]string", "bool", "float64")
    named: list[dict[str, object]] = [
        {"name": name, "type": types[index % 3], "versions": f"{index % 2}+"}
        for index, name in enumerate(NAMES.split())
    ]
    last = [{"name": f"Last{index}", "type": kind, "versions": "0+"} for index, kind in enumerate(types)]
    structs = [
        {"name": f"Of{name}", "type": f"[]{name}", "versions": "0+", "fields": [{**one, "versions": "0+"}]}
        for name, one in zip(NAMES.split(), named, strict=True)
        if name != "None"
    ]
    message = {"type": "data", "validVersions": "0-1", "flexibleVersions": "1+"}
    return message | {"name": "Fields", "fields": named + last}, message | {"name": "Structs", "fields": structs}


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the generated packages `my_codecs` and `named_as_types`."""
    folder = tmp_path_factory.mktemp("packages")
    for name, schemas in {
        "my_codecs": (FIXED, EVERYTHING),
        "named_as_types": fields_and_structs_named_as_types(),
    }.items():
        messages = generate.load(folder_of(tmp_path_factory.mktemp("schemas"), *schemas))
        generate.write(generate.package_files(messages, "Mine."), folder / name)
    return folder


def test_generated_package_is_imported_and_needs_the_runtime_only(packages: Path) -> None:
    program = (
        "from my_codecs import KitchenSink, PingRequest\n"
        "from my_codecs.kitchen_sink import Point\n"
        "m = KitchenSink(points=(Point(1, 2), Point(3)), title=None, numbers=(1, 2), home=Point(5, 6), note='hi')\n"
        "assert KitchenSink.decode(m.encode(3), 3) == m\n"
        "assert PingRequest(nonce=7).encode(0) == (7).to_bytes(8, 'big')\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=packages, check=True)
    text = "".join(path.read_text() for path in (packages / "my_codecs").glob("*.py"))
    assert set(re.findall(r"^ *(?:from|import) (kafkawire\S*)", text, re.M)) == {"kafkawire.runtime"}


@pytest.mark.parametrize(
    "backend", ["python", "native"] if importlib.util.find_spec("kafkawire._native") else ["python"]
)
def test_fields_named_as_types_modules_and_builtins_generate_sound_code(packages: Path, backend: str) -> None:
    program = (
        "from named_as_types import Fields, Structs\n"
        "for message in (Fields(), Structs()):\n"
        "    for version in (0, 1):\n"
        "        assert message.decode(message.encode(version), version) == message\n"
    )
    environment = os.environ | {"KAFKAWIRE_BACKEND": backend}
    subprocess.run([sys.executable, "-c", program], cwd=packages, check=True, env=environment)


def test_generated_packages_type_check(packages: Path) -> None:
    mypy = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--cache-dir", "cache"]
    checked = subprocess.run(
        [*mypy, "-p", "my_codecs", "-p", "named_as_types"],
        cwd=packages,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout
    config = {
        "typeCheckingMode": "strict",
        "include": ["my_codecs", "named_as_types"],
        "extraPaths": [str(ROOT)],
        "pythonVersion": "3.11",
    }
    (packages / "pyrightconfig.json").write_text(json.dumps(config))
    pyright = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(packages)]
    checked = subprocess.run(pyright, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def test_generating_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, FIXED, EVERYTHING)
    first = generate.package_files(generate.load(folder), "")
    assert first == generate.package_files(generate.load(folder), "")
    # Sets must not leak their order into the text: another process has other hashes.
    program = (
        "import sys; from pathlib import Path; from kafkawire.codegen import generate\n"
        "sys.stdout.write(repr(generate.package_files(generate.load(Path(sys.argv[1])), '')))"
    )
    other = subprocess.run(
        [sys.executable, "-c", program, str(folder)],
        env={"PYTHONHASHSEED": "1234", "PYTHONPATH": str(Path(kafkawire.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout == repr(first)


def test_renaming_a_field_changes_its_message_only(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, FIXED, EVERYTHING)
    output = tmp_path / "out"
    generate.write(generate.package_files(generate.load(folder), ""), output)
    renamed = json.loads(json.dumps(FIXED))
    renamed["fields"][0]["name"] = "Number"
    folder_of(tmp_path, renamed)
    changed = generate.write(generate.package_files(generate.load(folder), ""), output)
    assert [(change.path.name, change.what) for change in changed] == [("ping_request.py", "differs")]


def test_a_removed_schema_takes_its_module_away_and_leaves_strangers_alone(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, FIXED, EVERYTHING)
    output = tmp_path / "out"
    generate.write(generate.package_files(generate.load(folder), ""), output)
    (output / "mine.py").write_text("# written by hand\n")
    (folder / "PingRequest.json").unlink()
    changed = generate.write(generate.package_files(generate.load(folder), ""), output)
    assert [(c.path.name, c.what) for c in changed] == [("__init__.py", "differs"), ("ping_request.py", "left over")]
    assert (output / "mine.py").exists()
    assert not (output / "ping_request.py").exists()


def test_a_file_that_was_not_generated_is_never_overwritten(tmp_path: Path) -> None:
    files = generate.package_files(generate.load(folder_of(tmp_path, FIXED, EVERYTHING)), "")
    output = tmp_path / "out"
    output.mkdir()
    (output / "ping_request.py").write_text("# written by hand\n")
    with pytest.raises(ForeignFileError, match=r"ping_request\.py was not generated"):
        generate.write(files, output)
    assert [path.name for path in output.iterdir()] == ["ping_request.py"]
    assert (output / "ping_request.py").read_text() == "# written by hand\n"


def test_texts_of_a_schema_cannot_become_code(tmp_path: Path) -> None:
    hostile = 'x""" + __import__("os").abort() + """\\\n\' " \\'
    schema = json.loads(json.dumps(FIXED))
    schema["about"] = hostile
    schema["fields"][0]["about"] = hostile
    loaded = kafkawire.load_schemas(folder_of(tmp_path, schema))
    assert loaded.PingRequest.spec.about == " ".join(hostile.split())
    assert loaded.PingRequest.spec.fields[0].about == " ".join(hostile.split())


def test_names_that_python_has_already(tmp_path: Path) -> None:
    names = [
        "From", "Class", "Spec", "Decode", "B", "P", "N", "Tagged", "None", "Self", "Type", "Out", "O", "Version",
        "Wire", "Unknown", "Values", "Value", "Range", "Tuple", "Uuid", "Classic", "Flexible", "Codec", "Message",
        "Struct", "Field", "ReadOnly", "MakeUuid", "UnpackU", "PackU", "ReadUnknownTags", "UnknownTags", "Len", "Run",
    ]  # fmt: skip
    schema = {
        "name": "Awkward",
        "type": "data",
        "validVersions": "0-1",
        "flexibleVersions": "1+",
        "fields": [{"name": name, "type": "string", "versions": "0+"} for name in names]
        + [{"name": "Nested", "type": "[]Wire", "versions": "0+", "fields": [
            {"name": "Buffer", "type": "uuid", "versions": "0+"}]},
          {"name": "Uuids", "type": "[]uuid", "versions": "1+", "ignorable": True},
          {"name": "Elements", "type": "[]Elements", "versions": "0+", "fields": [
            {"name": "Range", "type": "string", "versions": "1+", "ignorable": True},
            {"name": "B", "type": "int8", "versions": "0+"}]}],
    }  # fmt: skip
    cls = kafkawire.load_schemas(folder_of(tmp_path, schema)).Awkward
    nested = cls.spec.field("Nested").struct
    values = {field.attribute: field.name for field in cls.spec.fields if field.type == "string"}
    message = cls(**values, nested=(nested(),))
    for version in (0, 1):
        assert cls.decode(message.encode(version), version) == message
        assert kafkawire.from_json(cls, kafkawire.to_json(message, version), version) == message


@pytest.mark.parametrize(("first", "second"), [("FooBar", "fooBAR"), ("From", "from_")])
def test_two_names_that_become_one_in_python(tmp_path: Path, first: str, second: str) -> None:
    schema = {
        "name": "Twice",
        "type": "data",
        "validVersions": "0",
        "flexibleVersions": "none",
        "fields": [{"name": name, "type": "int8", "versions": "0+"} for name in (first, second)],
    }
    with pytest.raises(SchemaError) as caught:
        kafkawire.load_schemas(folder_of(tmp_path, schema))
    assert "Twice.json" in str(caught.value)


def test_generating_the_package_names_what_was_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [[generate.Difference(ROOT / "kafkawire" / "a.py", what)] for what in generate.DONE]
    drafts = ("kip-360", "kip-664-draft")
    monkeypatch.setattr(package, "NAMESPACES", {folder: package.NAMESPACES[folder] for folder in drafts})
    monkeypatch.setattr(generate, "write", lambda files, output: changes.pop() if changes else [])
    assert package.main(check=False) == 0
    shown = capsys.readouterr().out.splitlines()
    assert sorted(shown) == [f"kafkawire/a.py: {done}" for done in ("changed", "created", "removed")]


def test_the_packages_own_code_is_what_its_schemas_give() -> None:
    done = subprocess.run([sys.executable, "-m", "kafkawire.codegen", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
