"""Who answers at an address, by the first bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.client.transport import listener_detection
from kafkawire.client.transport.listener_detection import first_bytes
from kafkawire.frames import encode_response
from kafkawire.messages import ApiVersionsResponse


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x15\x03\x03\x00\x02\x02\x46", listener_detection.TLS_HERE),
        (b"\x16\x03\x01", listener_detection.TLS_HERE),
        (b"HTTP/1.1 400 Bad Request\r\n", "an HTTP server answers here: give the port of a Kafka listener"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "an SSH server answers here: give the port of a Kafka listener"),
        (b"220 mail.example ESMTP", "a mail or FTP server answers here: give the port of a Kafka listener"),
        (b"-ERR unknown command", "Redis's protocol"),
    ],
)
def test_detects_other_servers(data: bytes, text: str) -> None:
    assert text in (first_bytes(data) or "")


@pytest.mark.parametrize("data", [b"", b"\x16", b"\x15\x03", b"HTTP", b"\x16\x03\x05", b"\x17\x03\x03"])
def test_detects_nothing_in_too_few_or_other_bytes(data: bytes) -> None:
    assert first_bytes(data) is None


@given(st.integers(0, (1 << 24) - 1), st.integers(-(1 << 31), (1 << 31) - 1))
def test_takes_no_kafka_response_for_another_server(size: int, correlation_id: int) -> None:
    """Of up to 16 MB, that is."""
    assert first_bytes(size.to_bytes(4, "big") + correlation_id.to_bytes(4, "big", signed=True)) is None
    assert first_bytes(encode_response(ApiVersionsResponse(), version=0, correlation_id=correlation_id)) is None
