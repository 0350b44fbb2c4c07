"""Captures of clients of several generations (tests/recordings/client-captures), with the broker's log of requests.

KAFKAWIRE_CUTS=all cuts them before every packet; otherwise before some.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kafkawire import capture
from kafkawire.capture.matcher import NO_RESPONSE
from tests.capture.cuts import Recorded, cuts, faults, native
from tools.recordings import archive, client_captures

CLIENTS = [client.name for client in client_captures.CLIENTS]
#: A cut before each n-th packet.
EVERY, EVERY_FAULT = (1, 1) if os.environ.get("KAFKAWIRE_CUTS") == "all" else (2, 20)


@cache
def recorded() -> tuple[Path, dict[str, Any]]:
    folder = archive.unpacked(client_captures.NAME)
    return folder, json.loads((folder / "truth.json").read_text())


def data_of(name: str) -> bytes:
    return (recorded()[0] / f"{name}.pcap").read_bytes()


def test_every_client_is_recorded() -> None:
    assert sorted(recorded()[1]) == sorted(CLIENTS)


@pytest.mark.parametrize("name", CLIENTS)
def test_all_frames_of_a_client_are_decoded(name: str) -> None:
    found = capture.read(recorded()[0] / f"{name}.pcap")
    assert {row.problem for row in found} <= {None, NO_RESPONSE}
    assert found.summary.connections.keys() <= {"kafka", "undecided"}
    assert found.summary.joined_bytes == 0


def test_rows_are_the_requests_that_the_brokers_have_logged() -> None:
    """Of all clients together: a fetch that waits when its client leaves is logged while the next one runs."""
    folder, truth = recorded()
    shown = Counter(
        (str(row.client).rpartition(":")[2], row.api_key, row.version, row.correlation_id, row.client_id)
        for name in CLIENTS
        for row in capture.read(folder / f"{name}.pcap")
    )
    logged = Counter(
        (port, *request)
        for client in truth.values()
        for port, requests in client["requests"].items()
        for request in requests
    )
    assert shown == logged
    assert shown.total() > 500


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_a_capture_of_a_client_is_shown_from_any_packet_on(name: str) -> None:
    data = data_of(name)
    firsts = range(0, len(Recorded.of(data).packets), EVERY)
    assert [(first, found.fault) for first, found in cuts(data, native, firsts) if found.fault is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_faults_of_tcp_behind_a_cut_are_named(name: str) -> None:
    data = data_of(name)
    firsts = range(0, len(Recorded.of(data).packets), EVERY_FAULT)
    found = faults(data, native, firsts, distances=(0, 1, 5))
    assert [(first, at, fault, wrong) for first, at, fault, wrong in found if wrong is not None] == []
