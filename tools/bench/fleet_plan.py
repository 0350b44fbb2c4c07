"""`python -m tools.bench.fleet_plan`: the cost of planning an audit or a lake, measured with generated listings.

Prints rows for the table of docs/spark.md. Workers list folders and read brokers' small files; the driver takes rows of
these. A store answers at once.
"""

from __future__ import annotations

import io
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pyarrow as pa

from kafkawire.logdir import remote
from kafkawire.spark.auditing.replica_parts import PartSizing
from kafkawire.spark.listing import fleet_listing, found_replicas
from kafkawire.spark.session.row_batches import as_batches
from kafkawire.spark.session.task_sizing import MOST_PLANNERS, TaskLimits
from tools.bench import spark_plan

_CHECKPOINTS = tuple(
    f"{name}-checkpoint"
    for name in ("cleaner-offset", "log-start-offset", "recovery-point-offset", "replication-offset")
)
_PART_BYTES = 64 << 20


class FleetPlan(NamedTuple):
    """What a plan costs.

    Attributes:
        lists, opened: requests: LISTs, and files that were opened, each with a HEAD and a GET.
        reading, merging: numbers of tasks. `index_bytes`: of the index files of the shuffles between these.
    """

    lists: int
    opened: int
    reading: int
    merging: int
    index_bytes: int


def plan(replicas: int, size: int, rows: Path) -> FleetPlan:
    """List a fleet as workers do, and write the rows that the driver takes to a file.

    Args:
        replicas: number of replicas, of `spark_plan.SEGMENTS` segments each. `size`: of a segment, in bytes.
    """
    folders = dict(spark_plan.listing(replicas, size))
    for broker in range(spark_plan.BROKERS):
        folders[f"{spark_plan.ROOT}/broker-{broker}"] += [remote.FileTraits(name, 40, 1) for name in _CHECKPOINTS]
    below: dict[str, list[str]] = {}
    for folder in folders:
        below.setdefault(folder.rpartition("/")[0], []).append(folder)
    lists: list[int] = []  # threads append to it
    opened = 0

    def infos(uri: str, path: str, *, deep: bool = True, must_exist: bool = False) -> dict[str, list[Any]]:
        found = {one: folders[one] for one in (path, *(below.get(path, ()) if deep else ())) if one in folders}
        lists.append(max(1, -(-sum(map(len, found.values())) // 1000)))
        return found

    def folder_at(uri: str, path: str) -> tuple[list[str], list[str]]:
        found, names = below.get(path, []), [one.name for one in folders.get(path, ())]
        lists.append(max(1, -(-len(found + names) // 1000)))
        return found, names

    def raw(self: remote.RemoteFile, path: str) -> io.BytesIO:
        nonlocal opened
        opened += 1
        name = path.rpartition("/")[2]
        return io.BytesIO(_checkpoint(path, replicas) if name in _CHECKPOINTS else spark_plan.content(path))

    with (
        mock.patch.object(remote, "_infos", infos),
        mock.patch.object(remote, "folder_at", folder_at),
        mock.patch.object(remote, "found_at", return_value=(True, spark_plan.ROOT)),
        mock.patch.object(remote, "_opened", return_value=(None, spark_plan.ROOT)),
        mock.patch.object(remote.RemoteFile, "raw", raw),
    ):
        found = (row for one in fleet_listing._folders(0, spark_plan.URI) for row in fleet_listing._rows_of(one))
        with pa.OSFile(str(rows), "wb") as file, pa.ipc.new_stream(file, fleet_listing.LISTING) as stream:
            for batch in as_batches(_of_driver(found), fleet_listing.LISTING):
                stream.write_batch(batch)
    return FleetPlan(sum(lists), opened, *tasks(replicas, size))


def tasks(replicas: int, size: int) -> tuple[int, int, int]:
    """The numbers of tasks that read and that merge, and the bytes of index files between them."""
    segments = spark_plan.SEGMENTS * replicas
    sizing = PartSizing(_PART_BYTES, replicas, size * segments, segments)
    listing = min(MOST_PLANNERS, 1 + replicas // 256)
    parts, merges, judges = sizing.part_tasks, sizing.tasks, TaskLimits().reducers
    return parts, merges, 8 * (listing * parts + 2 * parts * merges + parts * judges)


def _of_driver(found: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    taken = (fleet_listing.BROKER, fleet_listing.METADATA, fleet_listing.UNREADABLE, fleet_listing.SIZE)
    return (row for row in fleet_listing._with_size(found) if row[0] in taken)


def _checkpoint(path: str, replicas: int) -> bytes:
    broker = int(path.rpartition("/")[0].rpartition("-")[2])
    held = [number // spark_plan.REPLICAS for number in range(replicas) if number % spark_plan.BROKERS == broker]
    return "".join([f"0\n{len(held)}\n", *(f"topic-{number} 0 7\n" for number in held)]).encode()


def driver(rows: Path) -> tuple[float, int]:
    """Seconds of CPU, and bytes of memory at most, for what the driver takes of a listing."""
    begun = time.process_time()
    _taken(rows)
    seconds = time.process_time() - begun
    tracemalloc.start()
    size = _taken(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return seconds, size + peak


def _taken(rows: Path) -> int:
    """Bytes of the table that the driver gets."""
    with pa.OSFile(str(rows)) as file:
        table = pa.ipc.open_stream(file).read_all()
    found = found_replicas.found_in(table)
    assert found.size.replicas
    return int(table.nbytes)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found: dict[int, tuple[FleetPlan, float, int]] = {}
        for replicas, size in spark_plan.FLEETS:
            if replicas not in found:
                rows = Path(folder, str(replicas))
                found[replicas] = plan(replicas, size, rows), *driver(rows)
            listed, seconds, memory = found[replicas]
            reading, merging, index_bytes = tasks(replicas, size)
            segments = spark_plan.SEGMENTS * replicas
            print(
                f"| {segments:,} segments of {size:,} bytes in {replicas:,} replicas | {listed.lists:,} | "
                f"{2 * listed.opened:,} | {(listed.lists + 2 * listed.opened) / segments:.1f} | {reading:,} | "
                f"{merging:,} | {index_bytes / 1e9:.2f} GB | {seconds:.1f} s | {memory / 1e6:.0f} MB |",
                flush=True,
            )


if __name__ == "__main__":
    main()
