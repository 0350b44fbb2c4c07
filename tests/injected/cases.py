"""Logs that break exactly one rule, in worlds that are otherwise sound.

case = CASES[0]
case.write(tmp_path)                 # two brokers' log directories
case.check                           # what an audit must name, and nothing else
case.write(elsewhere, broken=False)  # the same world without: it must name nothing
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from kafkawire.transactions.checks.check_names import CHECKS
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


def write_clusters(folder: Path, seed: int) -> tuple[dict[str, Case], list[str]]:
    """Every case of a seed, each in a cluster of its own. Returns the cases by cluster id, which names their folder,
    and the paths of all log directories."""
    cases = {f"cluster-{number}": case for number, case in enumerate(case for case in CASES if case.seed == seed)}
    paths = [path for name, case in cases.items() for path in case.write(folder / name)]
    for path in paths:
        properties = Path(path, "meta.properties")
        name = Path(path).relative_to(folder).parts[0]
        properties.write_text(properties.read_text().replace("cluster.id=test", f"cluster.id={name}"))
    return cases, paths


CASES = [Case(injection, seed) for injection in INJECTIONS for seed in SEEDS]

assert {case.check for case in CASES} | set(INFORMATION) == set(CHECKS)
