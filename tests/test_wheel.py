"""The wheel: what it installs, and that it works without the source tree."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    # A clone, so that neither build leftovers nor files outside version control can get into the wheel.
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder / "source")], check=True)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(folder / "source")],
        capture_output=True,
        text=True,
    )
    if done.returncode and "No matching distribution" in done.stdout + done.stderr:
        pytest.skip("the package index cannot be reached, so the build's own requirements cannot be installed")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a venv that holds the wheel; its dependencies are those of the running interpreter."""
    folder = tmp_path_factory.mktemp("venv")
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
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    (schemas / "PingRequest.json").write_text(json.dumps(SCHEMA))
    subprocess.run([python, "-c", PROGRAM, str(schemas)], cwd=tmp_path, check=True)


def test_command_line_works_without_the_source(python: Path, tmp_path: Path) -> None:
    schemas, output = tmp_path / "schemas", tmp_path / "my_codecs"
    schemas.mkdir()
    (schemas / "PingRequest.json").write_text(json.dumps(SCHEMA))
    command = python.parent / "kafkawire"

    def run(*arguments: str) -> str:
        return subprocess.run([command, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert run("encode", "DescribeTransactionsRequest", "--version", "0", '{"transactionalIds": ["a"]}').strip() == (
        "02026100"
    )
    assert json.loads(run("decode", "DescribeTransactionsRequest", "--version", "0", "02026100")) == {
        "transactionalIds": ["a"]
    }
    run("schema", "generate", "--schemas", str(schemas), "--output", str(output))
    program = "from my_codecs import PingRequest; print(PingRequest(nonce=1).encode(0).hex())"
    done = subprocess.run([python, "-c", program], cwd=tmp_path, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "0000000000000001"
