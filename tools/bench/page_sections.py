"""Benches that write a section of docs/performance.md: their command line, and their table of goals."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from tools import ROOT
from tools.bench.measured_commands import CommandError
from tools.bench.measurement import BenchError
from tools.broker.errors import BrokerToolError
from tools.pages import write_section

PAGE = ROOT / "docs" / "performance.md"


class Gate(NamedTuple):
    """A figure and the goal that it is held to, as text."""

    what: str
    measured: str
    goal: str
    met: bool


def gates_table(gates: Iterable[Gate], unmet: str = "**not met**") -> str:
    """Markdown. `unmet`: what the last cell has of a goal that is not met."""
    lines = ["| | measured | goal | |", "|---|---:|---:|---|"]
    lines += [f"| {gate.what} | {gate.measured} | {gate.goal} | {'met' if gate.met else unmet} |" for gate in gates]
    return "\n".join(lines)


def integer(default: int, text: str) -> dict[str, Any]:
    """An option that is a whole number, for `section_main`."""
    return {"type": int, "default": default, "help": f"{text} (default {default})"}


def section_main(
    name: str, about: str, measure: Callable[[Namespace], str], options: Mapping[str, Mapping[str, Any]]
) -> int:
    """The whole command: measures, prints the section, and writes it if asked to. Returns the exit code.

    Args:
        name: of the section, and, with underscores, of the module in `tools.bench`.
        about: the module's docstring. `measure`: makes the section of the arguments.
        options: of the command line, with the arguments of `ArgumentParser.add_argument`.
    """
    program = f"python -m tools.bench.{name.replace('-', '_')}"
    parser = ArgumentParser(prog=program, description=about.split("\n\n")[0])
    for option, given in options.items():
        parser.add_argument(option, **given)
    parser.add_argument("--write", action="store_true", help="write the section of docs/performance.md")
    arguments = parser.parse_args()
    try:
        text = measure(arguments)
    except (BenchError, BrokerToolError, CommandError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(text)
    if arguments.write:
        write_section(PAGE, name, text)
    return 0
