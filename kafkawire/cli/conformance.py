"""`kafkawire conformance`: a foreign codec against the test vectors."""

from __future__ import annotations

from typing import Annotated

import typer

from kafkawire.cli.arguments import registry_of, registry_with
from kafkawire.cli.formatting import printable
from kafkawire.cli.notes import print_note


def register(app: typer.Typer) -> None:
    app.command("conformance")(conformance)


def conformance(
    codec: Annotated[list[str], typer.Argument(metavar="CODEC", help="The program, after --, and its arguments.")],
    schemas: Annotated[
        str | None, typer.Option(metavar="DIR", help="Message schemas of your own, over Kafka's.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="Print what passed and what the program does not have, too.")
    ] = False,
) -> None:
    """Ask a program of another project to decode and encode every message in every version, and compare.

    The program answers lines of JSON (docs/vectors.md). Prints a line for each message and version with a difference.
    The exit code is 3 when there is one, and 4 when the program has none of the messages.

    \b
    For example:
      kafkawire conformance -- python my_adapter.py
      kafkawire conformance --all -- ./target/release/adapter
    """
    from kafkawire.vectors.conformance import check

    passed = failed = unsupported = 0
    for outcome in check(codec, registry_of("kafka") if schemas is None else registry_with(schemas)):
        passed += outcome.passed
        failed += outcome.failed
        unsupported += outcome.unsupported
        if outcome.failed or all_:
            counts = f"{outcome.passed} passed, {outcome.failed} failed, {outcome.unsupported} unsupported"
            first = f": {outcome.first}" if outcome.first else ""
            typer.echo(printable(f"{outcome.message} version {outcome.version}: {counts}{first}"))
    print_note("note", f"{passed} passed, {failed} failed, {unsupported} unsupported")
    if failed:
        raise typer.Exit(3)
    if not passed:
        raise typer.Exit(4)
