"""The crates of the native engine: their pinned versions, and those that an engine links, with their licences.

    python -m tools.wheels.crates            native/Cargo.lock from native/crates.lock, as builds write it
    python -m tools.wheels.crates --update   native/crates.lock from the newest versions that Cargo.toml allows

`native/crates.lock` is Cargo's lock file without the lines that name a registry. Cargo states the registry, or its
replacement, on the machine of the build. Only the standard library is needed: setup.py imports this module.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools import ROOT

MANIFEST = ROOT / "native" / "Cargo.toml"
PINS = ROOT / "native" / "crates.lock"
LOCK = ROOT / "native" / "Cargo.lock"

_PINNED = re.compile(r'^name = "(.+)"\nversion = "(.+)"\nchecksum = "(.+)"$', re.MULTILINE)
_SOURCE = re.compile(r'^source = ".*"\n', re.MULTILINE)


@dataclass(frozen=True, order=True)
class Crate:
    """A crate that the engine links.

    Attributes:
        licence: SPDX expression.
        sha256: of the crate's archive, as in the lock file.
        folder: of its source.
        needs: names and versions of the crates that it links itself.
    """

    name: str
    version: str
    licence: str
    sha256: str
    folder: Path
    needs: tuple[tuple[str, str], ...]


def without_registry(lock: str) -> str:
    return _SOURCE.sub("", lock)


def with_registry(pins: str, source: str) -> str:
    """A lock file: what has a checksum comes from the registry, in Cargo's order of lines."""
    return re.sub(r"^checksum = ", f'source = "{source}"\n\\g<0>', pins, flags=re.MULTILINE)


def write_lock() -> None:
    """Writes native/Cargo.lock, which `cargo --locked` then takes as it is."""
    (package,) = _metadata("--no-deps", "--offline")["packages"]
    sources = {dependency["source"] for dependency in package["dependencies"]}
    text = with_registry(PINS.read_text("utf-8"), sources.pop())
    if not LOCK.exists() or LOCK.read_text("utf-8") != text:
        LOCK.write_text(text, "utf-8")


def linked(target: str | None = None) -> list[Crate]:
    """What an engine for `target` (a triple; None: for any) holds: no build scripts, no macros, no crates of these."""
    metadata = _metadata("--locked", *(["--filter-platform", target] if target else []))
    packages = {package["id"]: package for package in metadata["packages"]}
    links = {
        node["id"]: [
            dependency["pkg"]
            for dependency in node["deps"]
            if any(kind["kind"] is None for kind in dependency["dep_kinds"])
            and not any("proc-macro" in target["kind"] for target in packages[dependency["pkg"]]["targets"])
        ]
        for node in metadata["resolve"]["nodes"]
    }
    found: set[str] = set()
    waiting = links[metadata["resolve"]["root"]].copy()
    while waiting:
        if (crate := waiting.pop()) not in found:
            found.add(crate)
            waiting += links[crate]
    sums = {(name, version): sha256 for name, version, sha256 in _PINNED.findall(PINS.read_text("utf-8"))}
    named = {key: (packages[key]["name"], packages[key]["version"]) for key in found}
    return sorted(
        Crate(
            *named[key],
            # An older notation of some crates.
            licence=packages[key]["license"].replace("/", " OR "),
            sha256=sums[named[key]],
            folder=Path(packages[key]["manifest_path"]).parent,
            needs=tuple(sorted(named[needed] for needed in links[key])),
        )
        for key in found
    )


def _metadata(*options: str) -> Any:
    command = ["cargo", "metadata", "--format-version", "1", "--manifest-path", str(MANIFEST), *options]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main(arguments: list[str]) -> None:
    if arguments == ["--update"]:
        LOCK.unlink(missing_ok=True)
        subprocess.run(["cargo", "generate-lockfile", "--manifest-path", MANIFEST], check=True)
        PINS.write_text(without_registry(LOCK.read_text("utf-8")), "utf-8")
    write_lock()


if __name__ == "__main__":
    main(sys.argv[1:])
