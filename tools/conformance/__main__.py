"""`python -m tools.conformance`: the comparisons over all releases, a table of them, and docs/conformance.md.

Needs Java 17, and Maven for jars that are not in the cache.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from tools import ROOT
from tools.conformance.conformance_page import page, table
from tools.conformance.release_comparison import RELEASES, Amounts, ReleaseOutcome, compare
from tools.oracle import OracleUnavailableError
from tools.pages import keep_sections

PAGE = ROOT / "docs" / "conformance.md"
_SHOWN = 20

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    release: Annotated[list[str] | None, typer.Option(help="A release to compare; repeatable. All by default.")] = None,
    objects: Annotated[int, typer.Option(min=0, help="Objects of each message and version, each way.")] = 8,
    mutants: Annotated[int, typer.Option(min=0, help="Mutants of each message and version.")] = 280,
    output: Annotated[
        Path | None, typer.Option(help="Where to write the page; docs/conformance.md after a run over all releases.")
    ] = None,
) -> None:
    """Compares the codecs with Kafka's own classes. Exit code 1: something differs that is not meant to."""
    releases = release or list(RELEASES)
    amounts = Amounts(objects=objects, mutants=mutants)
    outcomes: list[ReleaseOutcome] = []
    for name in releases:
        begun = time.monotonic()
        try:
            outcome = compare(name, amounts, lambda what, name=name: _note(f"{name}: {what}"))  # type: ignore[misc]
        except OracleUnavailableError as error:
            _note("")
            print(f"conformance: {error}", file=sys.stderr)
            raise typer.Exit(1) from None
        outcomes.append(outcome)
        _note("")
        seconds = time.monotonic() - begun
        total, wrong = sum(outcome.compared.values()), len(outcome.failures)
        print(f"{name}: {total} comparisons in {seconds:.0f} s, {wrong} differences", file=sys.stderr, flush=True)
        for failure in outcome.failures[:_SHOWN]:
            print(f"  {failure}", file=sys.stderr)
        if wrong > _SHOWN:
            print(f"  and {wrong - _SHOWN} more", file=sys.stderr)
    print(table(outcomes))
    if output or releases == list(RELEASES):
        before = PAGE.read_text("utf-8")
        (output or PAGE).write_text(
            keep_sections(page(outcomes, amounts, before), before), encoding="utf-8", newline="\n"
        )
    raise typer.Exit(any(outcome.failures for outcome in outcomes))


def _note(what: str) -> None:
    """What is being done, on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{what}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
