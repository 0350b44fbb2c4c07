"""`python -m tools.conformance.batches`: the inside of record batches, and its sections of docs/conformance.md.

Needs Java 17, and Maven for jars that are not in the cache.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kafkawire import backend
from tools import ROOT
from tools.bench.machine_info import commit
from tools.conformance.batches import batch_judging
from tools.conformance.batches.batch_comparison import Amounts, BatchOutcome, compare
from tools.oracle import Oracle, OracleUnavailableError
from tools.pages import templates, write_section

PAGE = ROOT / "docs" / "conformance.md"
RELEASE = "4.4.0"
_SHOWN = 20

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rounds: Annotated[int, typer.Option(min=0, help="Batches that Java writes, of each kind.")] = Amounts().rounds,
    mutants: Annotated[int, typer.Option(min=0, help="Mutated batches.")] = Amounts().mutants,
    write: Annotated[bool, typer.Option(help="Write the sections of docs/conformance.md.")] = False,
) -> None:
    """Compares what is in record batches with Kafka's own classes. Exit code 1: a difference that is not meant."""
    try:
        with Oracle(RELEASE) as oracle:
            outcome = compare(oracle, Amounts(rounds, mutants), lambda what: print(what, file=sys.stderr, flush=True))
    except OracleUnavailableError as error:
        print(f"conformance: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    for failure in outcome.failures[:_SHOWN]:
        print(f"  {failure}", file=sys.stderr)
    print(summary(outcome))
    if write:
        write_section(PAGE, "batches", page(outcome))
        write_section(PAGE, f"batches-{backend}", f"- With the {backend} engine, at {commit()}: {summary(outcome)}")
    raise typer.Exit(bool(outcome.failures))


def summary(outcome: BatchOutcome) -> str:
    written = sum(outcome.sound.values())
    return (
        f"{outcome.compared:,} batches, of which {outcome.compared - written:,} are mutated; "
        f"{len(outcome.failures)} differences that are not meant."
    )


def page(outcome: BatchOutcome) -> str:
    """The section: what was compared, the outcomes, and the differences that are meant."""
    sources: dict[str, list[int]] = {}
    for (source, magic, _), count in sorted(outcome.sound.items()):
        sources.setdefault(source, [0, 0, 0])[magic] += count
    return (
        templates(Path(__file__).parent)
        .get_template("batches.md.jinja")
        .render(
            release=RELEASE,
            sources=sources.items(),
            kinds=outcome.kinds,
            failures=outcome.failures,
            refusals=batch_judging.REFUSALS,
            fields=batch_judging.FIELDS,
        )
    )


if __name__ == "__main__":
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
