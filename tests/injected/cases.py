"""Logs that break exactly one rule, in worlds that are sound else.

case = CASES[0]
case.write(tmp_path)                 # two brokers' log directories
case.check                           # what an audit must name, and nothing else
case.write(elsewhere, broken=False)  # the same world without: it must name nothing
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafkawire.transactions.answers import CHECKS
from tests.injected import coordinators as coordinators
from tests.injected import logs as logs
from tests.injected.injection import INJECTIONS, Injection
from tests.worlds import World

SEEDS = (1, 2, 3)

#: Checks that only report, and cannot be violated.
INFORMATION = ("marker_without_data", "open_transaction")


@dataclass(frozen=True)
class Case:
    """An injection into the world of a seed."""

    injection: Injection
    seed: int

    @property
    def check(self) -> str:
        return self.injection.check

    def __str__(self) -> str:
        return f"{self.check}-{self.injection.name}-{self.seed}"

    def write(self, root: Path, *, broken: bool = True) -> list[str]:
        """Write the log directories; returns their paths."""
        world = World(root, self.seed)
        world.run()
        if broken and self.injection.early:
            self.injection.early(world)
        world.finish()
        other = world.replicate()
        other.write()
        if broken and self.injection.late:
            self.injection.late(world)
        return [str(world.logs.root), str(other.root)]


CASES = [Case(injection, seed) for injection in INJECTIONS for seed in SEEDS]

assert {case.check for case in CASES} | set(INFORMATION) == set(CHECKS)
