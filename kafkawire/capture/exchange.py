"""`CapturedExchange`: a request with its response, as trackers give it; `ReadOptions`: what its row contains."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET, UnsetType

from kafkawire.messages import REGISTRY
from kafkawire.rows import Exchange
from kafkawire.wire.registry import Registry

if TYPE_CHECKING:
    from kafkawire.wire.message import Message


class CapturedExchange(msgspec.Struct, frozen=True, kw_only=True):
    """A request with its response, or one of them alone.

    Attributes:
        row: the row that is printed.
        request, response: the messages, if they were decoded and `keep` is set.
        request_frame, response_frame: the whole frames without their size prefixes, if `keep` is set.
        span: its span as JSON with its weight (`otlp.export`), None for what has none; unset: not made yet.
    """

    row: Exchange
    request: Message | None = None
    response: Message | None = None
    request_frame: bytes | None = None
    response_frame: bytes | None = None
    span: tuple[bytes, int] | UnsetType | None = UNSET

    @property
    def version(self) -> int:
        return self.row.version or 0


class ReadOptions(msgspec.Struct, frozen=True):
    """The options of rows; `capture.read` documents them.

    `text`: bodies may be JSON text (`msgspec.Raw`), for rows that are encoded at once. `keep`: exchanges have their
    messages and frames. `keep_requests`: those of these api keys have their requests,
    `keep_messages`: both messages. `live`: an exchange that takes
    long does not hold back later ones. `lines`: exchanges may be lines of JSON, as text. `columns`: exchanges may be
    Arrow arrays, in which this function writes bodies. `registry`: the messages. `ports`: TCP ports of brokers.
    `follows`: of those of `keep_messages` only the ones that the timeline of this id needs.
    `statistics`: exchanges may be counted only. `spans`: they may be spans of OpenTelemetry.
    """

    body: bool = False
    text: bool = False
    records: bool = False
    payloads: bool = True
    show_secrets: bool = False
    keep: bool = False
    live: bool = False
    lines: bool = False
    columns: Callable[[Any], bytes] | None = None
    keep_requests: frozenset[int] = frozenset()
    registry: Registry = REGISTRY
    ports: frozenset[int] = frozenset()
    statistics: bool = False
    keep_messages: frozenset[int] = frozenset()
    follows: str | None = None
    spans: bool = False
