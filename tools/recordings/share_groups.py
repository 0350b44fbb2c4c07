"""Share groups of real brokers, with the fate of each record: forced by the recording, and reported by Kafka's Java
share consumer.

`node-1/` and `node-2/` are log directories, copied while a consumer holds records; `truth.json` has the deliveries.
`orders` has records of each fate, in the group `workers` (no dead-letter topic) and in `auditors` (one, from 4.4 on);
`ledger` transactions, some of them aborted, in `bookkeepers` (share.isolation.level=read_committed); `trimmed` lost its
beginning to DeleteRecords; `gone` is a topic that was deleted.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tools.broker import RunningCluster, cluster, jars
from tools.broker.jars import BROKER_VERSION

from . import RecordingError, clients, run
from .cluster_clients import Item, delete_records, delete_topic, producer_of, write
from .log_copies import copy_without_indexes

NAME = "share-groups"
LIMIT = 3
WORKERS, AUDITORS, BOOKKEEPERS, TRIMMERS = "workers", "auditors", "bookkeepers", "trimmers"
DEAD_LETTERS = "dlq.auditors"
#: Brokers write nothing into it: its name lacks their prefix (errors.deadletterqueue.topic.name.prefix).
MISNAMED = "trimmers-dead-letters"
_LOCK_S = 3
#: Near the delivery limit records are given out one by one, and members that died are missed late.
_IDLE_S = 25
_FATES = ("accept", "accept", "reject", "accept", "release", "retry", "accept", "accept", "accept", "accept")
_SOURCE = Path(__file__).parent / "ShareFates.java"
CONFIG = {
    "group.share.delivery.count.limit": LIMIT,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": _LOCK_S * 1000,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.cold.partition.snapshot.interval.ms": 20_000,
    "share.coordinator.snapshot.update.records.per.snapshot": 12,
    "share.coordinator.state.topic.num.partitions": 2,
    "transaction.state.log.num.partitions": 1,
    "replica.high.watermark.checkpoint.interval.ms": 500,
    # How often the coordinators remove records of the state that no longer count: not in these runs.
    "share.coordinator.state.topic.prune.interval.ms": 3_600_000,
}
#: Partitions of `orders`, and records of each.
SMALL = (2, 60)


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes `kafka-VERSION/` of both releases in `folder`, each with node-1/, node-2/ and truth.json."""
    for version in (BROKER_VERSION, "4.2.0"):
        make(folder / f"kafka-{version}", version, *SMALL, cache=cache)


def make(folder: Path, version: str, partitions: int, records: int, *, cache: Path | None = None) -> None:
    """One cluster: two brokers and a controller.

    Args:
        folder: is made. partitions, records: of `orders`: partitions, and records of each.
    """
    folder.mkdir(parents=True)
    with (
        cluster(2, controllers=1, config=CONFIG, version=version, cache=cache) as running,
        share_run(running, version, cache=cache) as one,
    ):
        truth = one.everything(version, partitions, records)
        with one.holding():
            time.sleep(2)
            for number in (1, 2):
                copy_without_indexes(running.log_dirs[number], folder / f"node-{number}")
        truth["deliveries"] = one.deliveries()
    (folder / "truth.json").write_text(json.dumps(truth, separators=(",", ":")) + "\n")


@contextmanager
def share_run(
    running: RunningCluster, version: str = BROKER_VERSION, *, cache: Path | None = None
) -> Iterator[ShareRun]:
    """Kafka's share consumer, of a release, on a cluster."""
    with tempfile.TemporaryDirectory(prefix="kafkawire-share-") as scratch:
        yield ShareRun(running, Path(scratch), jars.broker_jars(version, cache=cache))


class ShareRun:
    """Kafka's share consumer on a cluster, and what it was given.

    Args:
        scratch: a folder for the compiled program, and for what consumers write. `libraries`: of Kafka.
    """

    def __init__(self, running: RunningCluster, scratch: Path, libraries: Path) -> None:
        self._running, self._scratch, self._libraries = running, scratch, libraries
        self._files: list[tuple[Path, str, str, str]] = []
        run(["javac", "-cp", f"{libraries}/*", "-d", str(scratch), str(_SOURCE)])

    def everything(self, version: str, partitions: int, records: int) -> dict[str, Any]:
        """All that happens before the last copy, and what it should have led to."""
        dead_letters = version != "4.2.0"
        topics = {"orders": partitions, "ledger": 1, "trimmed": 1, "gone": 1}
        config = {}
        if dead_letters:
            topics |= {DEAD_LETTERS: 1, MISNAMED: 1}
            config = {name: {"errors.deadletterqueue.group.enable": "true"} for name in (DEAD_LETTERS, MISNAMED)}
        clients.create_topics(self._running.bootstrap, topics, replicas=2, config=config)
        for group in (WORKERS, AUDITORS, BOOKKEEPERS, TRIMMERS):
            given = ["share.auto.offset.reset=earliest"]
            if group == BOOKKEEPERS:
                given.append("share.isolation.level=read_committed")
            if group in (AUDITORS, TRIMMERS) and dead_letters:
                given.append(f"errors.deadletterqueue.topic.name={DEAD_LETTERS if group == AUDITORS else MISNAMED}")
                given.append("errors.deadletterqueue.copy.record.enable=true")
            self.configure(group, *given)
        for number in range(partitions):
            keys = ["expire"] * 6 + ["die"] * 6 + [_FATES[i % len(_FATES)] for i in range(records - 12)]
            self.produce("orders", number, keys)
        self.produce("trimmed", 0, ["accept"] * 10 + ["expire"] * 10 + ["reject"] * 5 + ["accept"] * 5)
        self.produce("gone", 0, ["accept"] * 5)
        for group in (WORKERS, AUDITORS):
            for mode in ("expire", "die"):
                self.read(mode, group, "orders", seconds=_LOCK_S + 2)
        self.read("run", TRIMMERS, "gone", seconds=3)
        self.read("run", WORKERS, "orders", seconds=_IDLE_S)
        # A coordinator fails over, and so do leaders of the topics.
        self._running.restart_node(1)
        self.read("run", AUDITORS, "orders", seconds=_IDLE_S)
        self._transactions()
        self.read("run", BOOKKEEPERS, "ledger", seconds=4)
        self.read("expire", TRIMMERS, "trimmed", seconds=_LOCK_S + 2)
        delete_records(self._running.bootstrap, "trimmed", 14)
        self.read("run", TRIMMERS, "trimmed", seconds=_LOCK_S + 2)
        delete_topic(self._running.bootstrap, "gone")
        self._running.restart_node(2)
        for number in range(partitions):
            self.produce("orders", number, ["hold"] * 5 + ["accept"] * 5)
        return {"version": version, "limit": LIMIT, "partitions": partitions, "records": records}

    @contextmanager
    def holding(self) -> Iterator[None]:
        """A consumer that holds records, and records that no consumer gets."""
        command, file = self._command("hold", WORKERS, "orders", 0)
        holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert holder.stdout is not None
            if holder.stdout.readline().strip() != "held":
                raise RecordingError(f"the consumer that holds records ended with {holder.wait()}: {file}")
            self.produce("orders", 0, ["accept"] * 7)
            yield
        finally:
            holder.kill()
            holder.wait()

    def deliveries(self) -> list[dict[str, Any]]:
        """What each consumer was given and did: rows of partition, offset, delivery count, and what was done."""
        given = []
        for file, mode, group, topic in self._files:
            rows = [line.split(" ") for line in file.read_text().splitlines()]
            failed = [row for row in rows if row[0] == "failed"]
            if failed:
                raise RecordingError(f"{mode} of {group} in {topic}: {failed[0]}")
            of_file = [[int(p), int(offset), int(count), done] for p, offset, count, done in rows]
            given.append({"mode": mode, "group": group, "topic": topic, "rows": of_file})
        return given

    def _transactions(self) -> None:
        clients.Service(self._running.bootstrap, "ledger-service").transactions(
            [("ledger", 0)], 12, aborted=range(1, 12, 3)
        )
        service = clients.Service(self._running.bootstrap, "open-service")
        service.begin()
        service.send("ledger", 0, range(200, 203), timestamp=clients.now())
        service.flush()
        self._open = service

    def produce(self, topic: str, partition: int, keys: list[str]) -> None:
        """Writes a record for each key, which says what becomes of it."""
        producer = producer_of(self._running.bootstrap, {"batch.num.messages": 7, "linger.ms": 20, "acks": "all"})
        items: list[Item] = [(f"{key}:{number}", clients.order(number), 0) for number, key in enumerate(keys)]
        write(producer, topic, items, partition=partition)

    def read(self, mode: str, group: str, topic: str, *, seconds: int) -> None:
        """Runs a consumer until it ends (`ShareFates.java`)."""
        command, _ = self._command(mode, group, topic, seconds)
        run(command, f"{mode} of {group} in {topic}")

    def _command(self, mode: str, group: str, topic: str, seconds: int) -> tuple[list[str], Path]:
        file = self._scratch / f"{len(self._files)}.txt"
        self._files.append((file, mode, group, topic))
        return [*self._program(), mode, group, topic, str(file), str(seconds)], file

    def configure(self, group: str, *properties: str) -> None:
        """Sets properties of a group, each `NAME=VALUE`."""
        run([*self._program(), "config", group, *properties], f"properties of {group}")

    def reset(self, group: str, topic: str, partition: int, offset: int) -> None:
        """Sets the offset of a group without members, as kafka-share-groups.sh does (AlterShareGroupOffsets)."""
        run([*self._program(), "reset", group, topic, str(partition), str(offset)], f"offset of {group} in {topic}")

    def _program(self) -> list[str]:
        place = f"{self._scratch}:{self._libraries}/*"
        return [jars.java(), "-XX:TieredStopAtLevel=1", "-cp", place, "ShareFates", self._running.bootstrap]
