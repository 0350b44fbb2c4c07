"""A capture with every request and response in every version, made with our own encoder."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

import kafkawire
from kafkawire.messages import REGISTRY
from kafkawire.testing.strategies import messages
from kafkawire.wire.message import Message
from tests.capture.wiretap import Conversation, ethernet, pcap

#: No segment is cut: reassembly has tests of its own, and packets and frames are then the same.
_WHOLE = 65_000


@dataclass
class Sent:
    """What was sent."""

    body: Message
    version: int
    correlation_id: int


def sampled(cls: type[Message], version: int, number: int) -> list[Any]:
    """The same values of a message every time."""
    found: list[Any] = []

    @seed(zlib.crc32(f"{cls.__name__} {version}".encode()))
    @settings(
        max_examples=number,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(messages(cls, version))
    def take(value: Any) -> None:
        found.append(value)

    take()
    return found


def every_version() -> Iterator[tuple[type[Message], type[Message], int]]:
    """Request, response and version, of all there are."""
    for entry in REGISTRY:
        if entry.family == "rpc" and entry.kind == "request":
            request = REGISTRY.load(entry)
            response = kafkawire.lookup(api_key=entry.api_key, kind="response", family="rpc")
            for version in entry.valid_versions:
                yield request, response, version


def write_conversation(path: Path, number: int, share: int = 1) -> list[Sent]:
    """A capture of `number` exchanges of each version (of each `share`th of them), and what was sent in it.

    Produce requests that expect no answer get one here: it is a message like any other.
    """
    talk = Conversation(mss=_WHOLE)
    sent = []
    for place, (request, response, version) in enumerate(every_version()):
        if place % share and version != request.spec.valid_versions[-1]:
            continue
        for pair in zip(sampled(request, version, number), sampled(response, version, number), strict=False):
            correlation_id = len(sent)
            talk.request(pair[0], version=version, correlation_id=correlation_id)
            talk.response(pair[1], version=version, correlation_id=correlation_id)
            sent += [Sent(body, version, correlation_id) for body in pair]
    path.write_bytes(pcap(map(ethernet, talk.packets)))
    return sent
