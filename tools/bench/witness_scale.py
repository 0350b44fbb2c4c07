"""`python -m tools.bench.witness_scale`: the witness's join on Spark, at a scale and at ten times it.

Tasks generate what captures would hold, in partitions of one size (`tools.bench.witness`); it is shuffled, and joined
with copies that are generated, too. Printed are batches a second, the largest resident memory of a Python worker, and
that of the driver's Python. Reading captures and logs is measured elsewhere.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from kafkawire.spark.auditing.witness_job import PARTS, chunks, joined_totals
from kafkawire.spark.session.sessions import QUICK_START, session_on
from kafkawire.spark.session.task_sizing import by_task
from kafkawire.witness.capture_parts import Numbers
from kafkawire.witness.captured_decisions import DecidedTransactions
from kafkawire.witness.ended import ENDED
from kafkawire.witness.exchange_rows import Place, Sources
from kafkawire.witness.group_log import GroupLogs
from kafkawire.witness.held import CopyOfPartition
from kafkawire.witness.held_side import HeldSide, Identity
from kafkawire.witness.packed_rows import PackedRows
from kafkawire.witness.partition_join import Captured, Context
from tools.bench.witness import generated

#: Batches in a partition.
PARTITION = 125_000


class Scale(NamedTuple):
    """What was measured. `worker_mb`, `driver_mb`: the largest resident memory so far."""

    batches: int
    seconds: float
    worker_mb: float
    driver_mb: float


def measured(session: SparkSession, partitions: int, size: int = PARTITION) -> Scale:
    """Joins so many partitions.

    Raises:
        AssertionError: batches are missing.
    """

    def captured(rows: Iterator[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
        for row in rows:
            sent, _ = generated(size)
            yield from chunks(("orders", row["number"]), 0, Captured(sent=sent))

    began = time.perf_counter()
    listed = session.range(partitions).withColumnRenamed("id", "number").repartition(partitions, "number")
    found = by_task(listed, captured, PARTS)
    joined = joined_totals(session, found, partial(_Generated, size), Identity(), [_numbers()], _context(), 0)
    seconds = time.perf_counter() - began
    batches = joined.totals.number(lambda key: True)
    if batches != partitions * size:
        raise AssertionError(f"{batches} batches have a fate, of {partitions * size}")
    driver = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Scale(batches, seconds, joined.memory / 1024, driver / 1024)


class _Generated(HeldSide):
    """Copies that are generated. `size`: batches of each."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def topic_names(self) -> dict[UUID, str]:
        return {}

    def copies(self, place: Place, identity: Identity, *, only_newest: bool) -> Iterator[CopyOfPartition]:
        yield generated(self._size)[1]

    def read_decisions(self, *given: Any) -> None:
        """There are no coordinators."""

    def read_groups(self, *given: Any) -> None:
        """There are no groups."""


def _numbers() -> Numbers:
    one = np.zeros(1, np.int32)
    return Numbers(one, one, one, 0)


def _context() -> Context:
    sources = Sources()
    sources.file_number("generated")
    sources.client_number(("generated", ""))
    decided = DecidedTransactions(np.empty(0, np.int64))
    decided.finish()
    return Context(sources, PackedRows.of(np.empty(0, ENDED)), decided, [], {}, GroupLogs(()), 0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=8, help=f"of {PARTITION:,} batches each, at 1x")
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    with session_on(given.master, settings=QUICK_START) as session:
        measured(session, 2)  # workers start
        for times in (1, 10):
            one = measured(session, times * given.partitions)
            speed = one.batches / one.seconds
            print(
                f"{times:>2}x: {one.batches:,} batches in {one.seconds:.1f} s, {speed:,.0f} a second; "
                f"a worker {one.worker_mb:,.0f} MB, the driver's Python {one.driver_mb:,.0f} MB",
                flush=True,
            )
