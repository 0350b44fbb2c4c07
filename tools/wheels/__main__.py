"""`python -m tools.wheels`: an sdist of what is committed, a pure Python wheel, and a wheel for every CPython found.

    --python PATH...      these interpreters; by default the first of every supported version, on PATH and where
                          pyenv, uv and the manylinux images keep theirs
    --platform NAME...    instead of wheels for these interpreters, wheels for other machines, linked by zig; names
                          are in `cross`
    --versions 3.13...    with --platform: of Python; by default those of pyproject.toml
    --build-std           with --platform: compiles Rust's standard library, too, where it is not installed for the
                          target
    --output dist         where the files go; files of the same names are replaced

Every wheel is made from the sdist, installed with its dependencies into a clean environment, and tried there
(`smoke`); those for other machines are not. A wheel is in `--output` only when all that holds. Exit code 1 where
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

from tools.wheels import building, cross, interpreters
from tools.wheels.building import ROOT, BuildError
from tools.wheels.interpreters import Interpreter

SMOKE = Path(__file__).with_name("smoke.py")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.wheels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", type=Path)
    parser.add_argument("--platform", nargs="+", default=(), choices=cross.PLATFORMS)
    parser.add_argument("--versions", nargs="+")
    parser.add_argument("--build-std", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    chosen = interpreters.found(arguments.python or interpreters.candidates(interpreters.places()))
    if not chosen:
        sys.exit("tools.wheels: no CPython of a version that pyproject.toml names")
    for interpreter in chosen:
        print(f"{interpreter.tag}: {interpreter.path}", flush=True)
    missing = interpreters.supported() - {interpreter.version for interpreter in chosen}
    if missing:
        print(f"not found: {', '.join(f'{major}.{minor}' for major, minor in sorted(missing))}", flush=True)
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wheels-") as temporary:
        folder = Path(temporary)
        try:
            sdist = building.sdist(building.clone(folder / "source"), folder)
        except BuildError as error:
            sys.exit(f"tools.wheels: {error}")
        keep(sdist, arguments.output)
        steps = [partial(tried, sdist, chosen[-1], folder / "pure", "python")]
        if arguments.platform:
            versions = arguments.versions or [
                ".".join(map(str, version)) for version in sorted(interpreters.supported())
            ]
            pure = folder / "pure" / "built"
            steps += [
                partial(cross.wheel, pure, folder / "source", platform, version, arguments.build_std)
                for platform in arguments.platform
                for version in versions
            ]
        else:
            steps += [partial(tried, sdist, found, folder / found.tag, "native") for found in chosen]
        results = [made(step, arguments.output) for step in steps]
    return int(not all(results))


def made(step: Callable[[], tuple[Path, str]], output: Path) -> bool:
    """Makes a wheel, keeps it in `output`, and prints the line that `step` gives, or its error."""
    start = time.monotonic()
    try:
        wheel, printed = step()
    except BuildError as error:
        print(f"FAILED: {error}", flush=True)
        return False
    keep(wheel, output)
    print(f"  {printed} ({time.monotonic() - start:.0f} s)", flush=True)
    return True


def tried(sdist: Path, interpreter: Interpreter, folder: Path, backend: str) -> tuple[Path, str]:
    """A wheel that works in a clean environment, and its output there.

    Args:
        sdist: path of the archive. `folder`: for builds and environments; it need not exist. `backend`: the engine.
    """
    build = building.environment(interpreter.path, folder / "build")
    wheel = building.wheel(sdist, folder / "built", build, backend)
    if backend == "native":
        wheel = building.repaired(wheel, folder / "repaired")
    python = building.environment(interpreter.path, folder / "clean")
    building.run([*building.pip(python), "install", "-q", f"{wheel}[cli]"])
    return wheel, building.run([python, "-I", SMOKE, backend], {"KAFKAWIRE_BACKEND": ""}, cwd=folder).strip()


def keep(path: Path, output: Path) -> None:
    shutil.copy2(path, output)
    print(f"{output / path.name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
