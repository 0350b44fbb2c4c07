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
    "Java to ours",
    "ours to Java",
    "frames",
    "prefixes",
    "JSON inputs",
    "conversions",
    "defaults",
    "mutants",
)
_TEMPLATE = "conformance.md.jinja"


def table(outcomes: Iterable[ReleaseOutcome]) -> str:
    """A Markdown table, a line a release and a last one for all."""
    rows: list[tuple[str, ...]] = [("release", "jars", "messages", "versions", *_COMPARISONS, "differences")]
    total: Counter[str] = Counter()
    wrong = 0
    for outcome in outcomes:
        total += outcome.compared
        wrong += len(outcome.failures)
        numbers = (outcome.messages, outcome.versions)
        rows.append(
            _row(outcome.release, len(artifacts(outcome.release)), *numbers, outcome.compared, outcome.failures)
        )
    rows.append(("all", "", "", "", *(f"{total[name]:,}" if total[name] else "" for name in _COMPARISONS), str(wrong)))
    return _aligned(rows)


def _row(
    release: str, jars: int, messages: int, versions: int, compared: Counter[str], failures: list[str]
) -> tuple[str, ...]:
    cells = (f"{compared[name]:,}" if compared[name] else "" for name in _COMPARISONS)
    return release, str(jars), str(messages), str(versions), *cells, str(len(failures))


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| "
        + " | ".join(
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (w + 1) + ("-" if i == 0 else ":") for i, w in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


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
