"""Which version of the header precedes a message (Kafka's `ApiMessageType`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7


def request_header_version(message: type[Message], version: int) -> int:
    """1, or 2 where the request is flexible. ControlledShutdown v0 is older than the client id: 0."""
    if message.spec.api_key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version in message.spec.flexible_versions else 1


def response_header_version(message: type[Message], version: int) -> int:
    """0, or 1 where the response is flexible. ApiVersions always 0: no version is agreed on yet."""
    if message.spec.api_key == API_VERSIONS:
        return 0
    return 1 if version in message.spec.flexible_versions else 0
