"""Outcomes of mutation as the table in CONTRIBUTING.md: a row for each package, or for files of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tools import ROOT
from tools.bench.machine_info import commit
from tools.pages import write_rows

PAGE = ROOT / "CONTRIBUTING.md"
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
    rows = [row(package, found, package in whole, f"{sample}, {seed}") for package, found in outcomes.items() if found]
    write_rows(PAGE, "mutation", HEAD, rows)


def row(package: str, outcomes: Sequence[MutationOutcome], whole: bool, sampled: str) -> str:
    """A line of the table."""
    names = ", ".join(f"`{PurePosixPath(outcome.source).stem}`" for outcome in outcomes)
    tried, equivalent, survived = (
        sum(getattr(outcome, name) for outcome in outcomes) for name in ("tried", "equivalent", "survived")
    )
    label = package if whole else f"{package}: {names}"
    noticed = tried - equivalent - survived
    return f"| {label} | {len(outcomes)} | {sampled} | {tried} | {noticed} | {equivalent} | {survived} | {commit()} |"
