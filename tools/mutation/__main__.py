"""`python -m tools.mutation [FILE ...]`: change the sources at one place at a time, and see whether their tests notice.

    FILE                    sources (kafkawire/wire/write.py) or packages (wire); all by default
    --sample 20             mutants a file, drawn from different lines first; 0 for all there are
    --seed 1                the same seed and sources give the same mutants
    --write                 a row for each package in CONTRIBUTING.md; rows of other files stay

Mutants are made by cosmic-ray, those of Rust by cargo-mutants (`cargo install cargo-mutants`), in a copy of the
checkout. Each package has a file of its own here, `<package>.toml`: its sources, each with the tests that are to
notice, the quickest first; and survivors that are equivalent, with the reason. Tests of Python sources run in pure
Python: the native engine would hide what is changed. Prints every other survivor as a diff; exit code 1 where there is
one.
"""

from __future__ import annotations

import argparse
import ast
import os
import shlex
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from tools import ROOT
from tools.mutation import mutation_table, rust
from tools.mutation.mutation_table import MutationOutcome
from tools.mutation.sample import Tried, draw

if TYPE_CHECKING:
    from cosmic_ray.work_item import WorkItem

HERE = Path(__file__).parent
#: What tests of codecs need of the checkout.
COPIED = (
    "kafkawire", "codegen", "schemas", "native", "tests", "tools", "examples", "docs", "pyproject.toml", "README.md",
)  # fmt: skip
#: A mutant that loops for ever is detected after this multiple of the tests' time, and some seconds.
PATIENCE, GRACE = 4, 20
#: Arguments of classes that only memory and the garbage collector show.
UNSEEN = ("gc", "slots")


@dataclass
class MutationTarget:
    """One source file, the tests of it, and (old line, new line) of the equivalent mutants."""

    source: str
    tests: list[str]
    equivalent: set[tuple[str, str]] = field(default_factory=set)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("--sample", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    packages = {file.stem: list(read(file, arguments.files)) for file in sorted(HERE.glob("*.toml"))}
    targets = [target for found in packages.values() for target in found]
    if not targets:
        sys.exit(f"tools.mutation: no package or source is named {' or '.join(arguments.files)}")
    compiled = {target.source.endswith(".rs") for target in targets}
    if False in compiled and find_spec("cosmic_ray") is None:
        sys.exit("tools.mutation: cosmic-ray is not installed (pip install --group mutation)")
    if True in compiled and shutil.which("cargo-mutants") is None:
        sys.exit("tools.mutation: cargo-mutants is not installed (cargo install cargo-mutants)")
    os.environ["HYPOTHESIS_PROFILE"] = "mutants"
    outcomes: dict[str, list[MutationOutcome]] = {}
    with TemporaryDirectory(prefix="mutation-") as folder:
        copy(Path(folder))
        os.chdir(folder)
        for package, found in packages.items():
            outcomes[package] = [run(target, arguments.sample, arguments.seed) for target in found]
    if arguments.write:
        whole = {name for name, found in packages.items() if len(found) == len(list(read(HERE / f"{name}.toml", [])))}
        mutation_table.write(outcomes, whole, arguments.sample, arguments.seed)
    return int(any(outcome.survived for found in outcomes.values() for outcome in found))


def read(targets: Path, wanted: list[str]) -> Iterator[MutationTarget]:
    """The selected targets of a package, which names a source or a folder of sources in Rust."""
    settings: dict[str, Any] = tomllib.loads(targets.read_text("utf-8"))
    for place, tests in settings["tests"].items():
        files = sorted((ROOT / place).rglob("*.rs")) or [ROOT / place]
        for source in (file.relative_to(ROOT).as_posix() for file in files):
            if not wanted or not {source, place, targets.stem}.isdisjoint(wanted):
                same = {(each["old"], each["new"]) for each in settings.get("equivalent", ()) if each["file"] == source}
                yield MutationTarget(source, tests, same)


def copy(folder: Path) -> None:
    """Copies the tree, and the copy is mutated: an interruption, or an edit during the run, loses nothing."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "target")
            )
        else:
            shutil.copy(ROOT / name, folder)


def run(target: MutationTarget, sample: int, seed: int) -> MutationOutcome:
    """Runs the mutants of one file, and prints those that survive.

    Args:
        sample: number of mutants; 0 for all. `seed`: of the sample.
    """
    compiled = target.source.endswith(".rs")
    os.environ.update(rust.ENVIRONMENT if compiled else {"KAFKAWIRE_BACKEND": "python"})
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *target.tests]
    took = unmutated(tuple(command), compiled)
    run_mutants = rust.run if compiled else run_python
    tried, total = run_mutants(target.source, command, sample, seed, PATIENCE * took + GRACE)
    alive = [each for each in tried if each.outcome != "killed"]
    survivors = [each for each in alive if changed(each.diff) not in target.equivalent]
    print(
        f"{target.source}: {len(tried)} of {total} mutants, {len(tried) - len(alive)} noticed, "
        f"{len(alive) - len(survivors)} equivalent, {len(survivors)} survived (tests take {took:.1f} s)",
        flush=True,
    )
    for each in sorted(survivors, key=lambda each: each.line):
        old, new = changed(each.diff)
        print(f"  line {each.line}, {each.outcome}\n    - {old}\n    + {new}", flush=True)
    return MutationOutcome(target.source, len(tried), len(alive) - len(survivors), len(survivors))


@cache
def unmutated(command: tuple[str, ...], compiled: bool) -> float:
    """The seconds that tests take without a mutation. Ends the program where they fail.

    Args:
        compiled: whether they need the native engine.
    """
    if compiled and not rust.build(["build"]):
        sys.exit("tools.mutation: the native engine cannot be compiled")
    begin = time.monotonic()
    # This run leaves compiled modules behind, which those with mutants only read: a changed source is always newer.
    cached = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, env=cached)
    if done.returncode:
        sys.exit(f"tools.mutation: tests fail without a mutation\n{done.stdout[-3000:]}")
    return time.monotonic() - begin


def run_python(source: str, tests: list[str], sample: int, seed: int, patience: float) -> tuple[list[Tried], int]:
    """Tries mutants of a file; these, and the number of all.

    Args:
        tests: the command. patience: seconds until a run of it counts as endless.
    """
    from cosmic_ray.commands import execute, init
    from cosmic_ray.config import ConfigDict
    from cosmic_ray.work_db import use_db
    from cosmic_ray.work_item import WorkerOutcome, WorkResult

    local = ConfigDict({"name": "local"})
    config = ConfigDict({"test-command": shlex.join(tests), "timeout": patience, "distributor": local})
    with use_db("mutants.sqlite") as database:
        init([Path(source)], database, {})
        mutants = real(source, database.work_items)
        kept = {item.job_id for item in draw(mutants, sample, seed, lambda item: item.mutations[0].start_pos[0])}
        others = [item.job_id for item in database.work_items if item.job_id not in kept]
        database.set_multiple_results(others, WorkResult(WorkerOutcome.SKIPPED))
        execute(database, config)
        found = [(item, result) for item, result in database.completed_work_items if item.job_id in kept]
    return [
        Tried(item.mutations[0].start_pos[0], (result.test_outcome or result.worker_outcome).value, result.diff or "")
        for item, result in found
    ], len(mutants)


def real(source: str, items: Any) -> list[WorkItem]:
    """Mutants of what is executed, in an order of their own: annotations are text, and so is what only types need."""
    spans = [
        ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        for node in unexecuted(ast.parse(Path(source).read_text("utf-8")))
    ]
    executed = [item for item in items if not any(begin <= item.mutations[0].start_pos < end for begin, end in spans)]
    return sorted(
        executed,
        key=lambda item: (item.mutations[0].start_pos, item.mutations[0].operator_name, item.mutations[0].occurrence),
    )


def unexecuted(tree: ast.Module) -> Iterator[ast.expr | ast.stmt | ast.keyword]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in UNSEEN:
            yield node
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield node
        for name in ("annotation", "returns"):
            annotation = getattr(node, name, None)
            if isinstance(annotation, ast.expr):
                yield annotation


def changed(diff: str) -> tuple[str, str]:
    """The lines that a diff takes away, and those that it adds."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++"))]
    old, new = ("\n".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    return old, new


if __name__ == "__main__":
    sys.exit(main())
