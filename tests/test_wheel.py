"""The wheel: what it installs, and that it works without the source tree."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from packaging.metadata import Metadata

from tools.wheels import building, cross, pyz, sbom, sizes
from tools.wheels.__main__ import SMOKE

pytestmark = [pytest.mark.slow, pytest.mark.deployment]

PROGRAM = """
import sys, kafkawire
from pathlib import Path
assert Path(kafkawire.__file__).is_relative_to(sys.prefix), kafkawire.__file__
from kafkawire.messages import DescribeProducersResponse as D
assert D.decode(D(throttle_time_ms=5).encode(0), 0).throttle_time_ms == 5
loaded = kafkawire.load_schemas(sys.argv[1])
assert loaded.PingRequest(nonce=7).encode(0) == (7).to_bytes(8, "big")
"""

SCHEMA = {
    "name": "PingRequest",
    "type": "request",
    "apiKey": 1,
    "validVersions": "0",
    "flexibleVersions": "none",
    "fields": [{"name": "Nonce", "type": "int64", "versions": "0+"}],
}


HAS_RUST = shutil.which("cargo") is not None


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone, so that neither build leftovers nor files outside version control can get into a wheel."""
    if not (building.ROOT / ".git").exists():
        pytest.skip("needs a checkout")
    return building.clone(tmp_path_factory.mktemp("source") / "source")


@pytest.fixture(scope="module")
def sdist(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with reachable():
        return building.sdist(source, tmp_path_factory.mktemp("sdist"))


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With the native engine, where there is a Rust compiler."""
    with reachable():
        folder = tmp_path_factory.mktemp("wheel")
        return building.wheel(sdist, folder, Path(sys.executable), "native" if HAS_RUST else "")


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interpreter_with(wheel, tmp_path_factory.mktemp("venv"))


@pytest.fixture(scope="module")
def pure_wheel(checkout_without_links: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built where no Rust compiler is on the path, from a checkout without links."""
    folder = tmp_path_factory.mktemp("without_rust")
    with reachable():
        return building.wheel(checkout_without_links, folder, Path(sys.executable), "", {"PATH": path_without_rust()})


@pytest.fixture(scope="module")
def python_without_rust(pure_wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interpreter_with(pure_wheel, tmp_path_factory.mktemp("venv_without_rust"))


def path_without_rust() -> str:
    folders = os.environ["PATH"].split(os.pathsep)
    return os.pathsep.join(f for f in folders if not any((Path(f) / tool).exists() for tool in ("cargo", "rustc")))


@pytest.fixture(scope="module")
def checkout_without_links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone as on Windows: `kafkawire/codegen` and `kafkawire/schemas` are plain files."""
    if not (building.ROOT / ".git").exists():
        pytest.skip("needs a checkout")
    folder = building.clone(tmp_path_factory.mktemp("plain") / "source", links=False)
    assert (folder / "kafkawire" / "codegen").read_text() == "../codegen"
    return folder


@contextmanager
def reachable() -> Iterator[None]:
    """Builds install what they need: without an index of packages nothing can be tested."""
    try:
        yield
    except building.Unreachable as error:
        pytest.skip(f"an index of packages cannot be reached: {str(error)[-300:]}")


def interpreter_with(wheel: Path, folder: Path) -> Path:
    """The interpreter of a venv that holds the wheel; its dependencies are those of the running interpreter."""
    path = building.environment(Path(sys.executable), folder)
    building.run([*building.pip(path), "install", "-q", "--no-deps", wheel])
    see_dependencies(path)
    return path


def see_dependencies(path: Path) -> None:
    """Gives an interpreter of a venv the dependencies of the running one."""
    purelib = [path, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"]
    site = Path(building.run(purelib).strip())
    # Only paths, and behind the venv's own: editable installs there stay out of sight.
    folders = [folder for folder in sys.path if Path(folder).name == "site-packages"]
    (site / "dependencies.pth").write_text("".join(f"{folder}\n" for folder in folders))


def run(python: Path, *arguments: str, wanted: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KAFKAWIRE_BACKEND": wanted}
    return subprocess.run([python, *arguments], capture_output=True, text=True, env=environment, cwd=python.parent)


@pytest.mark.skipif(not HAS_RUST, reason="needs a Rust compiler")
def test_a_wheel_from_the_sdist_holds_the_engine(sdist: Path, wheel: Path, python: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"native/Cargo.toml", "native/src/lib.rs", "native/build.rs"} <= names
    assert not any(name.startswith(("native/target", "native/Cargo.lock")) for name in names)
    assert building.engine(wheel)
    done = run(python, "-I", str(SMOKE), "native")
    assert done.returncode == 0, done.stderr
    program = "import kafkawire; print(kafkawire.backend)"
    for wanted in ("", "native"):
        assert run(python, "-c", program, wanted=wanted).stdout == "native\n"
    assert run(python, "-c", program, wanted="python").stdout == "python\n"
    assert "native" in run(python, "-m", "kafkawire", "--version").stdout


def test_without_a_rust_compiler_the_package_is_pure_python_and_reports_it(
    python_without_rust: Path, tmp_path: Path
) -> None:
    program = "import kafkawire; print(kafkawire.backend)"
    for wanted in ("", "python"):
        done = run(python_without_rust, "-c", program, wanted=wanted)
        assert (done.stdout, done.stderr) == ("python\n", "")
    forced = run(python_without_rust, "-c", program, wanted="native")
    assert forced.returncode != 0
    assert "the native engine is not installed" in forced.stderr
    assert "python" in run(python_without_rust, "-m", "kafkawire", "--version").stdout
    for program in (["-I", str(SMOKE), "python"], ["-c", PROGRAM, str(ping_schemas(tmp_path))]):
        done = run(python_without_rust, *program)
        assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux" or not HAS_RUST, reason="needs Linux and a Rust compiler")
def test_a_repaired_wheel_names_the_machines_that_it_runs_on(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("auditwheel")
    repaired = building.repaired(wheel, tmp_path)
    assert "-manylinux_2_" in repaired.name
    assert building.engine(repaired) == building.engine(wheel)
    os.utime(wheel)
    again = building.repaired(wheel, tmp_path / "again")
    assert (again.name, again.read_bytes()) == (repaired.name, repaired.read_bytes())
    done = run(interpreter_with(repaired, tmp_path / "venv"), "-I", str(SMOKE), "native")
    assert done.returncode == 0, done.stderr
    with pytest.raises(building.BuildError, match="was there already"):
        building.repaired(wheel, tmp_path)


def test_a_wheel_without_the_engine_is_for_every_platform(pure_wheel: Path) -> None:
    assert building.engine(pure_wheel) is None
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    assert "Root-Is-Purelib: true" in metadata(pure_wheel, "WHEEL")


def rust(folder: Path, *, works: bool) -> dict[str, str]:
    """PATH with a Cargo that fails, or with none."""
    if works:
        for name in ("cargo", "rustc"):
            path = folder / "bin" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("#!/bin/sh\necho no crates today >&2; exit 101\n")
            path.chmod(0o755)
    return {"PATH": os.pathsep.join([str(folder / "bin"), path_without_rust()])}


@pytest.mark.parametrize(("works", "reason"), [(False, "needs a Rust compiler"), (True, "exit code 101")])
def test_a_requested_engine_that_cannot_be_built_is_an_error(
    sdist: Path, tmp_path: Path, works: bool, reason: str
) -> None:
    with reachable(), pytest.raises(building.BuildError, match=f"KAFKAWIRE_BACKEND=native.*{reason}"):
        building.wheel(sdist, tmp_path, Path(sys.executable), "native", rust(tmp_path, works=works))


def test_an_engine_that_cannot_be_built_leaves_a_pure_wheel_and_one_line(
    sdist: Path, tmp_path: Path, pure_wheel: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with reachable():
        path = building.wheel(sdist, tmp_path, Path(sys.executable), "", rust(tmp_path, works=True))
    assert capsys.readouterr().out == (
        f"{path.name}: built in pure Python (the native engine could not be built, see above)\n"
    )
    # From an sdist or a checkout, with symbolic links or without: the same bytes.
    assert (path.name, path.read_bytes()) == (pure_wheel.name, pure_wheel.read_bytes())


def test_two_sdists_of_one_commit_are_equal(source: Path, sdist: Path, tmp_path: Path) -> None:
    os.utime(source / "README.md", (1e9, 1e9))
    (source / "setup.py").chmod(0o600)
    with reachable():
        assert building.sdist(source, tmp_path).read_bytes() == sdist.read_bytes()


@pytest.mark.skipif(not HAS_RUST, reason="needs a Rust compiler")
def test_a_second_build_without_network_is_equal(sdist: Path, wheel: Path, tmp_path: Path) -> None:
    """From an unpacked sdist elsewhere; nothing but crates is needed, and these were fetched by the first."""
    python = building.environment(Path(sys.executable), tmp_path / "venv")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    with reachable():
        building.run([*building.pip(python), "install", "-q", "setuptools", "setuptools-rust"], building.PINNED)
    (folder,) = tmp_path.glob("kafkawire-*")
    offline = {"CARGO_NET_OFFLINE": "true", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    offline["PIP_BUILD_CONSTRAINT"] = ""  # pip refuses it without isolation
    built = building.wheel(folder, tmp_path / "built", python, "native", offline)
    assert (built.name, built.read_bytes()) == (wheel.name, wheel.read_bytes())


def test_the_sdist_holds_what_is_committed(source: Path, sdist: Path) -> None:
    committed = set(building.run(["git", "-C", source, "ls-files"]).splitlines())
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    assert committed - held == {".gitignore", "kafkawire/codegen", "kafkawire/schemas"}


def test_an_unpacked_sdist_runs_its_tests(sdist: Path, tmp_path: Path) -> None:
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.glob("kafkawire-*")
    python = building.environment(Path(sys.executable), tmp_path / "venv")
    with reachable():
        command = [*building.pip(python), "install", "-q", "--no-deps", "-e", folder]
        building.run(command, building.PINNED | {"KAFKAWIRE_BACKEND": "python"})
    see_dependencies(python)
    assert (folder / "kafkawire" / "schemas" / "errors.json").exists()
    tests = ["tests/test_errors.py", "tests/codegen/test_steps.py", "tests/frames/test_frames_reader.py"]
    printed = building.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], {"KAFKAWIRE_BACKEND": ""}, cwd=folder
    )
    assert " passed" in printed


def metadata(wheel: Path, name: str) -> str:
    archive = zipfile.ZipFile(wheel)
    (path,) = (entry for entry in archive.namelist() if entry.endswith(f".dist-info/{name}"))
    return archive.read(path).decode()


def test_licences_of_what_a_wheel_holds_are_in_it(wheel: Path) -> None:
    assert "The Apache Software Foundation" in metadata(wheel, "licenses/NOTICE")
    assert "Yann Collet" in metadata(wheel, "licenses/LICENSE-THIRD-PARTY.txt")
    assert "License-File: NOTICE" in metadata(wheel, "METADATA")


def bill(wheel: Path) -> dict[str, Any]:
    pytest.importorskip("cyclonedx")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = metadata(wheel, sbom.PLACE)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    document: dict[str, Any] = json.loads(text)
    return document


def test_bill_of_materials_names_the_origin_of_the_schemas(pure_wheel: Path) -> None:
    assert {component["name"] for component in bill(pure_wheel)["components"]} == {"kafka-clients"}


@pytest.mark.skipif(not HAS_RUST, reason="needs a Rust compiler")
def test_bill_of_materials_names_the_crates_of_the_engine(wheel: Path) -> None:
    document = bill(wheel)
    components = {component["bom-ref"]: component for component in document["components"]}
    names = {component["name"] for component in components.values()}
    assert {"pyo3", "zstd-sys", "zstd", "lz4", "kafka-clients"} <= names
    assert not names & {"cc", "pyo3-macros", "syn"}  # they build the engine, and are not in it
    assert all(len(c["hashes"][0]["content"]) == 64 for c in components.values() if "pkg:cargo" in c["purl"])
    needed = {ref for entry in document["dependencies"] for ref in entry["dependsOn"]}
    assert needed == set(components)


def test_a_wheel_for_another_machine_is_the_pure_one_with_an_engine(pure_wheel: Path, tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip"]
    name = cross.file_name(pure_wheel, "3.14t", "musllinux_1_2_aarch64")
    assert name.endswith("-cp314-cp314t-musllinux_1_2_aarch64.whl")
    path = cross.assemble(pure_wheel, tmp_path / name, {"kafkawire/_native.x.so": b"engine"}, [])
    target = ["--target", str(tmp_path / "site"), "--platform", "musllinux_1_2_aarch64", "--abi", "cp314t"]
    building.run([*pip, "install", "-q", "--no-deps", "--python-version", "3.14", "--only-binary=:all:", *target, path])
    assert (tmp_path / "site" / "kafkawire" / "_native.x.so").read_bytes() == b"engine"
    assert "Root-Is-Purelib: false" in metadata(path, "WHEEL")
    record = metadata(path, "RECORD").splitlines()
    assert {line.split(",")[0] for line in record} == set(zipfile.ZipFile(path).namelist())
    again = cross.assemble(pure_wheel, tmp_path / "again" / name, {"kafkawire/_native.x.so": b"engine"}, [])
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.skipif(sys.platform == "win32", reason="needs pex")
def test_the_zip_runs_without_the_package(wheel: Path, tmp_path: Path) -> None:
    pytest.importorskip("pex")
    with reachable():
        path = pyz.make({Path(sys.executable): wheel}, "cli", tmp_path / "environments", tmp_path)
    python = building.environment(Path(sys.executable), tmp_path / "empty")
    environment = {"PEX_ROOT": str(tmp_path / "unpacked"), "HOME": str(tmp_path), "PATH": os.environ["PATH"]}

    def printed(*arguments: str, **more: str) -> str:
        command = [python, "-I", path, *arguments]
        done = subprocess.run(command, env=environment | more, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    assert "backend" in printed("--version")
    assert printed("decode", "EndTxnMarker", "--version", "0", "--compact", "00000000") == '{"coordinatorEpoch":0}\n'
    assert printed("--man").startswith(".TH KAFKAWIRE 1")
    asked = {"_KAFKAWIRE_COMPLETE": "complete_bash", "COMP_WORDS": "kafkawire txn fi", "COMP_CWORD": "2"}
    assert printed(**asked).split() == ["find-hanging"]


def ping_schemas(folder: Path) -> Path:
    schemas = folder / "schemas"
    schemas.mkdir()
    (schemas / "PingRequest.json").write_text(json.dumps(SCHEMA))
    return schemas


def test_one_top_level_name(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    assert {name for name in top if not name.endswith(".dist-info")} == {"kafkawire"}
    parts = (
        "py.typed",
        "codegen/render.py",
        "codegen/templates/module.py.jinja",
        "schemas/errors.json",
        "schemas/kafka/rpc/FetchRequest.json",
        "schemas/kip-360/DescribeTransactionStateRequest.json",
        "report/templates/report.html.jinja",
        "messages/fetch_request.py",
        "drafts/kip_664_draft/write_txn_markers_request.py",
    )
    for part in parts:
        assert f"kafkawire/{part}" in names


def test_description_links_to_no_file_of_the_repository(wheel: Path) -> None:
    text = metadata(wheel, "METADATA")
    assert "\n# kafkawire\n" in text
    assert not re.findall(r"\]\((?!https?:)[^)]*\)|<!--", text)


def test_metadata_is_valid_and_states_whose_the_package_is(wheel: Path) -> None:
    found = Metadata.from_email(metadata(wheel, "METADATA"), validate=True)
    assert found.author == "The kafkawire authors"
    assert found.license_expression == "Apache-2.0"
    assert {"kafka", "codec"} <= set(found.keywords or ())
    assert "Typing :: Typed" in (found.classifiers or ())
    assert (found.project_urls, found.home_page) == (None, None)  # there are none that are public


def test_a_checkout_without_links_gives_the_same_wheel(pure_wheel: Path, wheel: Path) -> None:
    files, expected = (
        {name for name in zipfile.ZipFile(path).namelist() if name.startswith("kafkawire/")}
        for path in (pure_wheel, wheel)
    )
    assert files == expected - {building.engine(wheel)}


def test_a_checkout_without_links_refuses_an_editable_install(checkout_without_links: Path, tmp_path: Path) -> None:
    python = building.environment(Path(sys.executable), tmp_path / "venv")
    command = [*building.pip(python), "install", "--no-deps", "-e", checkout_without_links]
    with reachable(), pytest.raises(building.BuildError, match="kafkawire/codegen is no link to a folder, which an ed"):
        building.run(command, building.PINNED | {"PATH": path_without_rust(), "KAFKAWIRE_BACKEND": ""})


def test_a_fresh_environment_has_few_packages_and_megabytes(wheel: Path, tmp_path: Path) -> None:
    with reachable():
        packages, megabytes, _ = sizes.measured(str(wheel), "", tmp_path / "venv")
    assert packages <= 7
    assert megabytes <= 16
    program = "from kafkawire.messages import EndTxnMarker as M; print(M.decode(bytes(4), 0).coordinator_epoch)"
    assert building.run([tmp_path / "venv" / "bin" / "python", "-I", "-c", program]) == "0\n"


def test_codecs_and_compiler_work_without_the_source(python: Path, tmp_path: Path) -> None:
    subprocess.run([python, "-c", PROGRAM, str(ping_schemas(tmp_path))], cwd=tmp_path, check=True)


def test_command_line_works_without_the_source(python: Path, tmp_path: Path) -> None:
    schemas, output = ping_schemas(tmp_path), tmp_path / "my_codecs"
    command = python.parent / "kafkawire"

    def printed(*arguments: str) -> str:
        return subprocess.run([command, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert printed(
        "encode", "DescribeTransactionsRequest", "--version", "0", '{"transactionalIds": ["a"]}'
    ).strip() == ("02026100")
    assert json.loads(printed("decode", "DescribeTransactionsRequest", "--version", "0", "02026100")) == {
        "transactionalIds": ["a"]
    }
    printed("schema", "generate", "--schemas", str(schemas), "--output", str(output))
    program = "from my_codecs import PingRequest; print(PingRequest(nonce=1).encode(0).hex())"
    done = subprocess.run([python, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "0000000000000001"
