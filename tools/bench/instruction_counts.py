"""Instructions of one run of a job, counted by valgrind's callgrind: more stable than time, and much slower to measure.

Counting begins at a mark (`worker.py`, `count`). Java is not counted: callgrind cannot distinguish the JVM from
the code that it compiled.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator

from tools.bench.cases import BenchCase
from tools.bench.contestants import Entrant, environment
from tools.bench.results import InstructionCount, Result
from tools.bench.sample_data import ROOT

#: About as long as the counted runs take without valgrind.
_SECONDS = 0.01
_COLLECTED = re.compile(r"Collected\s*:\s*(\d+)")


def available() -> bool:
    return shutil.which("valgrind") is not None


def instructions(case: BenchCase, result: Result) -> Iterator[InstructionCount]:
    """Instruction counts of the contestants that took part and are Python processes."""
    entrants = {entrant.name: entrant for entrant in case.entrants}
    for timing in result.timings:
        entrant = entrants[timing.contestant]
        if entrant.is_python:
            times = max(1, int(_SECONDS / timing.median))
            if (counted := _collected(entrant, times)) is not None:
                yield InstructionCount(contestant=timing.contestant, instructions=counted // times)


def _collected(entrant: Entrant, times: int) -> int | None:
    callgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--zero-before=*getloadavg*"]
    done = subprocess.run(
        [*callgrind, *entrant.command(), "/dev/null", *entrant.job],
        input=f"count {times}\n",
        capture_output=True,
        text=True,
        env={**environment(entrant), "PYTHONDONTWRITEBYTECODE": ""},
        cwd=ROOT,
        check=False,
    )
    found = _COLLECTED.search(done.stderr)
    return int(found[1]) if found and not done.returncode else None
