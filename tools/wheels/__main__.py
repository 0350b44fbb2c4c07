"""`python -m tools.wheels`: an sdist of what is committed, and a wheel of it for every CPython found.

    --python PATH...    these interpreters; by default the first of every supported version, on PATH and where pyenv, uv
                        and the manylinux images keep theirs
    --output dist       where the files go; files of the same names are replaced

Every wheel is made from the sdist, installed with its dependencies into a clean environment, and tried there
(`smoke`); one without the engine is an error. A wheel is in `--output` only when all that holds. Exit code 1 where
anything failed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

from tools.wheels import building, interpreters
from tools.wheels.building import ROOT, BuildError
from tools.wheels.interpreters import Interpreter

SMOKE = Path(__file__).with_name("smoke.py")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.wheels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", type=Path)
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
    with tempfile.TemporaryDirectory(prefix="wheels-") as folder:
        try:
            sdist = building.sdist(building.clone(Path(folder) / "source"), Path(folder))
        except BuildError as error:
            sys.exit(f"tools.wheels: {error}")
        keep(sdist, arguments.output)
        results = [made(sdist, interpreter, Path(folder), arguments.output) for interpreter in chosen]
    return int(not all(results))


def made(sdist: Path, interpreter: Interpreter, folder: Path, output: Path) -> bool:
    """Builds, repairs and tries a wheel, and prints the result.

    Args:
        sdist: path of the archive. `folder`: for builds and environments. `output`: of the wheel.
    """
    start = time.monotonic()
    try:
        wheel, printed = tried(sdist, interpreter, folder / interpreter.tag)
    except BuildError as error:
        print(f"{interpreter.tag}: FAILED: {error}", flush=True)
        return False
    keep(wheel, output)
    print(f"  {printed} ({time.monotonic() - start:.0f} s)", flush=True)
    return True


def tried(sdist: Path, interpreter: Interpreter, folder: Path) -> tuple[Path, str]:
    """A wheel that works in a clean environment, and its output there.

    Args:
        sdist: path of the archive. `folder`: for builds and environments; it need not exist.
    """
    built = building.wheel(sdist, folder / "built", building.environment(interpreter.path, folder / "build"))
    if building.engine(built) is None:
        raise BuildError(f"{built.name} has no engine; `cargo build --manifest-path native/Cargo.toml` shows why")
    wheel = building.repaired(built, folder / "repaired")
    python = building.environment(interpreter.path, folder / "clean")
    building.run([*building.pip(python), "install", "-q", wheel])
    return wheel, building.run([python, "-I", SMOKE, "native"], {"KAFKAWIRE_BACKEND": ""}, cwd=folder).strip()


def keep(path: Path, output: Path) -> None:
    shutil.copy2(path, output)
    print(f"{output / path.name}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
