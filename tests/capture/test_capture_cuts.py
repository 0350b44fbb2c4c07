"""The cut property (`tests.capture.cuts`), by both trackers, of generated conversations and the shipped capture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire.rows import Exchange
from tests.capture.cuts import Recorded, cuts, faults, native, python
from tests.capture.talks import Packets, api_kinds, every_version, kinds
from tests.capture.wiretap import ethernet, pcap

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "capture").glob("*.pcap"))
#: The packets at a capture's end of which each is cut: there is little left to recognise a connection by.
LAST = 60


def both(data: bytes) -> tuple[list[Exchange], int]:
    """By both trackers, which give the same."""
    found = native(data)
    assert found == python(data)
    return found


def contradictions(packets: Packets) -> list[str]:
    return [
        f"without the first {first} packets: {found.fault}"
        for first, found in cuts(pcap(map(ethernet, packets)), both)
        if found.fault is not None
    ]


@pytest.mark.slow
@pytest.mark.parametrize("make", kinds(), ids=lambda make: make.__name__)
def test_a_capture_that_begins_at_any_packet_shows_what_follows(make: Callable[[], Packets]) -> None:
    assert contradictions(make()) == []


@pytest.mark.slow
@pytest.mark.parametrize("api_key", api_kinds())
def test_every_version_of_every_api_is_shown_from_any_packet_on(api_key: int) -> None:
    assert contradictions(every_version(api_key)) == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", [native, python])
@pytest.mark.parametrize("make", kinds(), ids=lambda make: make.__name__)
def test_lost_swapped_and_doubled_packets_behind_a_cut_are_named(
    make: Callable[[], Packets], engine: Callable[[bytes], tuple[list[Exchange], int]]
) -> None:
    packets = make()
    firsts = range(0, len(packets), 1 if engine is native else 4)
    found = faults(pcap(map(ethernet, packets)), engine, firsts, distances=(0, 1))
    assert [(first, at, fault, wrong) for first, at, fault, wrong in found if wrong is not None] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_shipped_capture_is_shown_from_any_packet_on(path: Path) -> None:
    data = path.read_bytes()
    count = len(Recorded.of(data).packets)
    firsts = [*range(0, count - LAST, 20), *range(count - LAST, count)]
    assert [(first, found.fault) for first, found in cuts(data, native, firsts) if found.fault] == []
