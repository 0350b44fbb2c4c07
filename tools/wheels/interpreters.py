"""The CPythons on this machine that the package supports, and those of other machines that run here (qemu)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tools import ROOT

#: Where managers of versions keep theirs: pyenv, uv, and the images in which manylinux wheels are built.
FOLDERS = ("~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin", "/opt/python/*/bin")
_NAME = re.compile(r"python3\.\d+t?")
_PROBE = (
    "import json, sys, sysconfig; print(json.dumps("
    "[sys.implementation.name, sys.version_info[:2], bool(sysconfig.get_config_var('Py_GIL_DISABLED')),"
    "sysconfig.get_config_var('EXT_SUFFIX')]))"
)


@dataclass(frozen=True, order=True)
class Interpreter:
    """A CPython: `version` is (3, 13); without a global lock where `free_threaded`.

    `machine` is what it is built for, as in the file names of its extensions: x86_64-linux-gnu, darwin, win_amd64.
    """

    version: tuple[int, int]
    free_threaded: bool
    machine: str
    path: Path

    @property
    def tag(self) -> str:
        """As in a wheel's name: cp313, cp313t."""
        major, minor = self.version
        return f"cp{major}{minor}{'t' if self.free_threaded else ''}"


def supported() -> set[tuple[int, int]]:
    """The versions of Python that pyproject.toml names."""
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    found = (re.fullmatch(r"Programming Language :: Python :: (\d+)\.(\d+)", line) for line in classifiers)
    return {(int(match[1]), int(match[2])) for match in found if match}


def probe(path: Path) -> Interpreter | None:
    """The version of an executable; None where it does not run (as the shims of pyenv) or is no CPython."""
    try:
        done = subprocess.run([path, "-I", "-c", _PROBE], capture_output=True, text=True, timeout=60)
        implementation, (major, minor), free_threaded, suffix = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if done.returncode or implementation != "cpython":
        return None
    # .cpython-313-x86_64-linux-gnu.so, .cpython-313-darwin.so, .cp313-win_amd64.pyd
    machine = suffix.removeprefix(".cpython-").partition("-")[2].partition(".")[0]
    return Interpreter((major, minor), free_threaded, machine, path)


def candidates(folders: Iterable[Path]) -> Iterator[Path]:
    """Executables with the name of a CPython."""
    for folder in folders:
        if folder.is_dir():
            yield from (path for path in sorted(folder.iterdir()) if _NAME.fullmatch(path.name))


def places() -> list[Path]:
    """The folders of PATH, then those of managers of versions, newest first."""
    listed = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for pattern in FOLDERS:
        root, _, rest = str(Path(pattern).expanduser()).partition("*")
        listed += sorted(Path(root).glob("*" + rest), reverse=True)
    return listed


def found(paths: Iterable[Path]) -> list[Interpreter]:
    """The first interpreter of every supported version and machine, with and without a global lock."""
    wanted = supported()
    first: dict[tuple[str, str], Interpreter] = {}
    for path in paths:
        interpreter = probe(path)
        if interpreter and interpreter.version in wanted:
            first.setdefault((interpreter.tag, interpreter.machine), interpreter)
    return sorted(first.values())
