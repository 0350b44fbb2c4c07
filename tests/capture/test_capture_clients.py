"""Captures of clients of several generations and of frameworks, with the broker's log of requests.

They are tests/recordings/client-captures and application-captures.
KAFKAWIRE_CUTS=all cuts them before every packet, of the first 2,000; otherwise before some.
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

#: Name of a client -> the archive that has its capture.
CLIENTS = {client.name: archive for archive, clients in client_captures.ARCHIVES.items() for client in clients}
ALL = os.environ.get("KAFKAWIRE_CUTS") == "all"
#: No packet behind this one is cut off or has a fault.
MOST = 2000
#: Cuts of a capture, and of those that a fault follows, where not all are made.
CUTS, FAULTS = 80, 6


@cache
def recorded(name: str) -> tuple[Path, dict[str, Any]]:
    folder = archive.unpacked(name)
    return folder, json.loads((folder / "truth.json").read_text())


def path_of(name: str) -> Path:
    return recorded(CLIENTS[name])[0] / f"{name}.pcap"


def firsts(data: bytes, count: int) -> range:
    """The packets before which a capture is cut, from 0: about so many."""
    packets = min(len(Recorded.of(data).packets), MOST)
    return range(0, packets, 1 if ALL else max(2, packets // count))


def test_every_client_is_recorded() -> None:
    assert sorted(name for one in client_captures.ARCHIVES for name in recorded(one)[1]) == sorted(CLIENTS)


@pytest.mark.parametrize("name", CLIENTS)
def test_all_frames_of_a_client_are_decoded(name: str) -> None:
    found = capture.read(path_of(name))
    assert {row.problem for row in found} <= {None, NO_RESPONSE}
    assert found.summary.connections.keys() <= {"kafka", "undecided"}
    assert found.summary.joined_bytes == 0


@pytest.mark.parametrize("name", client_captures.ARCHIVES)
def test_rows_are_the_requests_that_the_brokers_have_logged(name: str) -> None:
    """Of all clients together: a fetch that waits when its client leaves may be logged while the next one runs."""
    folder, truth = recorded(name)
    shown = Counter(
        (str(row.client).rpartition(":")[2], row.api_key, row.version, row.correlation_id, row.client_id)
        for client in truth
        for row in capture.read(folder / f"{client}.pcap")
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
    data = path_of(name).read_bytes()
    found = cuts(data, native, firsts(data, CUTS))
    assert [(first, one.fault) for first, one in found if one.fault is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIENTS)
def test_faults_of_tcp_behind_a_cut_are_named(name: str) -> None:
    data = path_of(name).read_bytes()
    found = faults(data, native, firsts(data, FAULTS), distances=(0, 1, 5))
    assert [(first, at, fault, wrong) for first, at, fault, wrong in found if wrong is not None] == []
