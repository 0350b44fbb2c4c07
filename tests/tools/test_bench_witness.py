"""The measurement of the witness's join: it judges what it generates."""

from __future__ import annotations

from kafkawire.witness import FATES
from kafkawire.witness.judgement import judge
from tools.bench.witness import generated, measured


def test_every_generated_batch_has_the_fate_that_was_made() -> None:
    sent, copy = generated(10_000)
    counts = judge(("orders", 0), sent, [copy]).counts()
    found: dict[str, int] = {}
    for key, (batches, records) in counts.items():
        name = FATES[key[1]].name
        found[name] = found.get(name, 0) + batches
        assert records == 10 * batches
    assert found == {"held": 8910, "deleted": 990, "unacknowledged_held": 90, "unknown": 10}


def test_measured() -> None:
    speed, grown = measured(1_000)
    assert speed > 0
    assert grown >= 0
