"""The wheel: what it installs, and that it works without the source tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

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
    folder = tmp_path_factory.mktemp("source") / "source"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    return folder


def built(source: Path, output: Path, *options: str, path: str = os.environ["PATH"]) -> None:
    """Runs the build frontend, in an environment of its own, with what the engine needs from earlier builds."""
    command = [sys.executable, "-m", "build", "--outdir", str(output), *options, str(source)]
    environment = os.environ | {"PATH": path, "CARGO_TARGET_DIR": str(ROOT / "native" / "target")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode and "No matching distribution" in done.stdout + done.stderr:
        pytest.skip("the package index cannot be reached, so the build's own requirements cannot be installed")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def distributions(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("distributions")
    built(source, folder)
    return folder


@pytest.fixture(scope="module")
def wheel(distributions: Path) -> Path:
    (path,) = distributions.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return interpreter_with(wheel, tmp_path_factory.mktemp("venv"))


@pytest.fixture(scope="module")
def python_without_rust(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of a wheel that was built where no Rust compiler is on the path."""
    folder = tmp_path_factory.mktemp("without_rust")
    folders = os.environ["PATH"].split(os.pathsep)
    path = os.pathsep.join(f for f in folders if not any((Path(f) / tool).exists() for tool in ("cargo", "rustc")))
    built(source, folder, "--wheel", path=path)
    (wheel,) = folder.glob("*.whl")
    return interpreter_with(wheel, folder / "venv")


def interpreter_with(wheel: Path, folder: Path) -> Path:
    """The interpreter of a venv that holds the wheel; its dependencies are those of the running interpreter."""
    venv.create(folder, with_pip=False)
    path = folder / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--python", str(path), "install", "-q", "--no-deps", str(wheel)]
    subprocess.run(command, check=True)
    site = subprocess.run(
        [path, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # Only a path, and behind the venv's own: editable installs there stay out of sight.
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return path


def run(python: Path, *arguments: str, wanted: str = "") -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"KAFKAWIRE_BACKEND": wanted}
    return subprocess.run([python, *arguments], capture_output=True, text=True, env=environment, cwd=python.parent)


@pytest.mark.skipif(not HAS_RUST, reason="needs a Rust compiler")
def test_a_wheel_from_the_sdist_holds_the_engine(distributions: Path, wheel: Path, python: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"native/Cargo.toml", "native/src/lib.rs", "native/build.rs"} <= names
    assert not any(name.startswith(("native/target", "native/Cargo.lock", "tests")) for name in names)
    engines = [name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("kafkawire/_native.")]
    assert any(not name.endswith(".pyi") for name in engines)
    program = "import kafkawire; print(kafkawire.backend)"
    for wanted in ("", "native"):
        assert run(python, "-c", program, wanted=wanted).stdout == "native\n"
    assert run(python, "-c", program, wanted="python").stdout == "python\n"
    assert "native" in run(python, "-m", "kafkawire", "--version").stdout


def test_without_a_rust_compiler_the_package_is_pure_python_and_says_so(
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
    done = run(python_without_rust, "-c", PROGRAM, str(ping_schemas(tmp_path)))
    assert done.returncode == 0, done.stderr


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
