"""`kafkawire explain` on copies of real clusters, against what brokers answered and consumers got."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.runner import Run
from tests.recorded_clusters import ALL, Copy

pytestmark = pytest.mark.slow

PARTITIONS = (("orders", 0), ("hangs", 1), ("compacted", 0))
#: What Kafka Streams and MirrorMaker 2 write.
OF_FRAMEWORKS = (("counts", 0), ("counts-events-counts-changelog", 0), ("source.events", 0))


def places(partitions: tuple[tuple[str, int], ...]) -> list[Any]:
    """Of each copy, those partitions, and those of frameworks where there are any."""
    return [
        pytest.param(copy, topic, number, id=f"{copy}-{topic}-{number}")
        for copy in ALL
        for topic, number in (*partitions, *(OF_FRAMEWORKS if copy.cluster == "cluster-event-time" else ()))
    ]


def explain(run: Run, copy: Copy, topic: str, partition: int) -> list[dict[str, Any]]:
    done = run("explain", copy.path, "--topic", topic, "--partition", partition, "--max-ranges", 0)
    # A checkpoint that was copied after the log names offsets that the log has not.
    apart = copy.name in ("forward", "backward") and "is not here" in done.err
    assert done.code == (4 if apart else 0), done.err
    return [json.loads(line) for line in done.out.splitlines()]


def replicas_of(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The replicas in use, by their folders."""
    return {row["file"]: row for row in rows if row["kind"] == "replica" and not row["state"]}


@pytest.mark.parametrize(("copy", "topic", "partition"), places(PARTITIONS))
def test_every_offset_has_a_status_and_replicas_end_where_the_brokers_say(
    run: Run, copy: Copy, topic: str, partition: int
) -> None:
    rows = explain(run, copy, topic, partition)
    answer = next(one for one in copy.truth["offsets"] if (one["topic"], one["partition"]) == (topic, partition))
    replicas = replicas_of(rows)
    assert replicas
    for file, replica in replicas.items():
        totals = [row for row in rows if row["kind"] == "total" and row["file"] == file]
        assert sum(row["offsets"] for row in totals) == replica["end_offset"]
        lost = [row for row in totals if row["status"] in ("unreadable", "truncated")]
        assert all(row["first_offset"] >= replica["log_end_offset"] for row in lost)
        assert not lost or copy.name in ("forward", "backward")
        for name in ("last_stable_offset", "high_watermark", "log_start_offset"):
            assert replica[name] == answer[name] if copy.stopped else replica[name] <= answer[name]


@pytest.mark.parametrize(("copy", "topic", "partition"), places(PARTITIONS[:2]))
def test_committed_records_below_the_last_stable_offset_are_those_that_a_consumer_got(
    run: Run, copy: Copy, topic: str, partition: int
) -> None:
    rows = explain(run, copy, topic, partition)
    consumed = copy.consumed("read_committed")[topic, partition]
    for file, replica in replicas_of(rows).items():
        committed = [
            offset
            for row in rows
            if row["kind"] == "range" and row["file"] == file and row["transaction"] in ("committed", "none")
            for offset in range(row["first_offset"], row["last_offset"] + 1)
            if offset < replica["last_stable_offset"]
        ]
        assert committed == [offset for offset in consumed if offset < replica["last_stable_offset"]]
