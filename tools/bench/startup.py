"""CPU time of a library's import and first use, in fresh processes that measure themselves and take turns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from tools.bench.job import AbsentError
from tools.bench.measured_commands import CommandError, run, users_environment
from tools.bench.results import Result
from tools.bench.turns import Cost, in_turn, timings

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


def _once(library: Library) -> tuple[Cost, Cost]:
    """The import, and the first use. AbsentError: the library is not there, or does not work."""
    script = _SCRIPT.format(data=_DATA, library=library.library, use=library.use)
    environment = users_environment(PYTHONHASHSEED="0")
    environment.pop("KAFKAWIRE_BACKEND", None)
    if library.engine:
        environment["KAFKAWIRE_BACKEND"] = library.engine
    try:
        done = run([sys.executable, "-c", script], environment)
    except CommandError as error:
        raise AbsentError(str(error)) from error
    first, second = (int(number) / 1e9 for number in done.printed.split())
    return Cost(first, first), Cost(second, second)


def startup(rounds: int) -> Iterator[Result]:
    """Two cases: the import alone, and the first use of one message after it."""
    found, absent = in_turn({library.name: partial(_once, library) for library in LIBRARIES}, rounds)
    ours = [library.name for library in LIBRARIES if library.engine]
    for place, (key, title) in enumerate((("import", "import"), ("first", "first use of one message"))):
        yield Result(
            key=f"startup/{key}",
            table="startup",
            title=title,
            unit="start",
            items=1,
            size=0,
            timings=timings({name: [costs[place] for costs in each] for name, each in found.items()}, ours),
            absent=absent,
        )
