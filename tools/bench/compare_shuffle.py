"""`python -m tools.bench.compare_shuffle`: the bytes that `compare --engine spark` shuffles, of copies that are
equal, and with batches of one range that differ.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from kafkawire.records import Batch, Record, build, read
from kafkawire.spark.auditing.compare_job import compare
from kafkawire.spark.session.sessions import QUICK_START, session_on
from kafkawire.transactions.log.range_digests import RANGE_OFFSETS

TOPIC = "orders"
#: Records of a batch.
_RECORDS = 64


def write_copies(root: Path, ranges: int) -> tuple[Path, Path, Path]:
    """A copy, an equal one, and one whose batches in the second range have other values, each of so many ranges."""
    made = root / "a", root / "equal", root / "changed"
    plain, other = (next(read(build([Record(None, value)] * _RECORDS))) for value in (b"value", b"other"))
    assert isinstance(plain, Batch)
    assert isinstance(other, Batch)
    for copy in made:
        folder = copy / f"{TOPIC}-0"
        folder.mkdir(parents=True)
        with (folder / f"{0:020}.log").open("wb") as log:
            for base in range(0, ranges * RANGE_OFFSETS, _RECORDS):
                batch = other if copy.name == "changed" and base // RANGE_OFFSETS == 1 else plain
                log.write(batch.rebased(base, 0))
        (folder / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
        (copy / "replication-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 {ranges * RANGE_OFFSETS}\n")
    return made


def shuffled(session: SparkSession, a: Path, b: Path) -> tuple[int, dict[str, int]]:
    """Bytes that were written to shuffles, and what the batches of A are in B."""
    before = _written(session)
    (row, *_), _, _ = compare(str(a), str(b), spark=session, most=10)
    return sum(size for stage, size in _written(session).items() if stage not in before), row.of_a  # type: ignore[attr-defined]


def _written(session: SparkSession) -> dict[tuple[int, int], int]:
    """By stage and attempt: of the last thousand stages alone, older ones are forgotten (spark.ui.retainedStages)."""
    store = session.sparkContext._jsc.sc().statusStore()
    defaults = [getattr(store, f"stageList$default${number}")() for number in (2, 3, 4, 5)]
    stages = store.stageList(None, *defaults)
    listed = map(stages.apply, range(stages.size()))
    return {(one.stageId(), one.attemptId()): int(one.shuffleWriteBytes()) for one in listed}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranges", type=int, default=100, help=f"of {RANGE_OFFSETS:,} offsets")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="kafkawire-compare-") as scratch,
        session_on("local[2]", settings=QUICK_START) as session,
    ):
        first, equal, changed = write_copies(Path(scratch), given.ranges)
        batches = given.ranges * RANGE_OFFSETS // _RECORDS
        print(f"{batches:,} batches in {given.ranges} ranges, two copies")
        for name, second in (("equal", equal), ("one range changed", changed)):
            began = time.perf_counter()
            written, of_a = shuffled(session, first, second)
            print(f"{name}: {written:,} bytes shuffled, {of_a}, {time.perf_counter() - began:.1f} s", flush=True)
