"""`python -m tools.wheels.pyz`: dist/kafkawire.pyz, the command in one file, for machines with Python and without pip.

    --python PATH...    the interpreters that it is for; by default the one that runs this
    --extras cli,net    what is in it
    --output dist       where it goes

The file holds a wheel of what is committed and its dependencies, once for each interpreter (pex). At its first run it
unpacks them to the user's cache (PEX_ROOT). It runs on the system and on the versions of Python that it was made for.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tools import ROOT
from tools.wheels import building
from tools.wheels.building import BuildError

NAME = "kafkawire.pyz"


def make(wheels: dict[Path, Path], extras: str, folder: Path, output: Path) -> Path:
    """Writes the file.

    Args:
        wheels: of each interpreter, the wheel that it gets. `extras`: with commas between them.
        folder: for environments; it need not exist. `output`: of the file.
    """
    path = output / NAME
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pex",
        f"kafkawire[{extras}]",
        "--script",
        "kafkawire",
        "--venv",
        "--output-file",
        path,
    ]
    for number, (interpreter, wheel) in enumerate(wheels.items()):
        python = building.environment(interpreter, folder / f"environment{number}")
        building.run([*building.pip(python), "install", "-q", f"{wheel}[{extras}]"], building.PINNED)
        command += ["--venv-repository", python]
    building.run([*command, "--python-shebang", "/usr/bin/env python3"], building.epoch())
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.wheels.pyz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", nargs="+", type=Path, default=[Path(sys.executable)])
    parser.add_argument("--extras", default="cli,net")
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="pyz-") as temporary:
        folder = Path(temporary)
        try:
            sdist = building.sdist(building.clone(folder / "source"), folder)
            wheels = {
                python: building.wheel(
                    sdist, folder / f"wheel{number}", building.environment(python, folder / f"build{number}"), ""
                )
                for number, python in enumerate(arguments.python)
            }
            path = make(wheels, arguments.extras, folder, arguments.output)
        except BuildError as error:
            sys.exit(f"tools.wheels.pyz: {error}")
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
