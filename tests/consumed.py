"""Recorded logs of 2.8, 3.9 and 4.4 with what Kafka's Java consumer got (`tools.recordings.isolation_levels`)."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tools.recordings.archive import unpacked

LEVELS = ("read_committed", "read_uncommitted")
#: Offset, key and value.
Got = dict[str, list[list[Any]]]


class Replicas(NamedTuple):
    """The log directory of a broker."""

    release: str
    node: int

    def __str__(self) -> str:
        return f"{self.release}-{self.node}"

    @property
    def path(self) -> Path:
        return unpacked("isolation-levels") / self.release / f"node-{self.node}"

    def consumed(self, level: str) -> dict[str, Any]:
        """By topic: `start`, `end`, `position` and `records`, of the topics that the broker has."""
        found = _consumed(self.release)[level]
        return {topic: found[topic] for topic in sorted(found) if (self.path / f"{topic}-0").exists()}

    def records(self, level: str) -> Got:
        return {topic: one["records"] for topic, one in self.consumed(level).items()}


@cache
def _consumed(release: str) -> Any:
    return json.loads((unpacked("isolation-levels") / release / "consumed.json").read_text("utf-8"))


RELEASES = ("2.8.2", "3.9.1", "4.4.0")
#: Node 1 has all topics; node 2 those that an unclean election cut, of which it became the leader.
REPLICAS = [Replicas(release, node) for release in RELEASES for node in (1, 2)]
