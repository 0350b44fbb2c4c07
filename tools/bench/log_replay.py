"""What the audit costs a batch, by the number of producers and the length of the log.

    python -m tools.bench.log_replay 600000                 # batches in one partition; and ten times as many
    python -m tools.bench.log_replay 600000 --producers 50 20000

Nanoseconds of CPU a batch, of one process: headers with their checksums; headers to the columns that are replayed; the
replay of these; the columns as bytes, and back; the audit whole. A transaction is a batch of data and its marker; the
producers take turns. Nothing is random: equal arguments give equal bytes.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from kafkawire import logdir
from kafkawire.logdir.splits import pieces
from kafkawire.records.columns import Batches
from kafkawire.transactions import audit
from kafkawire.transactions.appends import Appends
from kafkawire.transactions.log_checks import LogChecks
from kafkawire.transactions.ordered_replay import ordered_replay
from kafkawire.transactions.packed_appends import packed, unpacked
from kafkawire.transactions.part_scan import PartTask, count_parts
from kafkawire.wire.backend import backend
from tools.bench.spark_scale import write_partitions

T = TypeVar("T")
PRODUCERS = (50, 20_000, 1_000_000)


def measured(root: Path) -> dict[str, float]:
    """Nanoseconds a batch of each stage, bytes a batch of the packed columns, and MiB of the process at its end."""
    directory = logdir.open(root)
    (file,) = directory.partitions[0].segments
    count = count_parts(file.size)
    found: dict[str, float] = {}

    def headers() -> int:
        return sum(len(item) for item in pieces(file, 0, None) if isinstance(item, Batches))

    batches, spent = _timed(headers)
    found["headers with CRC"] = spent

    def columns() -> list[Appends]:
        parts = (PartTask(file, number, count, file.size // count).read() for number in range(count))
        return [part.appends for part in parts if part.appends is not None]

    read, found["headers to columns"] = _timed(columns)
    log = ordered_replay(checks=LogChecks())
    _, found["replay"] = _timed(lambda: [log.run(appends) for appends in read])
    one, found["packed"] = _timed(lambda: [packed(appends) for appends in read])
    _, found["unpacked"] = _timed(lambda: [unpacked(part) for part in one])
    _, found["audit whole"] = _timed(lambda: audit(logdir.open(root)))
    found = {name: 1e9 * seconds / batches for name, seconds in found.items()}
    found["bytes a batch"] = sum(len(part.data) for part in one) / batches
    found["MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found


def _timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it returns, and seconds of CPU."""
    begun = time.process_time()
    found = work()
    return found, time.process_time() - begun


def main(words: Sequence[str] | None = None) -> int:
    about = (__doc__ or "").split("\n\n")[0]
    parser = argparse.ArgumentParser(prog="python -m tools.bench.log_replay", description=about)
    parser.add_argument("batches", type=int)
    parser.add_argument("--producers", type=int, nargs="+", default=PRODUCERS)
    parser.add_argument("--times", type=int, nargs="+", default=(1, 10), help="of the batches (default 1 and 10)")
    given = parser.parse_args(words)
    print(f"engine: {backend}")
    for times in given.times:
        for producers in given.producers:
            with tempfile.TemporaryDirectory() as folder:
                write_partitions(Path(folder), 1, given.batches * times // 2, producers)
                found = measured(Path(folder))
            figures = ", ".join(f"{name} {figure:,.1f}" for name, figure in found.items())
            print(f"{given.batches * times:,} batches, {producers:,} producers: {figures}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
