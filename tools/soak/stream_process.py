"""The Spark stream over the log directory of one broker (`stream_job`), and its rows compared with what was written."""

from __future__ import annotations

import glob
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tools.broker.kafka_tools import tool_command
from tools.polling import until

from .child_process import ChildProcess, SoakError, child
from .memory_samples import descendants, program
from .stream_job import COLUMNS

_START_S = 300.0
_PROCESS_S = 240.0
_MARKER = re.compile(rb"endTxnMarker: (\w+)")
Longs = npt.NDArray[np.int64]


class _JobLine(msgspec.Struct):
    """A line of the job."""

    pid: int | None = None
    heap: int | None = None
    processed: bool = False


class StreamProcess:
    """The job, from outside. `logs`: what it reads. `jvm`: the process id of its JVM. `folder`: of its rows and its
    checkpoint."""

    def __init__(self, logs: str, folder: Path, take_heap: Callable[[int], None]) -> None:
        self.logs = logs
        self.folder = folder
        self.jvm: int | None = None
        self.child: ChildProcess
        self._take_heap = take_heap
        self._processed = 0

    def take(self, line: bytes) -> None:
        row = msgspec.json.decode(line, type=_JobLine)
        self.jvm = row.pid or self.jvm
        self._processed += row.processed
        if row.heap is not None:
            self._take_heap(row.heap)

    def workers(self) -> list[int]:
        """The Python processes that the JVM has started."""
        started = [] if self.jvm is None else descendants(self.jvm)
        # Between fork and exec a child is a second JVM by its looks.
        return [pid for pid in started if program(pid).startswith("python")]

    def wait_started(self) -> None:
        def started() -> int | None:
            self.child.check()
            return self.jvm

        until(started, "the Spark stream", seconds=_START_S)

    def read_up_to(self, ends: Mapping[int, int]) -> pa.Table:
        """All rows, once there are those of every offset before `ends`, by partition. What is there then is given, if
        they do not come: it is compared anyway."""
        found: list[pa.Table] = []

        def there() -> bool:
            before = self._processed
            self.child.send("process")
            until(lambda: self._has_processed(before), "the Spark stream's batch", seconds=_PROCESS_S)
            found[:] = [self.rows()]
            return all(len(offsets_of(found[0], partition)) >= end for partition, end in ends.items())

        try:
            until(there, "the end of the log in the Spark stream", seconds=_PROCESS_S)
        except (SoakError, TimeoutError):
            if not found:
                raise
        return found[0]

    def rows(self) -> pa.Table:
        """What is in its sink."""
        files = sorted((self.folder / "rows").glob("*.parquet"))
        return pa.concat_tables(pq.read_table(path, columns=list(COLUMNS)) for path in files)

    def end(self) -> None:
        """Raises SoakError where it does not end as it should."""
        self.child.check()
        self.child.send("end")
        self.child.end()

    def _has_processed(self, before: int) -> bool:
        self.child.check()
        return self._processed > before


@contextmanager
def streaming(logs: str, folder: Path, take_heap: Callable[[int], None]) -> Iterator[StreamProcess]:
    """Runs the job on the partition directories that a glob names, until the block ends.

    Args:
        logs: a glob of partition directories. `folder`: is made; rows and checkpoint are in it.
        take_heap: called with bytes of the JVM's heap in use after a collection, in another thread.
    """
    folder.mkdir(parents=True)
    found = StreamProcess(logs, folder, take_heap)
    command = [sys.executable, "-m", "tools.soak.stream_job", logs, str(folder)]
    with child("Spark stream", command, folder / "job", found.take) as found.child:
        yield found


def dumped(logs: str, *, version: str) -> Counter[str]:
    """What Kafka's DumpLogSegments finds in the segments of these partition directories (a glob): "records", and
    markers by "COMMIT" and "ABORT"."""
    files = sorted(glob.glob(f"{logs}/*.log"))
    command = tool_command("DumpLogSegments", "--files", ",".join(files), "--deep-iteration", version=version)
    found: Counter[str] = Counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(b"| offset:"):
                marker = _MARKER.search(line)
                found[marker[1].decode() if marker else "records"] += 1
    if process.returncode:
        raise SoakError(f"DumpLogSegments ended with {process.returncode}")
    return found


def offsets_of(rows: pa.Table, partition: int) -> Longs:
    """Those of the rows of one partition."""
    found: Longs = rows.filter(pc.equal(rows["partition"], partition))["offset"].drop_null().to_numpy()
    return found
