"""tools.recordings.client_captures: the truth of a capture from the broker's log."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytest.importorskip("kafka", reason="kafka-python is not installed")

from tools.recordings.client_captures import _requests


def line(port: int, number: int) -> bytes:
    header = {"requestApiKey": 1, "requestApiVersion": 2, "correlationId": number, "clientId": "c"}
    request = {"connection": f"127.0.0.1:9092-127.0.0.1:{port}-0-1", "requestHeader": header}
    return f"[x] DEBUG Completed request:{json.dumps(request)} (kafka.request.logger)\n".encode()


def test_a_request_that_is_logged_late_belongs_to_the_client_that_is_gone_and_the_brokers_own_to_each() -> None:
    """Port 7 is the broker's own connection."""
    first, second = line(1, 10) + line(7, 70), line(1, 11) + line(7, 71) + line(2, 20)
    rest = line(2, 21) + line(7, 72)
    ends = {"one": len(first), "two": len(first + second)}
    found = _requests(first + second + rest, ends, {"one": {1, 7}, "two": {2, 7}})
    assert {
        name: {port: [one[2] for one in rows] for port, rows in ports.items()} for name, ports in found.items()
    } == {
        "one": {1: [10, 11], 7: [70]},
        "two": {2: [20, 21], 7: [71, 72]},
    }
