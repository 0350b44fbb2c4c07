"""How far the audit on Spark goes, on generated directories.

    python -m tools.bench.spark_scale partition 4000000          # one partition, a driver of 1 GB, one core and two
    python -m tools.bench.spark_scale partitions 2000            # 2,000 partitions of 2,000 transactions, same driver
    python -m tools.bench.spark_scale planning 60 1200           # replicas of 500 empty files each
    python -m tools.bench.spark_scale judging 20000              # transactions of one id, one a second and a hundred
    python -m tools.bench.spark_scale gates                      # all four, in the sizes that are promised

Each prints its figures, and rows for the table in docs/spark.md. `partition` and `partitions` fail unless the answer is
that of the local engine; `gates` fails unless each promise holds. One core is one processor for all threads of Java and
Python, not one slot of Spark beside idle processors. One core and two can only be compared on a machine that does
nothing else. Nothing is random: equal arguments give equal bytes.
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
from pathlib import Path

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


def audited(partitions: int, transactions: int, rounds: int = 1) -> float:
    """Returns how many times as fast two cores are as one. `rounds`: of which the fastest counts."""
    with tempfile.TemporaryDirectory() as folder:
        size = write_partitions(Path(folder), partitions, transactions)
        what = f"{partitions:,} partitions of" if partitions > 1 else "one partition of"
        what = f"{what} {transactions:,} transactions ({size >> 20:,} MiB)"
        print(what, flush=True)
        local, expected = _audit(Path(folder), "--jobs", "1", cores=1)
        print(f"local engine, one process: {local:.1f} s", flush=True)
        spark = ("--engine", "spark", "--conf", "spark.driver.memory=1g", "--master")
        taken: dict[int, list[float]] = {1: [], 2: []}
        for cores in (1, 2) * rounds:
            master = f"local[{cores}]"
            seconds, found = _audit(Path(folder), *spark, master, cores=cores)
            taken[cores].append(seconds)
            if found != expected:
                raise BenchError(f"{master} finds something else than the local engine")
            print(f"Spark, {master}, driver of 1 GB: {seconds:.1f} s, equal", flush=True)
        one, two = map(min, taken.values())
        _row(f"{what}, one core and two", f"{one:.0f} s and {two:.0f} s: {one / two:.2f} times as fast")
        return one / two


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
                parts = fleet.parts().count()
                ended = time.perf_counter()
            print(
                f"{count:,} replicas x {_FILES} files: listed in {planned - start:.1f} s "
                f"({1e3 * (planned - start) / count:.2f} ms a replica); {parts:,} empty parts in "
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
    for partitions, transactions, rounds, promised in ((1, 10_000_000, 2, 1.7), (_PARTITIONS, _TRANSACTIONS, 1, 1.6)):
        if (gain := audited(partitions, transactions, rounds)) < promised:
            missed.append(f"{partitions:,} partitions: two cores are {gain:.2f} times as fast as one, not {promised}")
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
