"""`python -m tools.wheels`: an sdist of what is committed, a pure Python wheel, and a wheel for every CPython found.

    --python PATH...      these interpreters; by default the first of every supported version, on PATH and where
                          pyenv, uv and the manylinux images keep theirs
    --platform NAME...    instead of wheels for these interpreters, wheels for other machines, linked by zig; names
                          are in `cross`
    --versions 3.13...    with --platform: of Python; by default those of pyproject.toml
    --build-std           with --platform: compiles Rust's standard library, too, where it is not installed for the
                          target
    --output dist         where the files go; files of the same names are replaced
    --write               the wheels' rows in the table of docs/install.md, too

Every wheel is made from the sdist, installed with its dependencies into a clean environment, and tried there
(`smoke`). For a wheel for another machine that takes an interpreter of that machine which runs here, by qemu or by a
script that calls qemu; without one it is not run. A wheel is in `--output` only when all that holds. Exit code 1 where
anything failed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tools import ROOT
from tools.pages import write_rows
from tools.wheels import building, cross, interpreters
from tools.wheels.building import BuildError
from tools.wheels.interpreters import Interpreter

SMOKE = Path(__file__).with_name("smoke.py")
PAGE = ROOT / "docs" / "install.md"
HEAD = ("| wheel | MB | ran on | commit |", "|---|---:|---|---|")
NOT_RUN = "not run"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.wheels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", type=Path)
    parser.add_argument("--platform", nargs="+", default=(), choices=cross.PLATFORMS)
    parser.add_argument("--versions", nargs="+")
    parser.add_argument("--build-std", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    chosen = interpreters.found(arguments.python or interpreters.candidates(interpreters.places()))
    here = interpreters.probe(Path(sys.executable))
    local = [interpreter for interpreter in chosen if here and interpreter.machine == here.machine]
    if not local:
        sys.exit("tools.wheels: no CPython of a version that pyproject.toml names")
    for interpreter in chosen:
        print(f"{interpreter.tag} ({interpreter.machine}): {interpreter.path}", flush=True)
    missing = interpreters.supported() - {interpreter.version for interpreter in local}
    if missing:
        print(f"not found: {', '.join(f'{major}.{minor}' for major, minor in sorted(missing))}", flush=True)
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wheels-") as temporary:
        folder = Path(temporary)
        try:
            commit = building.commit()
            sdist = building.sdist(building.clone(folder / "source"), folder)
        except BuildError as error:
            sys.exit(f"tools.wheels: {error}")
        keep(sdist, arguments.output)
        steps = [partial(tried, sdist, local[-1], folder / "pure", "python")]
        if arguments.platform:
            versions = arguments.versions or [
                ".".join(map(str, version)) for version in sorted(interpreters.supported())
            ]
            steps += [
                partial(cross_built, folder, platform, version, chosen, arguments.build_std)
                for platform in arguments.platform
                for version in versions
            ]
        else:
            steps += [partial(tried, sdist, found, folder / found.tag, "native") for found in local]
        failed = 0
        for step in steps:
            row = made(step, arguments.output, commit)
            failed += row is None
            if row and arguments.write:
                write_rows(PAGE, "wheels", HEAD, [row])
    return int(failed > 0)


def made(step: Callable[[], tuple[Path, str]], output: Path, commit: str) -> str | None:
    """Makes a wheel, keeps it in `output`, and prints where it ran, or the error. The wheel's row of the table."""
    start = time.monotonic()
    try:
        wheel, printed = step()
    except BuildError as error:
        print(f"FAILED: {error}", flush=True)
        return None
    keep(wheel, output)
    print(f"  {printed} ({time.monotonic() - start:.0f} s)", flush=True)
    tags = "-".join(wheel.stem.split("-")[2:])
    return f"| `{tags}` | {wheel.stat().st_size / 1e6:.1f} | {printed} | {commit} |"


def tried(sdist: Path, interpreter: Interpreter, folder: Path, backend: str) -> tuple[Path, str]:
    """A wheel that works in a clean environment, and where it ran.

    Args:
        sdist: path of the archive. `folder`: for builds and environments; it need not exist. `backend`: the engine.
    """
    build = building.environment(interpreter.path, folder / "build")
    wheel = building.wheel(sdist, folder / "built", build, backend)
    if backend == "native":
        wheel = building.repaired(wheel, folder / "repaired")
    return wheel, ran(wheel, interpreter, folder, backend)


def cross_built(
    folder: Path, platform: str, version: str, chosen: list[Interpreter], build_std: bool
) -> tuple[Path, str]:
    """A wheel for another machine, and where it ran, if an interpreter of that machine is among those chosen.

    Args:
        folder: with a checkout in `source` and the pure wheel in `pure/built`.
        platform, version, build_std: as in `cross.wheel`.
    """
    wheel = cross.wheel(folder / "pure" / "built", folder / "source", platform, version, build_std)
    wanted = f"cp{version.replace('.', '')}", cross.PLATFORMS[platform].machine
    for interpreter in chosen:
        if (interpreter.tag, interpreter.machine) == wanted:
            return wheel, ran_on_platform(wheel, interpreter, folder / wheel.stem, platform)
    return wheel, NOT_RUN


def ran(wheel: Path, interpreter: Interpreter, folder: Path, backend: str) -> str:
    """Tries a wheel in a clean environment; what it ran on."""
    python = building.environment(interpreter.path, folder / "clean")
    building.run([*building.pip(python), "install", "-q", f"{wheel}[cli]"])
    return building.run([python, "-I", SMOKE, backend], {"KAFKAWIRE_BACKEND": ""}, cwd=folder).strip()


def ran_on_platform(wheel: Path, interpreter: Interpreter, folder: Path, platform: str) -> str:
    """Tries a wheel for another machine; what it ran on. The pip of this machine installs: an emulated one is slow."""
    site = folder / "site"
    version = ".".join(map(str, interpreter.version))
    command: list[str | Path] = [sys.executable, "-m", "pip", "install", "-q", "--target", site, f"{wheel}[cli]"]
    command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", version]
    command += [f"--abi={abi}" for abi in (interpreter.tag, "abi3", "none")]
    building.run(command + [f"--platform={tag}" for tag in cross.compatible(platform)])
    return building.run([interpreter.path, "-I", SMOKE, "native", site], {"KAFKAWIRE_BACKEND": ""}, cwd=folder).strip()


def keep(path: Path, output: Path) -> None:
    shutil.copy2(path, output)
    print(f"{output / path.name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
