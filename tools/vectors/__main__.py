"""`python -m tools.vectors`: writes the vector suite. Needs Java 17, and Maven for jars that are not in the cache."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from tools import ROOT
from tools.oracle import OracleUnavailableError
from tools.vectors.suite import write

GOLDEN = ROOT / "tests" / "golden" / "vectors"

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    output: Annotated[Path, typer.Option(help="The folder to write.")] = GOLDEN,
    objects: Annotated[int, typer.Option(min=0, help="Random objects of each message and version.")] = 1,
    inputs: Annotated[int, typer.Option(min=0, help="Inputs of each message and version.")] = 2,
    budget: Annotated[int, typer.Option(min=1, help="About how many bytes a random object has.")] = 60,
) -> None:
    """Writes the suite; without options, the golden set that the tests of this project run."""
    try:
        counts = write(output, objects=objects, inputs=inputs, budget=budget)
        shutil.copy(Path(__file__).with_name("README.md"), output)
    except (OracleUnavailableError, OSError) as error:
        print(f"vectors: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    for name, count in counts.items():
        print(f"{name:28} {count:7}")


if __name__ == "__main__":
    try:
        app()
    except KeyboardInterrupt:
        sys.exit(130)
