"""`tools.bench.proxy` measures, and a connection through the proxy costs no more than its goals."""

from __future__ import annotations

import pytest

from tools.bench import proxy

pytestmark = pytest.mark.slow


def test_throughput_and_latency() -> None:
    assert proxy.throughput(300) > proxy.GOAL_MB_S
    direct, added = proxy.latency(300)
    assert direct > 0
    assert (
        added < 20 * proxy.GOAL_MS * 1000
    )  # other tests run at the same time; the page has the figure of a quiet machine


def test_memory_of_idle_connections() -> None:
    (few, small), (many, large) = proxy.idle(50), proxy.idle(800)
    assert (few, many) == (50, 800)
    assert small + (large - small) / (many - few) * proxy.GOAL_CONNECTIONS < proxy.GOAL_MB


def test_page() -> None:
    found = proxy.Measured(mb_s=100.0, direct_us=15, added_us=60, connections=1000, idle_mb=20)
    text = proxy.markdown(found, ["about"])
    assert "| a second of CPU passes | 100 MB | at least 200 MB | **not met** |" in text
    assert "| added to a round trip of 15 µs, median | 0.06 ms | under 0.3 ms | met |" in text
    assert "| 1,000 idle connections, resident memory | 20 MB (20 KB each) | 10,000 in 300 MB | met |" in text
