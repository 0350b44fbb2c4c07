"""How far the audit on Spark goes, on generated directories.

    python -m tools.bench.spark_scale partition 4000000          # one partition, a driver of 1 GB, one core and two
    python -m tools.bench.spark_scale partitions 2000            # 2,000 partitions of 2,000 transactions, same driver
    python -m tools.bench.spark_scale planning 60 1200           # replicas of 500 empty files each
    python -m tools.bench.spark_scale judging 20000              # transactions of one id, one a second and a hundred
    python -m tools.bench.spark_scale gates                      # all four, in the sizes that are promised

Each prints its figures, and rows for the table in docs/spark.md. `partition` and `partitions` fail unless the answer is
that of the local engine; `gates` fails unless each promise holds. The start of Spark is the time of the same audit of
one transaction, on as many cores; what is promised is promised of the time beyond it. One core is one processor for all
threads of Java and Python, not one slot of Spark beside idle processors. Times can only be compared on a machine that
does nothing else: the load is printed. Nothing is random: equal arguments give equal bytes.
"""

from __future__ import annotations

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import crc32c

from kafkawire import records
from kafkawire.transactions.checks.marker_outcomes import Tallies, judge
from kafkawire.transactions.coordinator.decisions import Decision
from kafkawire.transactions.facts import Place
from kafkawire.transactions.log.endings import Ending
from tools.bench.measurement import BenchError

_NOW = 1_795_288_900_000
_IDS = 1000
_FILES = 500
_PARTITIONS, _TRANSACTIONS = 2000, 2000
#: What is promised of the time beyond Spark's start: on two cores it is at most as many times that of the local engine
#: on one, and two cores are as many times as fast as one.
_TIMES_LOCAL, _GAIN = 2, 1.7
_KINDS = ("log", "index", "timeindex", "snapshot")
#: Of a batch: base offset; checksum; timestamps, producer id and epoch.
_OFFSET, _CRC, _PRODUCER = struct.Struct(">q"), struct.Struct(">I"), struct.Struct(">qqqh")
_CRC_AT, _CRC_FROM, _PRODUCER_AT = 17, 21, 27


def write_partitions(root: Path, partitions: int, transactions: int, ids: int = _IDS) -> int:
    """Partitions of as many transactions each: a batch and its marker, in an epoch of its own. Returns their bytes.

    Args:
        ids: number of producer ids. A producer's epoch is at most 2^15 - 1.
    """
    data = records.build(
        [records.Record(b"key", bytes(40), timestamp=_NOW)], producer_id=0, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    marker = records.build_marker(
        "COMMIT", producer_id=0, producer_epoch=0, coordinator_epoch=0, offset=0, timestamp=_NOW
    )
    batches, size = (bytearray(data), bytearray(marker)), 0
    for partition in range(partitions):
        folder = root / f"orders-{partition}"
        folder.mkdir(parents=True)
        with (folder / f"{0:020}.log").open("wb", 1 << 20) as file:
            for number in range(transactions):
                for place, batch in enumerate(batches):
                    _OFFSET.pack_into(batch, 0, 2 * number + place)
                    _PRODUCER.pack_into(
                        batch, _PRODUCER_AT, _NOW + number, _NOW + number, number % ids, number // ids % (1 << 15)
                    )
                    _CRC.pack_into(batch, _CRC_AT, crc32c.crc32c(memoryview(batch)[_CRC_FROM:]))
                    file.write(batch)
            size += file.tell()
    return size


def write_fleet(root: Path, replicas: int) -> None:
    """Folders of empty files, on ten brokers. Files of one name are one file with many links: 30,000 replicas have more
    names than most file systems have inodes. At most 65,000 replicas: ext4 allows that many links."""
    names = [f"{number // len(_KINDS):020}.{_KINDS[number % len(_KINDS)]}" for number in range(_FILES)]
    first = root / "broker-0" / "orders-0"
    first.mkdir(parents=True)
    for name in names:
        (first / name).touch()
    for replica in range(1, replicas):
        folder = root / f"broker-{replica % 10}" / f"orders-{replica}"
        folder.mkdir(parents=True)
        for name in names:
            os.link(first / name, folder / name)


def _audit(root: Path, *options: str, cores: int) -> tuple[float, object]:
    """Seconds on as many processors, and the answer."""
    command = [sys.executable, "-m", "kafkawire", "audit", str(root), "--format", "json", *options]
    start = time.perf_counter()
    chosen = sorted(os.sched_getaffinity(0))[:cores]
    if len(chosen) < cores:
        raise BenchError(f"{cores} processors are needed, {len(chosen)} may be used")
    # An affinity is inherited: nothing else in this process runs while a child has it.
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, chosen)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        os.sched_setaffinity(0, before)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 3, 4, 5):
        raise BenchError(f"{' '.join(options)}: {done.stderr.strip()}")
    return seconds, json.loads(done.stdout)


class Stages(NamedTuple):
    """What an audit on Spark did: the stages that ran, their tasks, and the bytes that they shuffled."""

    stages: int
    tasks: int
    shuffled: int

    @classmethod
    def of(cls, folder: Path) -> Stages:
        """Those of the only event log in a folder."""
        (log,) = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        with log.open() as lines:
            ended = [event for event in map(json.loads, lines) if event["Event"] == "SparkListenerTaskEnd"]
        metrics = [event["Task Metrics"]["Shuffle Write Metrics"] for event in ended]
        shuffled = sum(one["Shuffle Bytes Written"] for one in metrics)
        return cls(len({event["Stage ID"] for event in ended}), len(ended), shuffled)


class Scale(NamedTuple):
    """Seconds: of the local engine on one core; by number of cores, of Spark's start and of the whole audit on Spark.

    Attributes:
        stages: of the audit on two cores.
    """

    local: float
    start: dict[int, float]
    whole: dict[int, float]
    stages: Stages

    def beyond(self, cores: int) -> float:
        """Beyond Spark's start."""
        return self.whole[cores] - self.start[cores]

    @property
    def gain(self) -> float:
        """How many times as fast two cores are as one, beyond Spark's start."""
        return self.beyond(1) / self.beyond(2)

    @property
    def times_local(self) -> float:
        """How many times the local engine's time two cores take, beyond Spark's start."""
        return self.beyond(2) / self.local


def audited(partitions: int, transactions: int, rounds: int = 1) -> Scale:
    """Audit generated partitions. `rounds`: of which the fastest counts."""
    with tempfile.TemporaryDirectory() as folder:
        small, root = Path(folder, "small"), Path(folder, "logs")
        write_partitions(small, 1, 1)
        size = write_partitions(root, partitions, transactions)
        what = f"{partitions:,} partitions of" if partitions > 1 else "one partition of"
        what = f"{what} {transactions:,} transactions ({size >> 20:,} MiB)"
        print(f"{what}; load {os.getloadavg()[0]:.1f}", flush=True)
        expected = {path: _audit(path, "--jobs", "1", cores=1) for path in (small, root)}
        local = min(expected[root][0], *(_audit(root, "--jobs", "1", cores=1)[0] for _ in range(rounds)))
        print(f"local engine, one core: {local:.1f} s", flush=True)
        taken: dict[tuple[Path, int], list[float]] = defaultdict(list)
        for cores in (1, 2) * rounds:
            for path in (small, root):
                seconds, found, stages = _on_spark(path, cores)
                taken[path, cores].append(seconds)
                if found != expected[path][1]:
                    raise BenchError(f"local[{cores}] finds something else than the local engine")
        start, whole = ({cores: min(taken[path, cores]) for cores in (1, 2)} for path in (small, root))
        scale = Scale(local, start, whole, stages)
        for cores in (1, 2):
            print(
                f"Spark, local[{cores}], driver of 1 GB: {whole[cores]:.1f} s, equal; {scale.beyond(cores):.1f} s "
                f"beyond its start",
                flush=True,
            )
        batches = 2 * partitions * transactions
        _row(
            f"{what}, one core and two",
            f"{whole[1]:.0f} s and {whole[2]:.0f} s; beyond Spark's start {scale.beyond(1):.1f} s and "
            f"{scale.beyond(2):.1f} s: {scale.gain:.2f} times as fast, and {scale.times_local:.1f} "
            f"times the local engine's {local:.1f} s; {stages.stages} stages, {stages.tasks} tasks, "
            f"{stages.shuffled / batches:.1f} bytes shuffled a batch",
        )
        return scale


def _on_spark(root: Path, cores: int) -> tuple[float, object, Stages]:
    """Seconds on as many processors, the answer, and what Spark did."""
    with tempfile.TemporaryDirectory() as events:
        settings = {
            "spark.driver.memory": "1g",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": Path(events).as_uri(),
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        conf = [text for name, value in settings.items() for text in ("--conf", f"{name}={value}")]
        seconds, found = _audit(root, "--engine", "spark", *conf, "--master", f"local[{cores}]", cores=cores)
        return seconds, found, Stages.of(Path(events))


def _row(what: str, measured: str) -> None:
    """A row of the table in docs/spark.md."""
    print(f"| {what} | {measured} |", flush=True)


def judging(transactions: int) -> float:
    """Returns how many times as much a transaction costs at a hundred a second of one id as at one a second."""
    micros = {rate: min(_judged(transactions, rate) for _ in range(5)) for rate in (1, 100)}
    for rate, cost in micros.items():
        print(f"judged at {rate} transactions a second of one id: {cost:.2f} us of CPU a transaction", flush=True)
    return micros[100] / micros[1]


def _judged(transactions: int, rate: int) -> float:
    """Microseconds of CPU a transaction."""
    coordinator, place = Place("", "__transaction_state", 0), Place("", "orders", 0)
    times = [_NOW + number * 1000 // rate for number in range(transactions)]
    decisions = [
        Decision(
            transactional_id="orders", place=coordinator, offset=number, producer_id=7, lowest_epoch=0,
            highest_epoch=0, marker_epoch=0, outcome="COMMIT", version=0, partitions=None, since=time_, until=time_ + 8,
        )
        for number, time_ in enumerate(times)
    ]  # fmt: skip
    endings = [Ending(place, 2 * number, 7, 0, 0, "COMMIT", time_ + 4) for number, time_ in enumerate(times)]
    tallies = Tallies()
    start = time.process_time()
    judge(endings, decisions, tallies, decided_until=times[-1])
    spent = time.process_time() - start
    if sum(tally.held for _, tally in tallies.all()) < transactions:
        raise BenchError("not every transaction was judged")
    return 1e6 * spent / transactions


def planning(counts: list[int]) -> list[tuple[float, float]]:
    """Listing, and the work of tasks whose files are empty. Returns milliseconds a replica of both."""
    found = []
    from kafkawire import spark as kafkawire_spark
    from kafkawire.spark.auditing.replica_parts import Fleet
    from kafkawire.spark.listing.fleet_listing import listing
    from kafkawire.spark.session.jobs import kept
    from kafkawire.transactions.parts.part_scan import PART_BYTES
    from kafkawire.transactions.verdict.settings import Settings

    with kafkawire_spark.local_session("local[2]") as session, tempfile.TemporaryDirectory() as folder:
        session.range(2).mapInArrow(lambda batches: batches, "id long").collect()  # Python workers start
        for count in counts:
            root = Path(folder, str(count))
            write_fleet(root, count)
            start = time.perf_counter()
            with kept(listing(session, [str(root)])) as listed:
                fleet = Fleet.of(listed, Settings(), PART_BYTES)
                if fleet.sizing.replicas != count:
                    raise BenchError(f"{fleet.sizing.replicas} of {count} replicas")
                planned = time.perf_counter()
                count_of_rows = fleet.facts(whole=False).count()
                ended = time.perf_counter()
            print(
                f"{count:,} replicas x {_FILES} files: listed in {planned - start:.1f} s "
                f"({1e3 * (planned - start) / count:.2f} ms a replica); {count_of_rows:,} rows of empty files in "
                f"{ended - planned:.1f} s ({1e3 * (ended - planned) / count:.2f} ms a replica)",
                flush=True,
            )
            found.append((1e3 * (planned - start) / count, 1e3 * (ended - planned) / count))
            _row(
                f"listing {count:,} replicas of {_FILES} files; their tasks",
                f"{planned - start:.0f} s, {found[-1][0]:.1f} ms a replica; {found[-1][1]:.1f} ms a replica",
            )
    return found


def gates() -> None:
    """The sizes that docs/spark.md promises.

    Raises:
        BenchError: one of them is missed.
    """
    missed = []
    if (scale := audited(1, 4_000_000, 2)).times_local > _TIMES_LOCAL:
        missed.append(f"one partition takes {scale.times_local:.1f} times the local engine's time, not {_TIMES_LOCAL}")
    for partitions, transactions, rounds in ((1, 10_000_000, 2), (_PARTITIONS, _TRANSACTIONS, 1)):
        if (gain := audited(partitions, transactions, rounds).gain) < _GAIN:
            missed.append(f"{partitions:,} partitions: two cores are {gain:.2f} times as fast as one, not {_GAIN}")
    (_, few), (listed, many) = planning([600, 30_000])
    if many > 1.3 * few or listed * 30_000 > 300_000:
        missed.append(
            f"a replica is listed in {listed:.2f} ms; its tasks: {few:.2f} ms among 600, {many:.2f} among 30,000"
        )
    if (ratio := judging(20_000)) > 1.3:
        missed.append(f"a transaction costs {ratio:.2f} times as much at a hundred a second of one id as at one")
    if missed:
        raise BenchError("; ".join(missed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("partition", "partitions", "planning", "judging", "gates"))
    parser.add_argument(
        "counts", nargs="*", type=int, help="transactions; partitions; or replicas, once for each size of a fleet"
    )
    arguments = parser.parse_args()
    if arguments.what == "gates":
        gates()
    elif arguments.what == "planning":
        planning(arguments.counts)
    else:
        for count in arguments.counts:
            if arguments.what == "judging":
                judging(count)
            elif arguments.what == "partition":
                audited(1, count)
            else:
                audited(count, _TRANSACTIONS)


if __name__ == "__main__":
    main()
