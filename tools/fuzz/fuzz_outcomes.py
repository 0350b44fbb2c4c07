"""Outcomes of runs: lines of JSON in `outcomes.jsonl`, and the table in SECURITY.md with their sums."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tools import ROOT
from tools.bench.machine_info import commit
from tools.fuzz.libfuzzer_runs import FuzzOutcome
from tools.fuzz.targets import TARGETS
from tools.pages import write_section

_OUTCOMES = "outcomes.jsonl"
_PAGE = ROOT / "SECURITY.md"


def add(outcome: FuzzOutcome, output: Path) -> None:
    """Appends an outcome to `outcomes.jsonl`."""
    line = {name: value for name, value in vars(outcome).items() if name != "findings"}
    line |= {"findings": len(outcome.findings), "commit": commit()}
    with (output / _OUTCOMES).open("a") as file:
        file.write(json.dumps(line) + "\n")


def write(output: Path) -> None:
    """Writes the table of all kept outcomes into SECURITY.md."""
    outcomes = [json.loads(line) for line in (output / _OUTCOMES).read_text().splitlines()]
    write_section(_PAGE, "fuzz", table(outcomes))


def table(outcomes: Iterable[dict[str, Any]]) -> str:
    """The table of targets: input, property, and sums of their runs with and without sanitizer."""
    by_target: dict[str, list[dict[str, Any]]] = {name: [] for name in TARGETS}
    for outcome in outcomes:
        by_target[outcome["target"]].append(outcome)
    lines = [
        "| target | an input is | what must hold | minutes | inputs | features | found |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for name, found in by_target.items():
        target = TARGETS[name]
        lines.append(f"| `{name}` | {target.reads} | {target.holds} | {_sums(found, len(target.corpus()))} |")
    everything = [outcome for found in by_target.values() for outcome in found]
    corpus = sum(len(target.corpus()) for target in TARGETS.values())
    lines.append(f"| all | | | {_sums(everything, corpus)} |")
    sanitized = [outcome for outcome in everything if outcome["engine"] == "address"]
    minutes, inputs = _minutes(sanitized), sum(outcome["inputs"] for outcome in sanitized)
    of_commits = ", ".join(dict.fromkeys(outcome["commit"] for outcome in everything))
    lines += ["", f"Of these, {minutes:.0f} minutes and {inputs:,} inputs were with AddressSanitizer."]
    lines += [f"Made on {of_commits}."]
    return "".join(f"{line}\n" for line in lines)


def _minutes(outcomes: Iterable[dict[str, Any]]) -> float:
    return sum(float(outcome["seconds"]) for outcome in outcomes) / 60


def _sums(outcomes: list[dict[str, Any]], findings: int) -> str:
    inputs = sum(outcome["inputs"] for outcome in outcomes)
    by_target: dict[str, int] = {}
    for outcome in outcomes:
        by_target[outcome["target"]] = max(by_target.get(outcome["target"], 0), outcome["features"])
    return f"{_minutes(outcomes):.1f} | {inputs:,} | {sum(by_target.values()):,} | {findings}"
