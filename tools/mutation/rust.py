"""Mutants of the native engine: cargo-mutants lists them; each is compiled, and given to the engine's tests in Python.

`cargo mutants` itself would run tests in Rust alone. These run last here, where those in Python noticed nothing.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

from tools import ROOT
from tools.mutation.sample import Tried, draw

#: Compiled quickly, and as in a release without checks of overflow: a mutant that overflows computes on.
ENVIRONMENT = {
    "KAFKAWIRE_BACKEND": "native",
    "CARGO_TARGET_DIR": str(ROOT / "native" / "target" / "mutation"),
    "CARGO_INCREMENTAL": "1",
    "CARGO_PROFILE_DEV_OPT_LEVEL": "1",
    "CARGO_PROFILE_DEV_DEBUG": "0",
    "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS": "false",
    "CARGO_PROFILE_DEV_OVERFLOW_CHECKS": "false",
    "PYO3_PYTHON": sys.executable,
}
#: A mutant that allocates for ever ends here.
MEMORY_LIMIT = 8 << 30
#: cargo-mutants takes these names of `Result` for types of their own.
RESULT = re.compile(r"(PyResult|Read)::new\((?!\))")
CONSTRUCTED = re.compile(r"[A-Z]\w*::(new|from|from_iter)\(")


def run(source: str, tests: list[str], sample: int, seed: int, patience: float) -> tuple[list[Tried], int]:
    """Tries mutants of a file until `sample` of them compiled; these, and the number of all.

    Args:
        tests: the command. patience: seconds until a run of it counts as endless.
    """
    path = Path(source)
    text = path.read_text("utf-8")
    mutants = list(listed(source))
    tried: list[Tried] = []
    for mutant in draw(mutants, 0, seed, line):
        if sample and len(tried) == sample:
            break
        mutated = applied(text, mutant)
        path.write_text(mutated, "utf-8")
        if build(["build"]):
            noticed = not (passes(tests, patience) and build(["test", "--lib"]))
            diff = difflib.unified_diff(text.splitlines(), mutated.splitlines(), lineterm="", n=0)
            tried.append(Tried(line(mutant), "killed" if noticed else "survived", "\n".join(diff)))
    path.write_text(text, "utf-8")
    return tried, len(mutants)


def listed(source: str) -> Iterator[dict[str, Any]]:
    """What cargo-mutants would change, but for the values that have no type here: their names are those of aliases."""
    command = ["cargo", "mutants", "--list", "--json", "--dir", "native", "--file", source.removeprefix("native/")]
    for mutant in json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout):
        mutant["replacement"] = RESULT.sub("Ok(", mutant["replacement"])
        if not CONSTRUCTED.match(mutant["replacement"]):
            yield mutant


def line(mutant: dict[str, Any]) -> int:
    return int(mutant["span"]["start"]["line"])


def applied(text: str, mutant: dict[str, Any]) -> str:
    """The source with the replacement in its place."""
    lines = text.splitlines(keepends=True)
    begin, end = (
        sum(map(len, lines[: place["line"] - 1])) + place["column"] - 1
        for place in (mutant["span"]["start"], mutant["span"]["end"])
    )
    return f"{text[:begin]}{mutant['replacement']}{text[end:]}"


def build(what: list[str]) -> bool:
    """Whether Cargo's command succeeds. `build` puts the engine into the package of the working directory."""
    command = ["cargo", *what, "-q", "--manifest-path", "native/Cargo.toml"]
    if not passes(command, 600):
        return False
    if what == ["build"]:
        engine = Path(f"kafkawire/_native{EXTENSION_SUFFIXES[0]}")
        engine.unlink(missing_ok=True)
        engine.write_bytes(Path(os.environ["CARGO_TARGET_DIR"], "debug", "lib_native.so").read_bytes())
    return True


def passes(command: list[str], patience: float) -> bool:
    """Whether a command ends with 0 in time. What it started ends with it."""
    limit = (MEMORY_LIMIT, MEMORY_LIMIT)
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
    ) as process:
        try:
            return process.wait(patience) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
