"""`CapturedExchange`: one request with its response, before it is a row; `ReadOptions`: what rows show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from kafkawire.rows import Exchange

if TYPE_CHECKING:
    from kafkawire.wire.message import Message


class CapturedExchange(msgspec.Struct, frozen=True, kw_only=True):
    """An exchange, or what could be found of one.

    Attributes:
        row: as it is printed.
        request, response: the messages, where they were decoded and are kept.
        request_frame, response_frame: all bytes of the frames without their size, where they are kept.
    """

    row: Exchange
    request: Message | None = None
    response: Message | None = None
    request_frame: bytes | None = None
    response_frame: bytes | None = None

    @property
    def version(self) -> int:
        return self.row.version or 0


class ReadOptions(msgspec.Struct, frozen=True):
    """What rows show; see `capture.read`. `keep`: messages and frames are kept until the exchange comes out.

    `text`: bodies may be JSON text (`msgspec.Raw`), for rows that are encoded at once. `live`: exchanges come out as
    they happen, if need be in another order.
    """

    body: bool = False
    text: bool = False
    records: bool = False
    payloads: bool = True
    show_secrets: bool = False
    keep: bool = False
    live: bool = False

    def row(self, **fields: Any) -> Exchange:
        """A row without bodies: they are null where they were asked for, and not there where they were not."""
        missing = None if self.body else UNSET
        return Exchange(**fields, request=missing, response=missing)
