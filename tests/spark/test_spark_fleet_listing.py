"""Workers list the replicas that `logdir.open` finds; the driver looks at few folders."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa

from kafkawire import logdir
from kafkawire.spark.auditing.replica_parts import distinct
from kafkawire.spark.listing import fleet_listing
from kafkawire.spark.listing.fleet_listing import (
    BROKER,
    METADATA,
    REPLICA,
    UNREADABLE,
    Folder,
    FoundBroker,
    _folders,
    _rows_of,
)
from kafkawire.spark.listing.found_replicas import found_in
from kafkawire.transactions.facts import ClusterMetadata, Leader, Place
from kafkawire.transactions.parts.manifest import DirectoryContent
from kafkawire.transactions.parts.replica_files import replicas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"


def listed(*paths: str) -> list[tuple[str, str, int, str, list[str], int | None]]:
    """Without Spark: what workers would find."""
    folders = [folder for number, path in enumerate(paths) for folder in _folders(number, path)]
    names = fleet_listing.LISTING.names
    rows = [dict(zip(names, row, strict=False)) for folder in folders for row in _rows_of(folder)]
    found = sorted((row for row in rows if row["kind"] == REPLICA), key=lambda row: row["sort"])
    return [shown(partition) for _, partition in distinct(found)]


def shown(partition: logdir.Partition) -> tuple[str, str, int, str, list[str], int | None]:
    files = sorted(file.path for file in partition.files)
    return partition.broker.root, partition.topic, partition.partition, partition.path, files, partition.high_watermark


def opened(*paths: str) -> list[tuple[str, str, int, str, list[str], int | None]]:
    return [shown(partition) for partition in replicas(logdir.open(*paths))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "paths",
    [
        (EXAMPLES,),
        (EXAMPLES / "three-nodes" / "broker-2", EXAMPLES / "three-nodes"),
        (EXAMPLES / "one-node" / "broker-1" / "payments-0",),
        (EXAMPLES / "one-node" / "broker-1" / "payments-0" / f"{0:020}.log",),
        (os.path.relpath(EXAMPLES),),
    ],
)
def test_lists_what_opening_finds(paths: tuple[object, ...]) -> None:
    expected = opened(*map(str, paths))
    assert expected
    assert listed(*map(str, paths)) == expected


def test_lists_what_opening_finds_through_uris() -> None:
    paths = (f"file://{EXAMPLES}", f"file://{EXAMPLES}/one-node/broker-1/payments-0/{0:020}.log")
    assert listed(*paths) == opened(*paths)


@pytest.mark.parametrize("together", [0, 10**6])
def test_a_log_directory_in_a_store_is_listed_as_a_whole_if_it_has_few_keys(
    monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(fleet_listing, "_KEYS_TOGETHER", together)
    uri = f"file://{EXAMPLES}"
    directories = {path.parent for path in EXAMPLES.rglob("meta.properties")}
    folders = _folders(0, uri)
    assert len(directories) > 3
    assert {one.path for one in folders if one.deep} == (set(map(str, directories)) if together else set())
    replicas_of = {str(path.parent) for path in EXAMPLES.rglob("*.log")}
    assert len(replicas_of & {one.path for one in folders}) == (0 if together else len(replicas_of))
    assert listed(uri) == opened(uri)


def test_finds_links_once_and_names_that_are_no_text(tmp_path: Path) -> None:
    partition = tmp_path / "broker-1" / "orders-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").touch()
    (partition / os.fsdecode(b"\xff.log")).touch()
    (partition / "gone").symlink_to("nowhere")
    (tmp_path / "broker-2").symlink_to("broker-1")
    paths = str(tmp_path), str(tmp_path / "broker-2")
    assert len(listed(*paths)) == 1
    assert listed(*paths) == opened(*paths)


def test_folders_that_cannot_be_listed_are_rows(tmp_path: Path) -> None:
    (row,) = _rows_of(Folder(0, None, str(tmp_path / "gone")))
    assert row[0] == UNREADABLE
    with pytest.raises(FileNotFoundError):
        _folders(0, str(tmp_path / "gone"))


@pytest.mark.slow
@pytest.mark.parametrize("replicas_of_broker", [20, 400])
def test_the_driver_looks_at_few_folders(
    tmp_path: Path, replicas_of_broker: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broker in range(12):
        for number in range(replicas_of_broker):
            (tmp_path / f"broker-{broker}" / f"orders-{number}").mkdir(parents=True)
    looked: list[str] = []
    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(path) or scandir(path))
    folders = _folders(0, str(tmp_path))
    assert len(looked) <= 1 + 12 + fleet_listing._FOLDERS
    assert len(folders) >= 12 * replicas_of_broker


@pytest.mark.spark
def test_tasks_see_their_own_rows(spark: SparkSession) -> None:
    rows = fleet_listing.listing(spark, [str(EXAMPLES)]).where(f"kind = '{REPLICA}'")
    sizes = {os.fsdecode(row.path): row.bytes for row in rows.select("path", "bytes").collect()}
    partitions = replicas(logdir.open(str(EXAMPLES)))
    assert sizes == {one.path: sum(file.size for file in one.segments) for one in partitions}


def test_the_driver_keeps_one_whole_copy_of_the_metadata_log_of_each_cluster() -> None:
    """Of the others it keeps what is assigned to their own brokers."""
    assigned = {("orders", number): tuple((broker, None) for broker in (number, 4)) for number in range(4)}
    made, answers = {}, []
    for number, newest in enumerate((20, 30, 10)):
        root = f"/broker-{number}"
        made[root] = ClusterMetadata(
            place=Place(root, "__cluster_metadata", 0), path=root, newest=newest, assigned=assigned,
            leaders={("orders", 0): Leader(0, 1)}, topic_configs={"orders": {"cleanup.policy": "compact"}},
        )  # fmt: skip
        broker = FoundBroker(DirectoryContent(root=root, node_id=number), "c", (), stopped=False)
        for kind, value in ((METADATA, {root: made[root]}), (BROKER, tuple(broker))):
            row = {"kind": kind, "argument": 0, "sort": root.encode(), "real": root.encode()}
            answers.append(row | {"payload": pickle.dumps(value)})
    found = found_in(pa.Table.from_pylist(answers)).metadata
    assert found["/broker-1"] == made["/broker-1"]
    for number in (0, 2):
        copy = found[f"/broker-{number}"]
        assert (list(copy.assigned), copy.leaders, copy.topic_configs) == ([("orders", number)], {}, {})
        assert copy.newest == made[copy.path].newest
