"""Log directories of 2.8, 3.9 and 4.4, and what Kafka's Java consumer got of them at both isolation levels.

Of each release, `<release>/node-1/` and `node-2/` are log directories of brokers that were stopped, and
`<release>/consumed.json` holds, by isolation level and topic, where the consumer began, the end that the broker named,
the position that it reached, and its records. An unclean election cut the topics that node 2 has, too.

The workload is that of `read_committed_workload`, with transactions over many segments, markers at the borders of
segments, data that compaction left of an aborted transaction, records that are sent again, and logs that the election
truncated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.broker import RunningCluster, cluster
from tools.oracle import Oracle

from . import RecordingError, clients
from .clients import Service
from .cluster_clients import await_in_sync, await_leader, place_topics
from .log_copies import copy_logs
from .raw_client import RawCluster, RawProducer, expect
from .read_committed import CHECKPOINTS
from .read_committed_workload import CONFIG, ROLLED, TOPICS, Workload

#: Of the segments of `borders`, which real time ends.
_BORDER_MS = 1000
_CUT = {**ROLLED, "unclean.leader.election.enable": "true", "min.insync.replicas": "1"}

#: Topics of one partition each that node 1 has, and those that nodes 1 and 2 have; and their properties.
SINGLE: Mapping[str, Mapping[str, str]] = {
    **TOPICS,
    "long": ROLLED,
    "borders": {"segment.ms": str(_BORDER_MS)},
    "retried": ROLLED,
}
REPLICATED: Mapping[str, Mapping[str, str]] = {"cut": _CUT, "unmarked": _CUT}


class IsolationWorkload(Workload):
    """What clients do with a cluster of three nodes, of which the first is `log_dir`'s."""

    def create(self) -> None:
        placed = {name: ((1,), config) for name, config in SINGLE.items()}
        replicated = {name: ((1, 2), config) for name, config in REPLICATED.items()}
        place_topics(self.bootstrap, {**placed, **replicated})

    def act(self) -> None:
        with RawCluster(self.bootstrap) as wire:
            self.retried(wire)
        self.long()
        self.borders()
        super().act()

    def cut(self, running: RunningCluster) -> None:
        """Node 1 alone writes what node 2, which an unclean election makes the leader, has not: whole transactions; and
        the marker of one, which is open from then on."""
        early = Service(self.bootstrap, "zoo-early")
        for topic in REPLICATED:
            early.transaction({(topic, 0): range(3)}, timestamp=self.now)
            early.transaction({(topic, 0): range(3, 5)}, timestamp=self.now, committed=False)
        with RawCluster(self.bootstrap) as wire:
            unmarked = wire.init_producer("zoo-unmarked")
            wire.add_partitions(unmarked, {"unmarked": [0]})
            self._raw(wire, "unmarked", unmarked, 0, 2)
            running.stop_node(2)
            expect(wire.end(unmarked, committed=True), 0, "EndTxn")
            self._wait_ended(wire, unmarked, "unmarked")
        for topic in REPLICATED:
            early.transaction({(topic, 0): range(10, 13)}, timestamp=self.step())
            early.transaction({(topic, 0): range(13, 15)}, timestamp=self.step(), committed=False)
        running.kill_node(1)
        running.start_node(2)
        await_leader(self.bootstrap, REPLICATED, 2)
        late = Service(self.bootstrap, "zoo-late")
        for topic in REPLICATED:
            late.transaction({(topic, 0): range(20, 22)}, timestamp=self.now, committed=False)
            late.transaction({(topic, 0): range(22, 27)}, timestamp=self.step())
        running.start_node(1)
        await_in_sync(self.bootstrap, REPLICATED, 2)

    def retried(self, wire: RawCluster) -> None:
        """The same records again: without an id twice, by the same sequence numbers once, by another id twice; and
        those of a transaction that the change of its epoch aborted (KIP-360), in the next one."""
        for _ in range(2):
            plain = RawProducer(-1, -1)
            wire.produce("retried", 0, [b"plain"], plain, timestamp=self.now, sequence=-1, transactional=False)
        for _ in range(2):
            self._twice(wire, wire.init_producer(None), 3)
        for committed in (True, False):
            old = wire.init_producer("zoo-retried")
            wire.add_partitions(old, {"retried": [0]})
            self.step()
            self._twice(wire, old, 4)
            new = wire.init_producer("zoo-retried")
            self._wait_ended(wire, old, "retried")
            wire.add_partitions(new, {"retried": [0]})
            self._twice(wire, new, 4)
            expect(wire.end(new, committed=committed), 0, "EndTxn")
            self._wait_ended(wire, new, "retried")

    def long(self) -> None:
        """Transactions over many segments, others within them, and one over the end of another."""
        outer, inner = Service(self.bootstrap, "zoo-long-outer"), Service(self.bootstrap, "zoo-long-inner")
        for committed in (False, True):
            outer.begin()
            for number in range(4):
                outer.send("long", 0, range(10 * number, 10 * number + 2), timestamp=self.step())
                writes = {("long", 0): range(100 + number, 102 + number)}
                inner.transaction(writes, timestamp=self.step(), committed=bool(number % 2) == committed)
            inner.begin()
            inner.send("long", 0, range(200, 203), timestamp=self.now)
            outer.end(committed=committed)
            inner.send("long", 0, range(203, 205), timestamp=self.step())
            inner.end(committed=not committed)

    def borders(self) -> None:
        """Markers that begin segments, that are one alone, and that end one."""
        service = Service(self.bootstrap, "zoo-borders")
        for committed in (True, False):
            service.begin()
            service.send("borders", 0, range(3), timestamp=clients.now() - 60_000)
            time.sleep(1.2 * _BORDER_MS / 1000)
            service.end(committed=committed)
            for ahead in (2, 4):
                writes = {("borders", 0): range(3 * ahead, 3 * ahead + 2)}
                service.transaction(writes, timestamp=clients.now() + ahead * _BORDER_MS, committed=not committed)
            time.sleep(6 * _BORDER_MS / 1000)  # until a marker begins the next segment

    def compacted(self) -> None:
        """Last, aborted data of which compaction removes the part that is not in the active segment."""
        super().compacted()
        parted, other = (Service(self.bootstrap, f"zoo-compacted-{name}") for name in ("parted", "other"))
        parted.begin()
        parted.send("compacted", 0, range(20, 23), timestamp=self.step())
        other.transaction({("compacted", 0): range(3)}, timestamp=self.step())
        parted.send("compacted", 0, range(23, 25), timestamp=self.step())
        parted.end(committed=False)
        self._wait_cleaned(2)

    def _twice(self, wire: RawCluster, producer: RawProducer, count: int) -> None:
        """A batch, and the retry of it, which is not written."""
        first = self._raw(wire, "retried", producer, 0, count)
        expect(self._raw(wire, "retried", producer, 0, count), first, "a retry")


RELEASES = ("2.8.2", "3.9.1", "4.4.0")
LEVELS = ("read_committed", "read_uncommitted")
#: Of the consumer.
_CLIENT = "4.4.0"
_SECONDS = 120
#: Brokers write their checkpoints every five seconds.
_SETTLE_S = 7.0


def record(folder: Path, cache: Path | None = None) -> None:
    """Makes the folders of all releases in `folder`."""
    for release in RELEASES:
        _record(release, folder / release, cache)


def _record(release: str, folder: Path, cache: Path | None) -> None:
    topics = {1: [*SINGLE, *REPLICATED], 2: [*REPLICATED]}
    with cluster(3, version=release, config={**CONFIG, "min.insync.replicas": 1}, cache=cache) as running:
        load = IsolationWorkload(running.bootstrap, running.log_dirs[1])
        load.create()
        load.cut(running)
        load.act()
        consumed = _consumed(running.bootstrap, topics[1])
        time.sleep(_SETTLE_S)
        for node, names in sorted(topics.items(), reverse=True):
            running.stop_node(node)
            checkpoints = (*CHECKPOINTS, "cleaner-offset-checkpoint")
            copy_logs(running.log_dirs[node], folder / f"node-{node}", names, *checkpoints)
    (folder / "consumed.json").write_text(json.dumps(consumed, indent=1) + "\n")


def _consumed(bootstrap: str, topics: list[str]) -> dict[str, Any]:
    with Oracle(_CLIENT) as oracle:
        questions = ({"op": "consume", "bootstrap": bootstrap, "isolation": level, "topics": topics,
                      "seconds": _SECONDS} for level in LEVELS)  # fmt: skip
        answers = dict(zip(LEVELS, oracle.ask(questions), strict=True))
    for level, answer in answers.items():
        if "error" in answer:
            raise RecordingError(f"the {level} consumer: {answer['error']}: {answer['text']}")
    return {level: answer["topics"] for level, answer in answers.items()}
