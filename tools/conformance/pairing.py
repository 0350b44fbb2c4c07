"""Pairs of our messages and versions with those of a Kafka release."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from kafkawire.messages import REGISTRY
from kafkawire.wire.message import Message
from tools.conformance.decisions import DIFFERENT_LAYOUTS


class Pair(NamedTuple):
    """One version of one message of a release, and ours."""

    name: str  # the release's
    version: int
    ours: type[Message]
    our_version: int
    json: bool  # the release has a JSON converter for it

    def __str__(self) -> str:
        return f"{self.name} v{self.version}"


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
            reason = DIFFERENT_LAYOUTS.get((pair.name, version), {}).get(release)
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
