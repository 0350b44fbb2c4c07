"""The outcomes as a table, and as docs/conformance.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from kafkawire import backend
from tools.bench.machine_info import commit
from tools.conformance.release_comparison import BEFORE_4, NEWEST, Amounts, ReleaseOutcome
from tools.oracle.build import artifacts
from tools.pages import sections, templates

_COMPARISONS = (
    "Java to ours", "ours to Java", "frames", "prefixes", "JSON inputs", "conversions", "defaults", "mutants",
)  # fmt: skip
_TEMPLATE = "conformance.md.jinja"


def table(outcomes: Iterable[ReleaseOutcome]) -> str:
    """A Markdown table, a line a release and a last one for all."""
    rows: list[tuple[str, ...]] = [("release", "jars", "messages", "versions", *_COMPARISONS, "differences")]
    total: Counter[str] = Counter()
    wrong = 0
    for outcome in outcomes:
        total += outcome.compared
        wrong += len(outcome.failures)
        jars, cells = len(artifacts(outcome.release)), _counts(outcome.compared)
        rows.append(
            (outcome.release, *map(str, (jars, outcome.messages, outcome.versions)), *cells, str(len(outcome.failures)))
        )
    rows.append(("all", "", "", "", *_counts(total), str(wrong)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        f"| {row[0]:{widths[0]}} | {' | '.join(f'{cell:>{w}}' for cell, w in zip(row[1:], widths[1:], strict=True))} |"
        for row in rows
    ]
    rule = "|".join(["", "-" * (widths[0] + 2), *("-" * (width + 1) + ":" for width in widths[1:]), ""])
    return "\n".join([lines[0], rule, *lines[1:]])


def _counts(compared: Counter[str]) -> list[str]:
    return [f"{compared[name]:,}" if compared[name] else "" for name in _COMPARISONS]


def page(outcomes: list[ReleaseOutcome], amounts: Amounts, before: str = "") -> str:
    """docs/conformance.md.

    Args:
        before: the page as it is. What it has of runs with the other engine stays.
    """
    classes: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        classes += outcome.classes
    return (
        templates(Path(__file__).parent)
        .get_template(_TEMPLATE)
        .render(
            table=table(outcomes),
            engines=_engines(outcomes, before),
            outcomes=outcomes,
            amounts=amounts,
            classes=classes,
            newest=NEWEST,
            before_4=BEFORE_4,
            differences=sum(len(outcome.failures) for outcome in outcomes),
            failures=[(outcome.release, failure) for outcome in outcomes for failure in outcome.failures],
        )
    )


def _engines(outcomes: list[ReleaseOutcome], before: str) -> list[str]:
    """A section for each engine: the commit, and the sums of its last run."""
    name, compared = f"engine-{backend}", sum(sum(outcome.compared.values()) for outcome in outcomes)
    wrong = sum(len(outcome.failures) for outcome in outcomes)
    line = (
        f"- With the {backend} engine, at {commit()}: {compared:,} comparisons, {wrong} differences that are not meant."
    )
    kept = {each: text for each, text in sections(before).items() if each.startswith("engine-")}
    return [text for _, text in sorted((kept | {name: f"<!-- {name} -->\n{line}\n<!-- /{name} -->"}).items())]
