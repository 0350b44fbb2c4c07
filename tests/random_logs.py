"""Log directories of every kind: any mixture of what producers, coordinators, compaction and accidents leave."""

from __future__ import annotations

import random
from pathlib import Path

from kafkawire.messages.producer_snapshot import ProducerEntry
from kafkawire.records import Record
from tests.audit_logs import HOUR, MINUTE, NOON, STATUS, LogDirectory, PartitionLog

PRODUCERS = 12


def fill(random_: random.Random, partition: PartitionLog, others: range) -> None:
    """Any mixture of data and markers, rolled, with holes."""
    for _ in range(random_.randrange(60)):
        producer_id = random_.choice(others)
        at = NOON - random_.randrange(10 * HOUR)
        epoch = random_.randrange(3)
        match random_.randrange(12):
            case 0 | 1 | 2 | 3:
                partition.data(producer_id, epoch, at=at, records=random_.randrange(1, 4))
            case 4 | 5:
                name = random_.choice(["COMMIT", "ABORT"])
                partition.marker(name, producer_id, epoch, at=at, coordinator_epoch=random_.randrange(5))
            case 6:
                partition.empty_marker(producer_id, epoch)
            case 7:
                partition.data(producer_id, transactional=False, at=at)
            case 8:
                partition.data(producer_id, epoch, at=at, append_time=at)
            case 9:
                partition.plain(at=at)
            case 10:
                partition.roll()
            case _:
                if random_.random() < 0.1:
                    partition.skip(random_.randrange(3))


def register(random_: random.Random, logs: LogDirectory) -> None:
    """Any records of the coordinator's, tombstones and unreadable ones among them."""
    for _ in range(60):
        name = random_.choice(["a", "b", "pay", "\udcff\udcfe", "ünïcode", "x" * 200])
        if random_.random() < 0.1:
            logs.id(name, None)
            continue
        logs.id(
            name,
            random_.choice(list(STATUS)),
            random_.randrange(PRODUCERS // 2),  # the others belong to an id by a previous or next one, or to none
            random_.randrange(3),
            *((f"topic{random_.randrange(8)}", 0) for _ in range(random_.randrange(4))),
            at=NOON - random_.randrange(10 * HOUR),
            timeout=random_.choice([MINUTE, 12 * HOUR, 2**31 - 1]),
            version=random_.randrange(3),
            previous=random_.randrange(-1, PRODUCERS),
            next=random_.randrange(-1, PRODUCERS),
        )
    if random_.random() < 0.3:
        logs.id_log("pay").records([Record(key=b"\0\0\0\x03pay", value=b"\0\x09", timestamp=NOON)])


def damage(random_: random.Random, root: Path) -> None:
    for path in sorted(root.rglob("*.log")):
        size = path.stat().st_size
        if size and random_.random() < 0.15:
            data = bytearray(path.read_bytes())
            data[random_.randrange(size)] ^= 1 << random_.randrange(8)
            path.write_bytes(data if random_.random() < 0.7 else data[: random_.randrange(size)])


def entry(random_: random.Random, producer_id: int) -> ProducerEntry:
    start = random_.choice([-1, random_.randrange(130)])
    return ProducerEntry(
        producer_id=producer_id,
        epoch=random_.randrange(3),
        last_sequence=0,
        last_offset=random_.randrange(130),
        offset_delta=0,
        timestamp=NOON - random_.randrange(10 * HOUR),
        coordinator_epoch=random_.randrange(3),
        current_txn_first_offset=start,
    )


def random_partitions(random_: random.Random, root: Path, seed: int, *, log_starts: bool = False) -> LogDirectory:
    """Four partitions, most with a snapshot, written to `root`. Even seeds are sound, every third one is compacted.

    `log_starts`: with a checkpoint of log start offsets.
    """
    logs = LogDirectory(root, ids=2, compacted=seed % 3 == 2)
    register(random_, logs)
    for number in range(4):
        log = logs.partition(f"topic{number}", start=random_.choice([0, 100]))
        for _ in range(3):
            fill(random_, log, range(PRODUCERS if seed % 2 else 2))
        if random_.random() < 0.7:
            log.snapshot(*(entry(random_, producer) for producer in range(3)), offset=random_.randrange(200))
        if log_starts:
            logs.checkpoint("log-start-offset-checkpoint", f"topic{number}", 0, random_.choice([0, 20]))
    logs.write()
    if seed % 2:
        damage(random_, logs.root)
    return logs
