"""A run as text: tables on a terminal, and docs/performance.md."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from tools.bench.goals import judge
from tools.bench.result_tables import NOTHING, tables
from tools.bench.results import BenchRun
from tools.pages import templates

_TEMPLATE = "performance.md.jinja"


def absences(run: BenchRun) -> list[str]:
    """A sentence for each contestant and reason, with the cases in which it took no part."""
    found: dict[tuple[str, str], list[str]] = {}
    for result in run.results:
        for absence in result.absent:
            found.setdefault((absence.contestant, absence.why), []).append(f"{result.table}: {result.title}")
    return [
        f"{name}: {why}" + (f" ({'; '.join(places)})" if len(places) < 4 else f" ({len(places)} cases)")
        for (name, why), places in found.items()
    ]


def markdown(run: BenchRun) -> str:
    """The page."""
    template = templates(Path(__file__).parent).get_template(_TEMPLATE)
    return template.render(run=run, machine=run.machine, tables=tables(run), goals=judge(run), absences=absences(run))


def show(run: BenchRun, console: Console) -> None:
    """The same on a terminal."""
    for table in tables(run):
        shown = RichTable(title=table.title, caption=table.about, title_justify="left", caption_justify="left")
        # Upright: a terminal is narrow, and there are more rows than contestants.
        for name in ("", "", "median, spread, ratio"):
            shown.add_column(name, justify="right" if name else "left")
        for row in table.rows:
            cells = [(name, cell) for name, cell in zip(table.header[1:], row[1:], strict=True) if cell != NOTHING]
            for place, (name, cell) in enumerate(cells):
                title = "" if place else row[0]
                shown.add_row(Text(title), Text(name), Text(cell), end_section=place == len(cells) - 1)
        console.print(shown)
    goals = RichTable(title="Goals", title_justify="left")
    for name in ("", "measured", ""):
        goals.add_column(name)
    for goal in judge(run):
        goals.add_row(Text(goal.text), Text(goal.value), Text(goal.verdict.strip("*")))
    console.print(goals)
    for sentence in absences(run):
        console.print(Text(f"left out: {sentence}"))
