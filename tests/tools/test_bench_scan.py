"""The bench of a live topic as Arrow: on a real broker all contestants read all rows."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("confluent_kafka")

from tools.bench.measurement import BenchError
from tools.bench.scan import BYTES, CONTESTANTS, OURS, PEER, TUNED, fill, markdown, measured
from tools.broker import RunningCluster
from tools.pages import sections

pytestmark = pytest.mark.slow


def test_all_contestants_read_all_rows(broker: RunningCluster) -> None:
    size = fill(broker.bootstrap, "bench-scan", "lz4", 2000)
    assert size > 2000 * 60
    for name in CONTESTANTS:
        seconds, cpu = measured(name, broker.bootstrap, "bench-scan", 2000)
        assert seconds > 0
        assert cpu > 0


def test_a_contestant_that_reads_less_is_an_error(broker: RunningCluster) -> None:
    fill(broker.bootstrap, "bench-less", "none", 10)
    with pytest.raises(BenchError, match="kafkawire read 10 of 11 rows"):
        measured(OURS, broker.bootstrap, "bench-less", 11)


def test_the_section_states_the_goal_beside_the_tuned_client() -> None:
    times = dict.fromkeys(CONTESTANTS, (1.0, 0.5)) | {PEER: (20.0, 2.0), TUNED: (6.0, 2.0), BYTES: (0.25, 0.1)}
    text = markdown([("none", 70_000_000, times)], 1_000_000, ["about"])
    assert "| none | kafkawire | 1.00 M | 70 | 0.50 s | 6.0× |" in text
    assert "filling a pyarrow table: 6.0×, met (20.0× without tuning)" in text
    assert "kafkawire reaches 25% (none)" in text
    slow = markdown([("none", 70_000_000, times | {OURS: (2.0, 0.5)})], 1_000_000, ["about"])
    assert "3.0×, **not met**" in slow
    assert not sections(text)
