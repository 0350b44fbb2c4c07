"""`Call`: one request and what its handler may need to know; `Wait`: the answer is not due yet.

A handler is a function `Call -> Message | Wait | None`. It does no input or output and reads no clock. After a `Wait`
it is called again with the same `Call`, when the state changed or the time has come. None: there is no response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from kafkawire.kafka_errors import CODES
from kafkawire.testing.state.login import Login
from kafkawire.wire.message import Message

#: The most partitions, groups, transactional ids, and producers of a partition that a broker keeps.
MAX_ENTRIES = 10_000
#: The error code that refuses one more.
POLICY_VIOLATION = CODES["POLICY_VIOLATION"]


class Wait(NamedTuple):
    """Call the handler again at `until_ms` (the broker's clock, epoch milliseconds), or earlier after a change."""

    until_ms: int


class Call(msgspec.Struct, eq=False):
    """A request that is being answered.

    Attributes:
        body, version, client_id: of the request.
        arrived_ms, now_ms: when it came, and the time of this run of the handler; epoch milliseconds.
        host, port: the address at which the client has reached the broker. `node`: the id of the broker.
        error: the error code of a `Fault`, with which the handler answers instead of carrying the request out; 0: none.
        kept: what the handler keeps between its runs. `login`: of the connection, where clients have to log in.
    """

    body: Any
    version: int
    client_id: str | None = None
    now_ms: int = 0
    host: str = "127.0.0.1"
    port: int = 0
    node: int = 1
    error: int = 0
    kept: Any = None
    login: Login | None = None
    arrived_ms: int = 0

    def __post_init__(self) -> None:
        self.arrived_ms = self.now_ms


Handler = Callable[[Call], "Message | Wait | None"]
Handlers = dict[type[Message], tuple[Handler, range]]


def by_topic(places: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Partition numbers by topic, in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(places):
        topics.setdefault(topic, []).append(partition)
    return topics
