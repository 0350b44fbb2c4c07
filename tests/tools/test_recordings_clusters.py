"""tools.recordings.clusters: the functions that make the copies and the truth of a cluster."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from tests import recorded_clusters
from tools.broker import RunningCluster
from tools.broker.java_process import BrokerNode

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
pytest.importorskip("kafka", reason="kafka-python is not installed")

from tools.recordings.clusters import CONFIGURATIONS, COPIES
from tools.recordings.clusters.cluster_truth import as_text
from tools.recordings.clusters.workload import INTERNAL_PARTITIONS, ids_of_partitions
from tools.recordings.log_copies import copy_all


@dataclass
class Nodes:
    every_node: list[BrokerNode] = field(default_factory=list)


def node(root: Path, number: int, disks: int = 1) -> BrokerNode:
    made = BrokerNode(number, root / f"node-{number}", 1, 2, disks)
    for disk in made.log_dirs:
        for name in ("a-0/0.log", "b-0/0.index", "b-0/0.log", "meta.properties", ".lock"):
            (disk / name).parent.mkdir(parents=True, exist_ok=True)
            (disk / name).write_text(f"{disk.name} {name}")
    return made


@pytest.mark.parametrize("backwards", [False, True])
def test_files_are_copied_in_the_order_of_names_and_clients_act_in_between(tmp_path: Path, backwards: bool) -> None:
    nodes = Nodes([node(tmp_path / "running", 1), node(tmp_path / "running", 2)])
    target, at = tmp_path / "copy", []

    def step() -> None:
        at.append(sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()))

    copy_all(cast(RunningCluster, nodes), target, backwards=backwards, step=step)
    first, second = ("node-2", "node-1") if backwards else ("node-1", "node-2")
    files = ("a-0/0.log", "b-0/0.index", "b-0/0.log", "meta.properties")
    assert at == [
        [f"{first}/{name}" for name in files],
        sorted(f"{one}/{name}" for one in (first, second) for name in files),
    ]


def test_a_file_is_of_the_time_of_its_turn_and_one_that_is_gone_is_left_out(tmp_path: Path) -> None:
    nodes = Nodes([node(tmp_path / "running", 1), node(tmp_path / "running", 2)])
    of_second = nodes.every_node[1].log_dir

    def step() -> None:
        (of_second / "a-0" / "0.log").write_text("later")
        (of_second / "b-0" / "0.log").unlink(missing_ok=True)

    copy_all(cast(RunningCluster, nodes), tmp_path / "copy", step=step)
    copied = tmp_path / "copy" / "node-2"
    assert (copied / "a-0" / "0.log").read_text() == "later"
    assert not (copied / "b-0" / "0.log").exists()


def test_each_disk_has_a_folder(tmp_path: Path) -> None:
    copy_all(cast(RunningCluster, Nodes([node(tmp_path / "running", 1, disks=2)])), tmp_path / "copy")
    assert sorted(path.name for path in (tmp_path / "copy" / "node-1").iterdir()) == ["data", "data-2"]


def test_traffic_has_an_id_in_each_partition_of_transaction_state() -> None:
    """The partition is `Utils.abs(transactionalId.hashCode()) % count`."""

    def partition(name: str) -> int:
        code = 0
        for char in name:
            code = (31 * code + ord(char) + 2**31) % 2**32 - 2**31
        return abs(code) % INTERNAL_PARTITIONS

    assert [partition(name) for name in ids_of_partitions("traffic")] == list(range(INTERNAL_PARTITIONS))


def test_truth_is_json_with_a_row_a_line() -> None:
    truth: dict[str, Any] = {
        "version": "4.4.0",
        "left_open": [{"topic": "a"}, {"topic": "b"}],
        "consumed": {"read_committed": {"a-0": [0, 1], "b-0": []}},
        "found_by_kafka": [],
    }
    assert json.loads(as_text(truth)) == truth
    assert '\n  {"topic": "b"}' in as_text(truth)


def test_every_configuration_is_recorded_with_all_its_copies() -> None:
    assert sorted(one.archive for one in CONFIGURATIONS) == recorded_clusters.CLUSTERS
    assert recorded_clusters.COPIES == COPIES
    for copy in recorded_clusters.ALL:
        assert any(copy.path.glob("node-1/**/orders-0/*.log"))
