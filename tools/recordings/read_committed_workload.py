"""Everything that producers and coordinators do to a partition, done to a running broker, topic by topic.

Timestamps of records decide where segments roll: each `step` is longer than the topics' segment.ms.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafkawire import logdir
from kafkawire.records import Batch
from tools.polling import until

from . import clients
from .clients import Service
from .cluster_clients import delete_records, end_of, orders, producer_of, read, write
from .raw_client import RawCluster, RawProducer, expect

SEGMENT_MS = 10_000
STEP_MS = 20_000
TIMEOUT_S = 60.0

#: Lets transactions hang, and the cleaner come at once.
CONFIG: Mapping[str, object] = {
    "transaction.partition.verification.enable": False,
    "log.cleaner.backoff.ms": 200,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "log.cleaner.io.buffer.size": 65_536,
    "log.retention.check.interval.ms": 1000,
    "log.segment.delete.delay.ms": 0,
    "log.initial.task.delay.ms": 500,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 60_000,
}

ROLLED = {"segment.ms": str(SEGMENT_MS)}
_COMPACTED = {
    **ROLLED,
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "100",
    "min.compaction.lag.ms": "0",
}

#: Topics of one partition each, and their properties.
TOPICS: Mapping[str, Mapping[str, str]] = {
    "mixed": ROLLED,
    "hanging": ROLLED,
    "compacted": _COMPACTED,
    "deleted": ROLLED,
    "wrapped": ROLLED,
    "fenced": ROLLED,
    "java": {},
    "copied": {},
}


class Workload:
    """What clients do with one running broker whose log directory is `log_dir`."""

    def __init__(self, bootstrap: str, log_dir: Path, *, java: bool = True) -> None:
        self.bootstrap = bootstrap
        self.log_dir = log_dir
        self.java = java
        self.now = clients.now()

    def create(self) -> None:
        """Make the topics."""
        clients.create_topics(self.bootstrap, dict.fromkeys(TOPICS, 1), config=TOPICS)

    def act(self) -> None:
        """Do everything, in order."""
        with RawCluster(self.bootstrap) as wire:
            self.mixed(wire)
            self.hanging(wire)
            self.wrapped(wire)
            self.fenced(wire)
            self.compacted()
            self.deleted()
        if self.java:
            clients.java_transactions(self.bootstrap, "java", "zoo-java", records=120, per_second=200, duration_ms=60)
        self.copied()

    def step(self) -> int:
        """A timestamp at which the next batch begins a new segment."""
        self.now += STEP_MS
        return self.now

    def mixed(self, wire: RawCluster) -> None:
        """Commits, aborts, empty transactions, interleaved producers, and segments that end within transactions."""
        one, two = Service(self.bootstrap, "zoo-mixed-1"), Service(self.bootstrap, "zoo-mixed-2", codec="lz4")
        idempotent = producer_of(self.bootstrap, {"enable.idempotence": True})
        plain = producer_of(self.bootstrap, {})
        one.transaction({("mixed", 0): range(3)}, timestamp=self.now)
        one.transaction({("mixed", 0): range(3, 5)}, timestamp=self.now, committed=False)
        for committed in (True, False):
            one.begin()
            two.begin()
            one.send("mixed", 0, range(10, 12), timestamp=self.now)
            two.send("mixed", 0, range(20, 23), timestamp=self.step())
            write(idempotent, "mixed", orders(range(30, 32), self.now))
            write(plain, "mixed", orders(range(40, 41), self.now))
            one.send("mixed", 0, range(12, 13), timestamp=self.step())
            two.end(committed=not committed)
            two.transaction({("mixed", 0): range(23, 25)}, timestamp=self.step(), committed=False)
            one.end(committed=committed)
        empty = wire.init_producer("zoo-empty")
        for committed in (True, False):
            wire.add_partitions(empty, {"mixed": [0]})
            expect(wire.end(empty, committed=committed), 0, "EndTxn")
            self._wait_ended(wire, empty, "mixed")
        write(idempotent, "mixed", orders(range(32, 35), self.step()))

    def hanging(self, wire: RawCluster) -> None:
        """A transaction that is never ended, with ended ones before and after it."""
        service = Service(self.bootstrap, "zoo-hanging")
        service.transaction({("hanging", 0): range(3)}, timestamp=self.now)
        service.transaction({("hanging", 0): range(3, 6)}, timestamp=self.now, committed=False)
        lost = wire.init_producer("zoo-lost")
        wire.produce("hanging", 0, [b"lost"] * 2, lost, timestamp=self.now)
        service.transaction({("hanging", 0): range(6, 9)}, timestamp=self.step(), committed=False)
        service.transaction({("hanging", 0): range(9, 12)}, timestamp=self.step())
        wire.produce("hanging", 0, [b"lost again"], lost, timestamp=self.now, sequence=2)

    def wrapped(self, wire: RawCluster) -> None:
        """Sequence numbers over 2^31 - 1, outside of transactions and in one, and a retry that is not written."""
        top = 2**31
        producer = wire.init_producer(None)
        self._raw(wire, "wrapped", producer, top - 8, 5)
        first = self._raw(wire, "wrapped", producer, top - 3, 6)
        expect(self._raw(wire, "wrapped", producer, top - 3, 6), first, "a retry")
        self._raw(wire, "wrapped", producer, 3, 2)
        in_transaction = wire.init_producer("zoo-wrapped")
        for committed in (True, False):
            wire.add_partitions(in_transaction, {"wrapped": [0]})
            self._raw(wire, "wrapped", in_transaction, top - 2 if committed else 2, 4)
            expect(wire.end(in_transaction, committed=committed), 0, "EndTxn")
            self._wait_ended(wire, in_transaction, "wrapped")

    def fenced(self, wire: RawCluster) -> None:
        """Epochs that rise: by a new InitProducerId, which aborts what is open, and by an operator's abort."""
        old = wire.init_producer("zoo-fenced")
        wire.add_partitions(old, {"fenced": [0]})
        self._raw(wire, "fenced", old, 0, 3)
        new = wire.init_producer("zoo-fenced")
        wire.add_partitions(new, {"fenced": [0]})
        self._raw(wire, "fenced", new, 0, 2)
        expect(wire.end(new, committed=True), 0, "EndTxn")
        self._wait_ended(wire, new, "fenced")
        lost = wire.init_producer("zoo-aborted")
        self._raw(wire, "fenced", lost, 0, 2)
        wire.write_marker("fenced", 0, lost, coordinator_epoch=7)
        self._raw(wire, "fenced", lost, 2, 1)
        wire.write_marker("fenced", 0, lost, coordinator_epoch=9)

    def compacted(self) -> None:
        """Keys that are written over, by producers that come again and by some that do not, cleaned twice."""
        services = [Service(self.bootstrap, f"zoo-compacted-{i}") for i in range(3)]
        idempotent = producer_of(self.bootstrap, {"enable.idempotence": True})
        for cleaning in range(2):
            for i, service in enumerate(services[cleaning:]):
                writes = {("compacted", 0): range(i, i + 3)}
                service.transaction(writes, timestamp=self.now)
                service.transaction(writes, timestamp=self.step(), committed=False)
                service.transaction(writes, timestamp=self.now)
            write(idempotent, "compacted", orders(range(2, 4), self.now))
            services[2].transaction({("compacted", 0): range(2)}, timestamp=self.step())
            self._wait_cleaned(cleaning)
        services[2].transaction({("compacted", 0): range(8, 9)}, timestamp=self.step(), committed=False)

    def deleted(self) -> None:
        """Records deleted by request: whole segments, and the beginning of one."""
        services = [Service(self.bootstrap, f"zoo-deleted-{i}") for i in range(2)]
        for i, service in enumerate(services):
            service.transaction({("deleted", 0): range(i, i + 3)}, timestamp=self.step())
            service.transaction({("deleted", 0): range(i, i + 2)}, timestamp=self.now, committed=False)
        services[1].transaction({("deleted", 0): range(20, 24)}, timestamp=self.step())
        services[1].begin()
        services[1].send("deleted", 0, range(24, 26), timestamp=self.now)
        delete_records(self.bootstrap, "deleted", end_of(self.bootstrap, "deleted", "read_uncommitted") - 3)
        services[1].send("deleted", 0, range(26, 28), timestamp=self.step())
        services[1].end(committed=False)
        services[1].transaction({("deleted", 0): range(28, 30)}, timestamp=self.now)
        first = self.log_dir / "deleted-0" / f"{0:020}.log"
        until(lambda: not first.exists(), "deletion of the first segment", seconds=TIMEOUT_S)

    def copied(self) -> None:
        """Consume, transform, produce: offsets in the transaction."""
        reader = clients.consumer(self.bootstrap, "zoo-copier")
        try:
            service = Service(self.bootstrap, "zoo-copier")
            clients.copy_exactly_once(service, reader, [("mixed", 0)], ("copied", 0), bytes.upper)
        finally:
            reader.close()

    def _raw(self, wire: RawCluster, topic: str, producer: RawProducer, sequence: int, count: int) -> int:
        values = [b"%d" % i for i in range(count)]
        transactional = producer.transactional_id is not None
        return wire.produce(
            topic, 0, values, producer, timestamp=self.now, sequence=sequence, transactional=transactional
        )

    def _wait_ended(self, wire: RawCluster, producer: RawProducer, topic: str) -> None:
        """EndTxn is answered before its markers are written."""
        path = str(self.log_dir / f"{topic}-0")
        what = f"the marker of {producer.transactional_id}"
        until(lambda: _ends_with_marker(path, producer.producer_id), what, seconds=TIMEOUT_S)

    def _wait_cleaned(self, cleaning: int) -> None:
        """Until the cleaner has been over all but the active segment."""
        checkpoint = self.log_dir / "cleaner-offset-checkpoint"
        active = max(int(p.stem) for p in (self.log_dir / "compacted-0").glob("*.log"))

        def cleaned() -> bool:
            lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
            return any(line.split()[0] == "compacted" and int(line.split()[2]) >= active for line in lines)

        until(cleaned, f"cleaning {cleaning}", seconds=TIMEOUT_S)
        time.sleep(0.2)  # delete.retention.ms: what the next cleaning may drop


def committed(bootstrap: str, topics: Sequence[str]) -> dict[str, list[list[Any]]]:
    """What a read_committed consumer gets: {topic: [[offset, key, value], ...]}, as text, of partition 0 of each."""
    got: dict[str, list[list[Any]]] = {topic: [] for topic in topics}
    # All at once: at each partition's end a fetch waits for more.
    for message in read(bootstrap, [(topic, 0) for topic in topics], "zoo-reader", "read_committed"):
        got[str(message.topic())].append([message.offset(), _text(message.key()), _text(message.value())])
    return got


def stable_offsets(bootstrap: str, topics: Sequence[str]) -> dict[str, int]:
    """The last stable offset of partition 0 of each topic, from the broker (ListOffsets, read_committed)."""
    return {topic: end_of(bootstrap, topic, "read_committed") for topic in topics}


def _ends_with_marker(path: str, producer_id: int) -> bool:
    """Whether the last batch of the producer in the log is a marker."""
    last = None
    for partition in logdir.open(path).partitions:
        for item in partition:
            if isinstance(item, Batch) and item.producer_id == producer_id:
                last = item
    return last is not None and last.is_control


def _text(data: bytes | str | None) -> str | None:
    return data.decode() if isinstance(data, bytes) else data
