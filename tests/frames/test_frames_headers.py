"""Header versions of requests and responses."""

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
def test_header_versions_of_single_messages(name: str, version: int, request_header: int, response_header: int) -> None:
    """The table of Kafka's ApiMessageTypeTest.testHeaderVersion, and more."""
    assert request_header_version(lookup(f"{name}Request"), version) == request_header
    assert response_header_version(lookup(f"{name}Response"), version) == response_header


def test_flexible_versions_have_flexible_headers() -> None:
    """Kafka's ApiMessageType, with its two exceptions: ControlledShutdown v0 and the ApiVersions response."""
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
