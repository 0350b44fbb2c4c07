"""`python -m tools.bench.spark_plan`: the cost for a driver to plan a batch of `kafka_segment`, measured with generated
listings.

Prints rows for the table of docs/spark.md. Each fleet is planned in a process of its own, whose memory is measured; a
store answers at once, with as many keys as the fleet has.
"""

from __future__ import annotations

import io
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple
from unittest import mock

from kafkawire.logdir import remote
from kafkawire.spark.sources.segment_columns import RECORDS
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.source_base import SourceOptions, Task

#: The files of a segment, and those of a partition's directory.
KINDS, BESIDE = (".index", ".log", ".snapshot", ".timeindex"), ("leader-epoch-checkpoint", "partition.metadata")
BROKERS, REPLICAS, SEGMENTS = 30, 3, 5
#: Fleets: how many replicas, and bytes of a segment.
FLEETS = ((300, 100), (3_000, 100), (30_000, 100), (30_000, 10**9))
URI, ROOT = "s3://fleet", "fleet"
_KEYS_A_LIST = 1000
_SMALL = 40


class Plan(NamedTuple):
    """What a plan costs: numbers of requests, tasks and parts; seconds; bytes.

    opened: files that were opened, each with a HEAD and a GET.
    """

    keys: int
    opened: int
    tasks: int
    parts: int
    seconds: float = 0.0
    memory: int = 0
    sent: int = 0

    @property
    def lists(self) -> int:
        return -(-self.keys // _KEYS_A_LIST)


def plan(replicas: int, size: int) -> Plan:
    """Plan a fleet.

    Args:
        replicas: number of replicas, of `SEGMENTS` segments each. `size`: of a segment, in bytes.
    """
    found = dict(listing(replicas, size))
    opened: list[str] = []

    def raw(self: remote.RemoteFile, path: str) -> io.BytesIO:
        opened.append(path)
        return io.BytesIO(content(path))

    # Functions, since a mock would keep every call.
    def infos(uri: str, path: str) -> dict[str, list[remote.FileTraits]]:
        return found

    def located(uri: str) -> tuple[None, str]:
        return None, ROOT

    before = peak()
    with (
        mock.patch.object(remote, "_infos", infos),
        mock.patch.object(remote, "_opened", located),
        mock.patch.object(remote.RemoteFile, "raw", raw),
    ):
        from pyspark.sql.pandas.types import from_arrow_schema

        reader = SegmentReader(from_arrow_schema(RECORDS), SourceOptions({"path": URI}))
        start = time.process_time()
        tasks = reader.partitions()
        seconds = time.process_time() - start
    memory = peak() - before
    return Plan(
        keys=sum(map(len, found.values())),
        opened=len(opened),
        tasks=len(tasks),
        parts=sum(len(task.items) for task in tasks if isinstance(task, Task)),
        seconds=seconds,
        memory=memory,
        sent=sum(len(pickle.dumps(task)) for task in tasks),
    )


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def listing(replicas: int, size: int) -> Iterator[tuple[str, list[remote.FileTraits]]]:
    for broker in range(BROKERS):
        yield f"{ROOT}/broker-{broker}", [remote.FileTraits("meta.properties", _SMALL, 1)]
    for number in range(replicas):
        segments = (
            remote.FileTraits(f"{1000 * segment:020}{kind}", size if kind == ".log" else _SMALL, 1)
            for segment in range(SEGMENTS)
            for kind in KINDS
        )
        files = [*segments, *(remote.FileTraits(name, _SMALL, 1) for name in BESIDE)]
        yield f"{ROOT}/broker-{number % BROKERS}/topic-{number // REPLICAS}-0", files


def content(path: str) -> bytes:
    folder, _, name = path.rpartition("/")
    if name == "meta.properties":
        return b"version=1\ncluster.id=c\nnode.id=%d\n" % int(folder.rpartition("-")[2])
    if name == "partition.metadata":
        return b"version: 0\ntopic_id: %022d\n" % int(folder.rpartition("/topic-")[2].partition("-")[0])
    if name == "leader-epoch-checkpoint":
        return b"0\n1\n0 0\n"
    raise FileNotFoundError(path)


def main() -> None:
    if len(sys.argv) > 1:
        replicas, size = map(int, sys.argv[1:])
        found = plan(replicas, size)
        print(
            f"| {SEGMENTS * replicas:,} segments of {size:,} bytes in {replicas:,} replicas | {found.lists:,} | "
            f"{2 * found.opened:,} | {found.tasks:,} | {found.parts:,} | {found.seconds:.1f} s | "
            f"{found.memory / 1e6:.0f} MB | {found.sent / 1e6:.1f} MB |"
        )
        return
    for replicas, size in FLEETS:
        subprocess.run([sys.executable, "-m", "tools.bench.spark_plan", str(replicas), str(size)], check=True)


if __name__ == "__main__":
    main()
