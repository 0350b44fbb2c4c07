"""What `tools.bench.spark_scale` promises of the audit on Spark, and what it counts of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tools.bench import spark_scale
from tools.bench.measurement import BenchError
from tools.bench.spark_scale import Scale, Stages


def scale(one: float, two: float) -> Scale:
    """A start of Spark of 10 s and 8 s, and a local engine that takes 2 s."""
    return Scale(2.0, {1: 10.0, 2: 8.0}, {1: 10 + one, 2: 8 + two}, Stages(5, 9, 0))


def test_what_is_promised_is_promised_of_the_time_beyond_the_start_of_spark() -> None:
    found = scale(7.0, 4.0)
    assert (found.gain, found.times_local) == (1.75, 2.0)


def test_stages_tasks_and_shuffled_bytes_are_those_of_the_event_log(tmp_path: Path) -> None:
    def ended(stage: int, shuffled: int) -> dict[str, object]:
        metrics = {"Shuffle Write Metrics": {"Shuffle Bytes Written": shuffled}}
        return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Metrics": metrics}

    events = [{"Event": "SparkListenerLogStart"}, ended(0, 5), ended(0, 7), ended(3, 0)]
    (tmp_path / "local-1").write_text("".join(json.dumps(event) + "\n" for event in events))
    (tmp_path / ".local-1.crc").write_bytes(b"\xff")
    assert Stages.of(tmp_path) == Stages(stages=2, tasks=3, shuffled=12)


@pytest.mark.parametrize(
    ("one", "two", "missed"),
    [
        (7.0, 4.0, None),
        (7.0, 4.2, "one partition takes 2.1 times the local engine's time, not 2; 1 partitions: two cores are 1.67"),
        (6.0, 4.0, "1 partitions: two cores are 1.50 times as fast as one, not 1.7; 2,000 partitions"),
    ],
)
def test_gates_name_each_promise_that_is_missed(
    monkeypatch: pytest.MonkeyPatch, one: float, two: float, missed: str | None
) -> None:
    asked = []

    def audited(partitions: int, transactions: int, rounds: int = 1) -> Scale:
        asked.append((partitions, transactions))
        return scale(one, two)

    monkeypatch.setattr(spark_scale, "audited", audited)
    monkeypatch.setattr(spark_scale, "planning", lambda counts: [(1.0, 1.0), (1.0, 1.0)])
    monkeypatch.setattr(spark_scale, "judging", lambda count: 1.0)
    if missed is None:
        spark_scale.gates()
    else:
        with pytest.raises(BenchError, match=missed):
            spark_scale.gates()
    assert asked == [(1, 4_000_000), (1, 10_000_000), (2000, 2000)]
