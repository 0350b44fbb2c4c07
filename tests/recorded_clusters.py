"""The clusters of `tools.recordings.clusters`: their copies, and the truth about them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tools.recordings.archive import ARCHIVES, SUFFIX, unpacked

PREFIX = "cluster-"
CLUSTERS = sorted(path.name.removesuffix(SUFFIX) for path in ARCHIVES.glob(f"{PREFIX}*{SUFFIX}"))
COPIES = ("forward", "backward", "killed", "stopped")

#: A transaction in a partition: topic, partition, producer id, first offset.
Place = tuple[str, int, int, int]


class Copy(NamedTuple):
    """The log directories of a cluster at one time."""

    cluster: str
    name: str

    def __str__(self) -> str:
        return f"{self.cluster.removeprefix(PREFIX)}-{self.name}"

    @property
    def path(self) -> Path:
        return unpacked(self.cluster) / self.name

    @property
    def stopped(self) -> bool:
        """Whether it is what the truth is about, to the last byte: the brokers were stopped cleanly behind it."""
        return self.name == "stopped"

    @property
    def one_clock(self) -> bool:
        """Whether one broker wrote all of it, by its metadata log: times in different files can be compared."""
        brokers = [path for path in self.path.iterdir() if path.is_dir()]
        return len(brokers) == 1 and self.cluster != "cluster-zookeeper"

    @property
    def measured(self) -> bool:
        """Whether transactions of version 2 show how far its brokers' clocks differ."""
        return self.cluster == "cluster-three"

    @property
    def truth(self) -> dict[str, Any]:
        return truth_of(self.cluster)

    @property
    def options(self) -> list[str]:
        """What an operator has to say because no file does: ZooKeeper has the number of partitions."""
        count = self.truth["transaction_state_partitions"]
        return ["--txn-partitions", count] if self.cluster == "cluster-zookeeper" else []

    def consumed(self, level: str) -> dict[tuple[str, int], list[int]]:
        """The offsets that a consumer got at the end, by topic and partition."""
        return {_place(name): offsets for name, offsets in self.truth["consumed"][level].items()}

    def left_open(self, verdict: str) -> dict[Place, str]:
        """What is open at the end, on purpose: its place and the reason of its verdict."""
        return {
            (one["topic"], one["partition"], one["producer_id"], one["start_offset"]): one["reason"]
            for one in self.truth["left_open"]
            if one["verdict"] == verdict
        }


ALL = [Copy(cluster, name) for cluster in CLUSTERS for name in COPIES]
STOPPED = [copy for copy in ALL if copy.stopped]

#: Compaction takes records away between a copy and the end.
COMPACTED = "compacted"


@cache
def truth_of(cluster: str) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((unpacked(cluster) / "truth.json").read_text("utf-8"))
    return truth


def _place(name: str) -> tuple[str, int]:
    topic, _, number = name.rpartition("-")
    return topic, int(number)
