"""The version of the header before a request or a response (Kafka's `ApiMessageType`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkawire.wire.message import Message

API_VERSIONS = 18
CONTROLLED_SHUTDOWN = 7


def request_header_version(message: type[Message], version: int) -> int:
    """The version of a request's header: 2 for flexible versions, else 1. ControlledShutdown v0 has 0: no client id."""
    if message.spec.api_key == CONTROLLED_SHUTDOWN and version == 0:
        return 0
    return 2 if version in message.spec.flexible_versions else 1


def response_header_version(message: type[Message], version: int) -> int:
    """The version of a response's header: 1 for flexible versions, else 0. ApiVersions always has 0 (KIP-511)."""
    if message.spec.api_key == API_VERSIONS:
        return 0
    return 1 if version in message.spec.flexible_versions else 0
