"""`make bench`, or `python -m tools.bench`: kafkawire side by side with its peers, on the same bytes.

Prints tables; `--write` renders them as docs/performance.md, `--json` keeps every round.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from tools import ROOT
from tools.bench.bench_report import markdown, show
from tools.bench.cases import CASES, Inputs, cases
from tools.bench.dissectors import KEY as WIRESHARK
from tools.bench.dissectors import dissectors
from tools.bench.machine_info import machine
from tools.bench.measurement import BenchError, measure
from tools.bench.peak_memory import capture_peaks, peaks
from tools.bench.results import BenchRun, Result
from tools.bench.spark_cases import KEYS as SPARK
from tools.bench.spark_cases import spark
from tools.bench.startup import startup
from tools.bench.tier_case import KEY as TIER
from tools.bench.tier_case import tiers
from tools.bench.transactions import KEY as TRANSACTIONS
from tools.bench.transactions import transactions
from tools.pages import keep_sections

#: Keys of cases that are not measured by contestants taking turns.
STARTUP = ("startup/import", "startup/first")
PEAKS = {"peak/dump": peaks, "peak/capture": capture_peaks}
PAGE = ROOT / "docs" / "performance.md"


def parse_arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--only", metavar="CASE", action="append", help="cases whose key holds this; may be repeated")
    parser.add_argument("--rounds", type=int, default=25, help="rounds of a case (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.02, help="a contestant's share of a round (%(default)s)")
    parser.add_argument("--budget", type=float, default=6.0, help="most seconds of a contestant a case (%(default)s)")
    parser.add_argument("--large", action="store_true", help="also the memory of files of 2 GB")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write all that was measured")
    parser.add_argument("--write", action="store_true", help="write docs/performance.md")
    parser.add_argument("--from", dest="source", metavar="FILE", type=Path, help="show a run that --json kept")
    return parser.parse_args(words)


def stated(arguments: argparse.Namespace) -> list[str]:
    """The arguments that determine what was measured, without paths of output files."""
    words = [word for case in arguments.only or () for word in ("--only", case)]
    words += [
        word for name in ("rounds", "seconds", "budget") for word in (f"--{name}", f"{getattr(arguments, name):g}")
    ]
    return words + [f"--{name}" for name in ("large", "write") if getattr(arguments, name)]


def _run(arguments: argparse.Namespace, console: Console) -> tuple[BenchRun, list[str]]:
    """All that could be measured, and why something could not: an error in one table costs no other's figures."""
    load, start = os.getloadavg()[0], time.monotonic()
    wanted = arguments.only or [""]
    inputs = Inputs()

    def is_wanted(key: str) -> bool:
        return any(part in key for part in wanted)

    keys = (*CASES, *STARTUP, WIRESHARK, TRANSACTIONS, TIER, *SPARK, *PEAKS)
    if not any(map(is_wanted, keys)):
        raise BenchError(f"no case's key holds {' or '.join(wanted)}; they are {', '.join(keys)}")
    results: list[Result] = []
    errors: list[str] = []

    def collect(measured: Callable[[], Iterable[Result]]) -> None:
        try:
            results.extend(measured())
        except BenchError as error:
            errors.append(str(error))

    for case in cases(inputs, is_wanted):
        results.append(
            measure(
                case,
                rounds=arguments.rounds,
                seconds=arguments.seconds,
                budget=arguments.budget,
                notify=lambda text: console.print(text, highlight=False, markup=False),
            )
        )
    if any(map(is_wanted, STARTUP)):
        collect(lambda: startup(arguments.rounds))
    if is_wanted(WIRESHARK):
        collect(lambda: dissectors(arguments.rounds))
    if is_wanted(TRANSACTIONS):
        collect(lambda: transactions(arguments.rounds))
    if is_wanted(TIER):
        collect(lambda: tiers(arguments.rounds, inputs))
    if any(map(is_wanted, SPARK)):
        collect(lambda: spark(arguments.rounds, is_wanted))
    found = [peak for key, make in PEAKS.items() if is_wanted(key) for peak in make(inputs, large=arguments.large)]
    command = "make bench" if len(sys.argv) < 2 else f"python -m tools.bench {shlex.join(stated(arguments))}"
    run = BenchRun(
        machine=machine(command, load, (time.monotonic() - start) / 60),
        rounds=arguments.rounds,
        results=tuple(results),
        peaks=tuple(found),
    )
    return run, errors


def main(words: Sequence[str] | None = None) -> int:
    arguments = parse_arguments(sys.argv[1:] if words is None else words)
    console = Console(stderr=False)
    errors: list[str] = []
    try:
        before = PAGE.read_text("utf-8") if arguments.write and PAGE.exists() else ""
        keep_sections("", before)  # fails for broken markers before the measurement, not after it
        if arguments.source:
            run = msgspec.json.decode(arguments.source.read_bytes(), type=BenchRun)
        else:
            run, errors = _run(arguments, Console(stderr=True))
    except BenchError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except (OSError, ValueError, msgspec.MsgspecError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(run)))
    show(run, console)
    for text in errors:
        print(f"error: {text}", file=sys.stderr)
    if arguments.write and not errors:
        PAGE.write_text(keep_sections(markdown(run), before), "utf-8")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
