"""The Wireshark case of the bench: its capture, and that each of its contestants decodes Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import capture
from tests.wireshark import tshark
from tools.bench.dissectors import HEADERS, KEY, OWN, PLUGIN, dissectors
from tools.bench.sample_captures import EXAMPLE, write_capture

pytestmark = pytest.mark.slow


def test_repeated_capture_has_distinct_connections(tmp_path: Path) -> None:
    packets = write_capture(tmp_path / "capture.pcap", 3)
    once, thrice = (list(capture.read(path)) for path in (EXAMPLE, tmp_path / "capture.pcap"))
    assert packets == 3 * 997
    assert len(thrice) == 3 * len(once)
    assert {exchange.problem for exchange in thrice} == {exchange.problem for exchange in once}
    assert len({exchange.connection for exchange in thrice}) == 3 * len({exchange.connection for exchange in once})


@tshark.needs_tshark
def test_all_dissectors_are_measured() -> None:
    (result,) = dissectors(1)
    assert result.key == KEY
    assert not result.absent
    assert [timing.contestant for timing in result.timings] == [PLUGIN, HEADERS, OWN]
    assert all(timing.median > 0 for timing in result.timings)
