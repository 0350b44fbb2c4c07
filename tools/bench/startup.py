"""CPU time of a library's import and first use, in fresh processes that measure themselves and take turns."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from tools.bench.results import AbsentContestant, Result, Timing
from tools.bench.sample_data import ROOT

#: Runs what is imported everywhere, then a library's import, then its first use; prints the CPU time of the last two.
_SCRIPT = """
import msgspec, struct, uuid
from time import process_time_ns as now
{data}
start = now()
{library}
imported = now()
{use}
print(imported - start, now() - imported)
"""
#: The first use reads and writes these bytes: DescribeProducersResponse v0 without topics.
_DATA = "data = bytes.fromhex('000000000100')"


@dataclass(frozen=True)
class Library:
    name: str
    library: str
    use: str
    engine: str = ""


def _kafkawire(engine: str) -> Library:
    use = """from kafkawire.messages import DescribeProducersResponse as M
assert M.decode(data, 0).encode(0) == data"""
    return Library(f"kafkawire {engine}", "import kafkawire", use, engine)


LIBRARIES = (
    _kafkawire("native"),
    _kafkawire("python"),
    Library(
        "kio",
        "import kio.serial",
        """import io
from kio.schema.describe_producers.v0.response import DescribeProducersResponse as M
out = io.BytesIO()
kio.serial.entity_writer(M)(out, kio.serial.entity_reader(M)(data, 0)[0])
assert out.getvalue() == data""",
    ),
    Library(
        "kafka-python",
        "import kafka.protocol",
        """from kafka.protocol.admin import DescribeProducersResponse as M
m = M.decode(data, version=0)
m._header = None
assert bytes(m.encode(version=0)) == data""",
    ),
)


def _once(library: Library) -> tuple[float, float] | str:
    """CPU seconds of the import and of the first use, or the reason why there are none."""
    script = _SCRIPT.format(data=_DATA, library=library.library, use=library.use)
    # Compiled modules are kept, as on a user's disk, whatever this environment has set.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment.pop("KAFKAWIRE_BACKEND", None)
    if library.engine:
        environment["KAFKAWIRE_BACKEND"] = library.engine
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, cwd=ROOT, check=False
    )
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["no error text"])[-1]
    first, second = map(int, done.stdout.split())
    return first / 1e9, second / 1e9


def startup(rounds: int) -> Iterator[Result]:
    """Two cases: the import alone, and the first use of one message after it."""
    absent = []
    present: list[tuple[Library, list[tuple[float, float]]]] = []
    for library in LIBRARIES:
        found = _once(library)  # fills the caches of compiled code and of the disk, too
        if isinstance(found, str):
            absent.append(AbsentContestant(contestant=library.name, why=found))
        else:
            present.append((library, []))
    for _ in range(rounds):
        for library, times in present:
            found = _once(library)
            if not isinstance(found, str):
                times.append(found)
    for place, (key, title) in enumerate((("import", "import"), ("first", "first use of one message"))):
        yield Result(
            key=f"startup/{key}",
            table="startup",
            title=title,
            unit="start",
            items=1,
            size=0,
            timings=tuple(
                Timing(
                    contestant=library.name,
                    ours=bool(library.engine),
                    seconds=tuple(time[place] for time in times),
                    process=median(time[place] for time in times),
                )
                for library, times in present
            ),
            absent=tuple(absent),
        )
