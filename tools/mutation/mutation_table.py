"""Outcomes of mutation as the table in CONTRIBUTING.md: a row for each package, or for files of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools.bench.machine_info import commit
from tools.pages import sections, write_section

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
HEAD = (
    "| package | files | N, S | mutants | noticed | equivalent | survived | at |",
    "|---|---:|---|---:|---:|---:|---:|---|",
)


@dataclass(frozen=True)
class MutationOutcome:
    """Numbers of mutants of one file: tried; equivalent, as the package's file states; and not noticed by any test."""

    source: str
    tried: int
    equivalent: int
    survived: int


def write(outcomes: Mapping[str, Sequence[MutationOutcome]], whole: set[str], sample: int, seed: int) -> None:
    """Writes the rows of a run. Rows of other packages and files stay.

    Args:
        outcomes: by package. `whole`: packages of which every file was tried.
        sample: mutants of a file, at most. `seed`: of the sample.
    """
    before = sections(PAGE.read_text("utf-8")).get("mutation", "").splitlines()
    rows = [row(package, found, package in whole, f"{sample}, {seed}") for package, found in outcomes.items() if found]
    kept = {line.split("|")[1]: line for line in (*before, *rows) if line.startswith("|") and line not in HEAD}
    write_section(PAGE, "mutation", "\n".join([*HEAD, *(kept[key] for key in sorted(kept))]))


def row(package: str, outcomes: Sequence[MutationOutcome], whole: bool, sampled: str) -> str:
    """A line of the table."""
    names = ", ".join(f"`{PurePosixPath(outcome.source).stem}`" for outcome in outcomes)
    tried, equivalent, survived = (
        sum(getattr(outcome, name) for outcome in outcomes) for name in ("tried", "equivalent", "survived")
    )
    label = package if whole else f"{package}: {names}"
    noticed = tried - equivalent - survived
    return f"| {label} | {len(outcomes)} | {sampled} | {tried} | {noticed} | {equivalent} | {survived} | {commit()} |"
