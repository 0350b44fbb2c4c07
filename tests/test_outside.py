"""The package as a stranger's project has it: a wheel in a fresh environment, checked by mypy and pyright from there.

The checks of this repository read the package itself, where names that are private to others are still visible.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import own_schemas
from tools.wheels import building

pytestmark = [pytest.mark.slow, pytest.mark.deployment]

#: A program that uses the public surface; what a checker must know of it is asserted.
PROGRAM = Path(__file__).parent / "outside" / "program.py"
#: What asks classes for their annotations at run time, over every class.
INTROSPECTION = Path(__file__).parent / "outside" / "introspection.py"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment of its own, a program and a package that it generated."""
    if not (building.ROOT / ".git").exists():
        pytest.skip("needs a checkout")
    folder = tmp_path_factory.mktemp("outside")
    source = building.clone(folder / "source")
    try:
        wheel = building.wheel(source, folder / "wheel", Path(sys.executable), "", {"PATH": "/usr/bin:/bin"})
        python = building.environment(Path(sys.executable), folder / "venv")
        wanted = [f"{wheel}[cli,net]", "cattrs", "pydantic", "pytest"]
        building.run([*building.pip(python), "install", "-q", "-c", source / "constraints.txt", *wanted])
    except building.Unreachable as error:
        pytest.skip(f"an index of packages cannot be reached: {str(error)[-300:]}")
    project = folder / "project"
    project.mkdir()
    (project / "program.py").write_text(PROGRAM.read_text())
    (project / "introspection.py").write_text(INTROSPECTION.read_text())
    own_schemas.write(project / "schemas")
    command = [python.parent / "kafkawire", "schema", "generate", "--schemas", "schemas", "-o", "pinger"]
    subprocess.run(command, check=True, cwd=project)
    return project


def python_of(project: Path) -> Path:
    return project.parent / "venv" / "bin" / "python"


def run(project: Path, *command: str | Path) -> str:
    """What a command prints, run in the project without this checkout on the path; fails where the command does."""
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", "HOME": str(project)}
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mypy_strict(project: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python_of(project), "program.py"]
    assert "no issues" in run(project, *command, "pinger")


def test_pyright_strict(project: Path) -> None:
    settings: dict[str, object] = {
        "reportUnnecessaryTypeIgnoreComment": True,
        "include": ["program.py", "pinger"],
        "typeCheckingMode": "strict",
        "enableTypeIgnoreComments": False,
    }
    (project / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--pythonpath", python_of(project), "--outputjson"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] >= 4
    assert [one["message"] for one in found["generalDiagnostics"]] == []


def test_program_runs(project: Path) -> None:
    run(project, python_of(project), "program.py")


def test_fixtures_are_there_without_being_named(project: Path) -> None:
    tests = project / "tests"
    tests.mkdir()
    (tests / "test_it.py").write_text("def test_it(mock_broker): assert ':' in mock_broker.address\n")
    pytest_run = [python_of(project), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    assert "1 passed" in run(project, *pytest_run)
    done = subprocess.run([*pytest_run, "-p", "no:kafkawire"], cwd=project, capture_output=True, text=True)
    assert "fixture 'mock_broker' not found" in done.stdout
    # Runs that do not use it pay for no part of the package.
    loaded = "import kafkawire.testing.fixtures, sys; print(*(name for name in sys.modules if 'kafkawire' in name))"
    names = set(run(project, python_of(project), "-c", loaded).split())
    assert not names & {"kafkawire.messages", "kafkawire.wire", "kafkawire.testing.mock_broker"}


def test_pre_commit_hooks_of_this_repository(project: Path) -> None:
    """The hooks run as pre-commit runs them: from this repository's file, with the program of the environment."""
    yaml = pytest.importorskip("yaml")
    hooks = {hook["id"]: hook for hook in yaml.safe_load((building.ROOT / ".pre-commit-hooks.yaml").read_text())}
    program = python_of(project).parent

    def hook(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        command, *more = hooks[name]["entry"].split()
        return subprocess.run([program / command, *more, *arguments], cwd=project, capture_output=True, text=True)

    assert hook("kafkawire-schema-check", "--schemas", "schemas", "--output", "pinger").returncode == 0
    assert hook("kafkawire-schema-fmt", "--check", "schemas/PingRequest.json").returncode == 1
    assert hook("kafkawire-schema-fmt", "schemas/PingRequest.json", "schemas/PingResponse.json").returncode == 0
    assert hook("kafkawire-schema-fmt", "--check", "schemas/PingRequest.json").returncode == 0
    edited = project / "edited"
    own_schemas.write(edited, own_schemas.PING | {"fields": [own_schemas.TEXT | {"type": "int32"}]}, own_schemas.PONG)
    done = hook("kafkawire-schema-diff", "schemas", "edited")
    assert done.returncode == 3, done.stderr
    assert hook("kafkawire-schema-diff", "schemas", "schemas").returncode == 0


def test_step_of_the_action(project: Path) -> None:
    """`action.yml` runs this script; a git revision is what changes are compared with."""
    repository = project / "repository"
    repository.mkdir()
    own_schemas.write(repository / "schemas")
    program = python_of(project).parent
    environment = {"PATH": f"{program}:/usr/bin:/bin", "HOME": str(project), "SCHEMAS": "schemas", "PACKAGE": ""}
    script = building.ROOT / "tools" / "schema_action.sh"

    def step(**given: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", script], cwd=repository, capture_output=True, text=True, env=environment | given)

    assert step(BASE="", FORMAT="true").returncode == 1
    run(repository, program / "kafkawire", "schema", "fmt", "schemas")
    assert step(BASE="", FORMAT="true").returncode == 0
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]):
        run(repository, "git", *command)
    assert step(BASE="HEAD", FORMAT="true").returncode == 0
    path = repository / "schemas" / "PingRequest.json"
    path.write_text(path.read_text().replace('"type": "string"', '"type": "int32"'))
    assert step(BASE="HEAD", FORMAT="false").returncode == 3


def test_classes_answer_those_who_ask_for_annotations(project: Path) -> None:
    printed = run(project, python_of(project), "introspection.py")
    assert int(printed.split()[0]) > 290
