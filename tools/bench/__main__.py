"""`python -m tools.bench`: µs for one decode and one encode, and how many times kafkawire's each engine takes.

CPU time, in interleaved rounds, so that a busy machine slows all engines alike; the median of the rounds counts.
Compare ratios, not microseconds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.bench.codecs import cases, engines


def rounds_of(functions: list[Callable[[], Any]], rounds: int, seconds: float) -> list[float]:
    """The median time of one call of each function, in seconds."""
    repeats = []
    for function in functions:
        function()
        start = time.process_time()
        function()
        repeats.append(max(1, int(seconds / (time.process_time() - start + 1e-9))))
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(rounds):
        for function, repeat, out in zip(functions, repeats, times, strict=True):
            start = time.process_time()
            for _ in range(repeat):
                function()
            out.append((time.process_time() - start) / repeat)
    return [median(out) for out in times]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.02, help="time for one function in one round")
    arguments = parser.parse_args()
    console = Console()
    for peer in ("kio", "kafka-python"):
        try:
            console.print(f"{peer} {version(peer)}", highlight=False)
        except PackageNotFoundError:
            console.print(f"{peer}: not installed, left out", highlight=False)
    for case in cases():
        size = len(case.message.encode(case.version))
        table = Table(title=f"{case.title}, {size:,} bytes", title_justify="left")
        for column in ("engine", "decode µs", "ratio", "encode µs", "ratio"):
            table.add_column(column, justify="left" if column == "engine" else "right")
        measured = list(engines(case))
        reads = rounds_of([engine.read for engine in measured], arguments.rounds, arguments.seconds)
        writes = rounds_of([engine.write for engine in measured], arguments.rounds, arguments.seconds)
        for engine, read, write in zip(measured, reads, writes, strict=True):
            table.add_row(
                engine.name,
                f"{read * 1e6:,.1f}",
                f"{read / reads[0]:.1f}",
                f"{write * 1e6:,.1f}",
                f"{write / writes[0]:.1f}",
            )
        console.print(table)


if __name__ == "__main__":
    main()
