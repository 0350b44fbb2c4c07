"""What listing a fleet costs by generated listings: requests and tasks of docs/spark.md."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark.listing.found_replicas import found_in
from tools.bench.fleet_plan import driver, plan
from tools.bench.spark_plan import BROKERS, REPLICAS, SEGMENTS

pytestmark = pytest.mark.slow


def test_brokers_small_files_are_read_once_and_not_with_each_replica(tmp_path: Path) -> None:
    rows, replicas = tmp_path / "rows", 300
    found = plan(replicas, 100, rows)
    # The driver and a worker list the store and each log directory; the driver three partitions of each of these.
    assert found.lists == 2 * (1 + BROKERS) + 3 * BROKERS
    # meta.properties and four checkpoints.
    assert found.opened == 5 * BROKERS
    assert (found.reading, found.merging) == (46, 46)
    with pa.OSFile(str(rows)) as file:
        listed = found_in(pa.ipc.open_stream(file).read_all())
    assert listed.size.replicas == replicas
    assert listed.size.files == replicas * SEGMENTS
    assert sorted(broker.node_id or 0 for broker in listed.brokers) == list(range(BROKERS))
    assert {broker.cluster_id for broker in listed.brokers} == {"c"}
    for broker in listed.brokers:
        assert len(broker.content.held) == replicas // BROKERS
        assert {frozenset(one) for one in broker.content.named.values()} == {frozenset(broker.content.held)}
    assert sum(len(broker.content.held) for broker in listed.brokers) // REPLICAS == 100
    assert driver(rows)[1] < 50_000_000
