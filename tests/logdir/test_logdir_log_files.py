"""A file of a log directory: what it is, by its name and by the directory that it lies in."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import rows
from kafkawire.logdir.file_names import PartitionName
from kafkawire.logdir.log_files import log_file, partition_of
from kafkawire.records import Record, build
from tests.logdir.logged import NAME, write

ORDERS = PartitionName("orders", 3, "")


@pytest.mark.parametrize(
    ("path", "root"),
    [
        (f"/logs/orders-3/{NAME}.log", "/logs"),
        (f"orders-3/{NAME}.log", ""),
        (f"./{NAME}.log", "./.."),
        (f"{NAME}.log", ".."),
        (f"../{NAME}.log", "../.."),
    ],
)
def test_file_of_a_partition_belongs_to_the_log_directory_above(path: str, root: str) -> None:
    """However it was reached: `.` has no parent in it."""
    file = log_file(path, ORDERS)
    assert (file.path, file.root) == (path, root)
    assert (file.kind, file.topic, file.partition, file.offset, file.state) == ("log", "orders", 3, 0, "")


@pytest.mark.parametrize(
    ("path", "root", "kind"),
    [
        ("/logs/meta.properties", "/logs", "meta-properties"),
        (f"/logs/remote-log-index-cache/{5:020}_abc.txnindex", "/logs", "unknown"),
        ("/logs/notes.txt", "/logs", "unknown"),
    ],
)
def test_file_of_a_broker_has_no_partition(path: str, root: str, kind: str) -> None:
    file = log_file(path)
    assert (file.root, file.kind, file.topic, file.partition) == (root, kind, None, None)


def test_file_has_its_own_state_or_its_partitions() -> None:
    going = PartitionName("orders", 3, "delete")
    assert log_file(f"/logs/x/{NAME}.log", going).state == "delete"
    assert log_file(f"/logs/x/{NAME}.log.swap", going).state == "swap"


def test_directory_is_a_partition_by_its_name_and_its_files() -> None:
    """A broker's log directory may be named alike."""
    assert partition_of("/data/broker-1", ["meta.properties", "recovery-point-offset-checkpoint"]) is None
    assert partition_of("/data/broker-1", []) is None
    assert partition_of("/data/broker-1", ["bootstrap.checkpoint", "bootstrap.checkpoint.tmp"]) is None
    assert partition_of("/data/__cluster_metadata-0", [f"{7:020}-{1:010}.checkpoint"]) == ("__cluster_metadata", 0, "")
    assert partition_of("/data/broker-1", ["notes.txt", f"{NAME}.log"]) == PartitionName("broker", 1, "")
    assert partition_of("/data/orders-3/", ["leader-epoch-checkpoint"]) == ORDERS
    assert partition_of("/data/orders", [f"{NAME}.log"]) is None


def test_iterating_over_a_file_yields_its_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "orders-3" / f"{NAME}.log", build([Record(b"k", b"v")] * 2))
    (row,) = log_file(str(path), ORDERS)
    assert isinstance(row, rows.BatchRow)
    assert (row.file, row.topic, row.partition, row.records) == (str(path), "orders", 3, 2)
