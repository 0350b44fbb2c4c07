"""Pairs of our messages and versions with those of a Kafka release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kafkawire.messages import REGISTRY
from kafkawire.wire.message import Message

#: Layouts that releases gave the same version of a message, and the union schema (the newest one) does not follow: all
#: of previews. (message, version) -> {release: what differs}.
_DIFFERENT_LAYOUTS: dict[tuple[str, int], dict[str, str]] = {
    ("EndQuorumEpochRequest", 0): {"2.7.2": "ReplicaId in Topics.Partitions; KRaft before its first release"},
    ("LeaderChangeMessage", 0): {
        "2.7.2": "no Version and no GrantingVoters; KRaft before its first release",
        "2.8.2": "no Version; KRaft before its first release",
    },
    ("ConsumerGroupHeartbeatRequest", 0): {"3.6.2": "ClientAssignors, SubscribedTopicRegex; KIP-848 early access"},
    ("ConsumerGroupHeartbeatResponse", 0): {
        "3.6.2": "ShouldComputeAssignment, another Assignment; KIP-848 early access"
    },
    ("ConsumerGroupDescribeResponse", 0): {"3.7.2": "Error, MetadataVersion, MetadataBytes; KIP-848 early access"},
    ("ReadShareGroupStateSummaryResponse", 0): {
        "3.9.1": "no LeaderEpoch; preview of share groups",
        "4.0.0": "no LeaderEpoch; preview of share groups",
    },
    ("ShareGroupMetadataValue", 0): {
        "3.9.1": "no MetadataHash; preview of share groups",
        "4.0.0": "no MetadataHash; preview of share groups",
    },
    ("ShareGroupPartitionMetadataValue", 0): {
        "4.0.0": "Topics with racks; preview of share groups (the name is 3.9's)"
    },
    ("ShareGroupStatePartitionMetadataValue", 0): {"4.0.0": "no InitializingTopics; preview of share groups"},
    ("ShareSnapshotValue", 0): {"4.0.0": "SnapshotEpoch uint16, no timestamps; preview of share groups"},
    ("ShareUpdateValue", 0): {"4.0.0": "SnapshotEpoch uint16; preview of share groups"},
}


class Pair(NamedTuple):
    """One version of one message of a release, and ours."""

    name: str  # the release's
    version: int
    ours: type[Message]
    our_version: int
    json: bool  # the release has a JSON converter for it

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"

    def question(self, operation: str, data: bytes | None = None, **more: Any) -> dict[str, Any]:
        """A question to the oracle on this message and version; `data`: its bytes, `more`: further arguments."""
        given = {} if data is None else {"bytes": data.hex()}
        return {"op": operation, "name": self.name, "version": self.version, **given, **more}


class Pairs(NamedTuple):
    """The pairs of a release; what it lays out otherwise than the union schema, with the reason; what we lack."""

    same: list[Pair]
    different: list[tuple[Pair, str]]
    missing: list[str]


def pairs(release: str, messages: Iterable[dict[str, Any]]) -> Pairs:
    """Pairs what the oracle lists with our messages."""
    out = Pairs([], [], [])
    for message in messages:
        for version in range(message["low"], message["high"] + 1):
            found = _ours(message, version)
            if found is None:
                out.missing.append(f"{message['name']} v{version}")
                continue
            pair = Pair(message["name"], version, *found, message["json"])
            reason = _DIFFERENT_LAYOUTS.get((pair.name, version), {}).get(release)
            if reason:
                out.different.append((pair, reason))
            else:
                out.same.append(pair)
    return out


def _ours(message: dict[str, Any], version: int) -> tuple[type[Message], int] | None:
    try:
        entry = REGISTRY.entry(message["name"])
        if entry.kind == "coordinator-key" and message["kind"] == "data":
            # Up to 3.9 the int16 before a coordinator's key was the key's version, since 4.0 it is its api key.
            entry = REGISTRY.find(version, entry.kind, entry.family)
            version = entry.low
    except LookupError:
        return None
    return (REGISTRY.load(entry), version) if version in entry.valid_versions else None
