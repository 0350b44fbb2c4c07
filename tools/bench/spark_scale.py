"""How far the audit on Spark goes, on generated directories.

    python -m tools.bench.spark_scale partition 4000000          # one partition, a driver of 1 GB, one core and two
    python -m tools.bench.spark_scale planning 60 1200           # replicas of 500 empty files each

`partition` fails unless the answer is that of the local engine. Nothing is random: equal arguments give equal bytes.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import crc32c

from kafkawire import records
from tools.bench.measurement import BenchError

_NOW = 1_795_288_900_000
_IDS = 1000
_FILES = 500
_KINDS = ("log", "index", "timeindex", "snapshot")
#: Of a batch: base offset; checksum; timestamps, producer id and epoch.
_OFFSET, _CRC, _PRODUCER = struct.Struct(">q"), struct.Struct(">I"), struct.Struct(">qqqh")
_CRC_AT, _CRC_FROM, _PRODUCER_AT = 17, 21, 27


def write_partition(root: Path, transactions: int) -> None:
    """One partition: each transaction is a batch and its marker, in an epoch of its own; a thousand producer ids."""
    data = records.build(
        [records.Record(b"key", bytes(40), timestamp=_NOW)], producer_id=0, producer_epoch=0, base_sequence=0,
        transactional=True,
    )  # fmt: skip
    marker = records.build_marker(
        "COMMIT", producer_id=0, producer_epoch=0, coordinator_epoch=0, offset=0, timestamp=_NOW
    )
    batches = bytearray(data), bytearray(marker)
    folder = root / "orders-0"
    folder.mkdir(parents=True)
    with (folder / f"{0:020}.log").open("wb", 1 << 20) as file:
        for number in range(transactions):
            for place, batch in enumerate(batches):
                _OFFSET.pack_into(batch, 0, 2 * number + place)
                _PRODUCER.pack_into(batch, _PRODUCER_AT, _NOW + number, _NOW + number, number % _IDS, number // _IDS)
                _CRC.pack_into(batch, _CRC_AT, crc32c.crc32c(memoryview(batch)[_CRC_FROM:]))
                file.write(batch)


def write_fleet(root: Path, replicas: int) -> None:
    """Folders of empty files, on ten brokers."""
    for replica in range(replicas):
        folder = root / f"broker-{replica % 10}" / f"orders-{replica}"
        folder.mkdir(parents=True)
        for number in range(_FILES):
            (folder / f"{number // len(_KINDS):020}.{_KINDS[number % len(_KINDS)]}").touch()


def _audit(root: Path, *options: str) -> tuple[float, object]:
    """Seconds, and the answer."""
    command = [sys.executable, "-m", "kafkawire", "audit", str(root), "--format", "json", *options]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 3, 4, 5):
        raise BenchError(f"{' '.join(options)}: {done.stderr.strip()}")
    return seconds, json.loads(done.stdout)


def partition(transactions: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_partition(root, transactions)
        size = (root / "orders-0" / f"{0:020}.log").stat().st_size
        print(f"{transactions:,} transactions, {size >> 20:,} MiB", flush=True)
        local, expected = _audit(root, "--jobs", "1")
        print(f"local engine, one process: {local:.1f} s", flush=True)
        spark = ("--engine", "spark", "--conf", "spark.driver.memory=1g", "--master")
        seconds = {}
        for master in ("local[1]", "local[2]"):
            seconds[master], found = _audit(root, *spark, master)
            if found != expected:
                raise BenchError(f"{master} finds something else than the local engine")
            print(f"Spark, {master}, driver of 1 GB: {seconds[master]:.1f} s, equal", flush=True)
        print(f"one core to two: {seconds['local[1]'] / seconds['local[2]']:.2f}x", flush=True)


def planning(counts: list[int]) -> None:
    """Listing and planning alone, and the work of tasks whose files are empty, a replica."""
    from kafkawire import spark as room
    from kafkawire.spark.audit_job import _of_roots
    from kafkawire.spark.fleet_listing import REPLICA, found_in, listing
    from kafkawire.spark.jobs import kept
    from kafkawire.spark.replica_parts import PartSizing, summaries
    from kafkawire.transactions.part_scan import PART_BYTES
    from kafkawire.transactions.settings import Settings

    with room.local_session("local[2]") as session, tempfile.TemporaryDirectory() as folder:
        session.range(2).mapInArrow(lambda batches: batches, "id long").collect()  # Python workers start
        for count in counts:
            root = Path(folder, str(count))
            write_fleet(root, count)
            start = time.perf_counter()
            with kept(listing(session, [str(root)])) as listed:
                found = found_in(listed.where(f"kind <> '{REPLICA}'").toArrow())
                replicas = listed.where(f"kind = '{REPLICA}'")
                if replicas.count() != count:
                    raise BenchError(f"{replicas.count()} of {count} replicas")
                planned = time.perf_counter()
                roots = _of_roots(found, Settings())
                parts = summaries(replicas, PartSizing(PART_BYTES, count, 0), roots).count()
                ended = time.perf_counter()
            print(
                f"{count:,} replicas x {_FILES} files: listed in {planned - start:.1f} s "
                f"({1e3 * (planned - start) / count:.2f} ms a replica); {parts:,} empty parts in "
                f"{ended - planned:.1f} s ({1e3 * (ended - planned) / count:.2f} ms a replica)",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("partition", "planning"))
    parser.add_argument("counts", nargs="+", type=int, help="transactions; or replicas, once for each size of a fleet")
    arguments = parser.parse_args()
    if arguments.what == "planning":
        planning(arguments.counts)
    else:
        for count in arguments.counts:
            partition(count)


if __name__ == "__main__":
    main()
