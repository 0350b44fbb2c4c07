"""The log directories in examples/, that real brokers wrote, compared with the brokers' answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir, rows
from kafkawire.logdir import LogDirectory, Partition
from kafkawire.records import Batch, Damage

EXAMPLES = Path(__file__).parents[2] / "examples"
TRUTH: dict[str, Any] = json.loads((EXAMPLES / "expected.json").read_text())["kafka-logs"]


@pytest.fixture(params=sorted(TRUTH))
def cluster(request: pytest.FixtureRequest) -> tuple[LogDirectory, dict[str, Any]]:
    return logdir.open(EXAMPLES / "kafka-logs" / request.param), TRUTH[request.param]


def leaders(directory: LogDirectory, truth: dict[str, Any]) -> dict[tuple[str, int], Partition]:
    """The leader's copy of each partition with a broker's answer."""
    wanted = {(p["topic"], p["partition"]): p["leader"] for p in truth["offsets"]}
    return {
        (p.topic, p.partition): p
        for p in directory.partitions
        if wanted.get((p.topic, p.partition)) == p.broker.node_id
    }


def test_every_example_file_decodes(cluster: tuple[LogDirectory, dict[str, Any]]) -> None:
    directory, _ = cluster
    found = [row for file in directory.files for row in logdir.rows_of(file, logdir.Options(deep=True, payloads=True))]
    assert [row for row in found if isinstance(row, rows.DamageRow) and not row.harmless] == []
    decoded = [row.decoded for row in found if isinstance(row, rows.RecordRow) and isinstance(row.decoded, dict)]
    assert len(decoded) > 100
    assert [part for both in decoded for part in both.values() if part and "problem" in part] == []
    assert {file.name for file in directory.files if file.kind == "unknown"} <= {"README.md"}


def test_brokers_have_their_ids(cluster: tuple[LogDirectory, dict[str, Any]]) -> None:
    directory, _ = cluster
    assert [f"broker-{broker.node_id}" for broker in directory.brokers] == [
        Path(broker.root).name for broker in directory.brokers
    ]


def test_offsets_equal_the_brokers_answer(cluster: tuple[LogDirectory, dict[str, Any]]) -> None:
    directory, truth = cluster
    found = leaders(directory, truth)
    assert truth["offsets"]
    for offsets in truth["offsets"]:
        partition = found[offsets["topic"], offsets["partition"]]
        *_, last = (item for item in partition if isinstance(item, Batch))
        assert partition.log_start_offset == offsets["log_start_offset"]
        assert partition.high_watermark == offsets["high_watermark"]
        assert last.last_offset + 1 >= offsets["high_watermark"]


def test_producers_equal_the_brokers_answer(cluster: tuple[LogDirectory, dict[str, Any]]) -> None:
    """Each producer's last batch, and first offset of its open transaction, by walking over headers alone."""
    directory, truth = cluster
    found = leaders(directory, truth)
    for expected in truth["producers"]:
        partition = found[expected["topic"], expected["partition"]]
        epoch, sequence, timestamp, coordinator_epoch, start = -1, -1, -1, -1, -1
        for batch in partition:
            assert isinstance(batch, Batch)
            if batch.producer_id != expected["producer_id"]:
                continue
            control = batch.control
            if batch.producer_epoch > epoch and control is not None:
                sequence = -1
            epoch, timestamp = batch.producer_epoch, batch.max_timestamp
            if control is not None:
                start, coordinator_epoch = -1, control.coordinator_epoch or 0
                continue
            sequence = batch.last_sequence
            if batch.transactional and start < 0:
                start = batch.base_offset
        assert (epoch, sequence, timestamp, coordinator_epoch, start) == (
            expected["producer_epoch"],
            expected["last_sequence"],
            expected["last_timestamp"],
            expected["coordinator_epoch"],
            expected["current_txn_start_offset"],
        )


def test_aborted_transactions_end_at_abort_markers(cluster: tuple[LogDirectory, dict[str, Any]]) -> None:
    directory, _ = cluster
    seen = 0
    for partition in directory.partitions:
        markers = {
            b.base_offset: b.producer_id for b in partition if isinstance(b, Batch) and str(b.control) == "ABORT"
        }
        for entry in partition.aborted_transactions():
            assert not isinstance(entry, Damage)
            assert markers[entry.aborted.last_offset] == entry.aborted.producer_id
            seen += 1
    assert seen
