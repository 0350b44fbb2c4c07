"""Which header precedes a message: Kafka's own table, and the rule for every message and version."""

from __future__ import annotations

import pytest

from kafkawire import lookup
from kafkawire.frames import request_header_version, response_header_version
from kafkawire.messages import REGISTRY


@pytest.mark.parametrize(
    ("name", "version", "request_header", "response_header"),
    [
        ("Fetch", 11, 1, 0),
        ("Fetch", 12, 2, 1),
        ("Produce", 8, 1, 0),
        ("Produce", 9, 2, 1),
        ("ApiVersions", 2, 1, 0),
        ("ApiVersions", 3, 2, 0),
        ("ControlledShutdown", 0, 0, 0),
        ("ControlledShutdown", 1, 1, 0),
        ("ControlledShutdown", 3, 2, 1),
        ("SaslHandshake", 1, 1, 0),
        ("DescribeTransactions", 0, 2, 1),
    ],
)
def test_header_versions(name: str, version: int, request_header: int, response_header: int) -> None:
    """The table of Kafka's ApiMessageTypeTest.testHeaderVersion, and more."""
    assert request_header_version(lookup(f"{name}Request"), version) == request_header
    assert response_header_version(lookup(f"{name}Response"), version) == response_header


def test_every_version() -> None:
    """Flexible messages have flexible headers, but for what is older than that rule (Kafka's ApiMessageType)."""
    for entry in REGISTRY:
        if entry.family != "rpc" or entry.kind not in ("request", "response"):
            continue
        message = lookup(entry.name)
        for version in message.spec.valid_versions:
            flexible = version in message.spec.flexible_versions
            if entry.kind == "response":
                wanted = 1 if flexible and entry.name != "ApiVersionsResponse" else 0
                assert response_header_version(message, version) == wanted, (entry.name, version)
            else:
                wanted = 0 if (entry.name, version) == ("ControlledShutdownRequest", 0) else 1 + flexible
                assert request_header_version(message, version) == wanted, (entry.name, version)
