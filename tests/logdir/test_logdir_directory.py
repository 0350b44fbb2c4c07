"""Opening log directories: what is found, and what a partition knows."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir
from kafkawire.records import Batch, Damage, Record, build
from tests.logdir.logged import NAME, write


def found(directory: logdir.LogDirectory) -> list[tuple[str, int, int | None]]:
    return [(p.topic, p.partition, p.broker.node_id) for p in directory.partitions]


BOTH = [("__transaction_state", 0), ("orders-v-2", 0)]


def test_opens_a_folder_of_log_directories(logs: Path) -> None:
    directory = logdir.open(logs)
    assert found(directory) == [(*names, broker) for broker in (1, 2) for names in BOTH]
    assert len(directory.files) == 28
    assert [Path(file.path).name for file in directory.files if file.kind == "unknown"] == ["notes.txt"] * 2
    assert {file.kind for file in directory.files} == {
        *("meta-properties", "checkpoint", "lock", "log", "txnindex", "index", "snapshot", "epochs"),
        *("partition-metadata", "unknown"),
    }
    assert [broker.properties["cluster.id"] for broker in directory.brokers] == ["c", "c"]


@pytest.mark.parametrize("ending", ["", "/"])
def test_opens_one_log_directory(logs: Path, ending: str) -> None:
    directory = logdir.open(f"{logs}/broker-2{ending}")
    assert found(directory) == [(*names, 2) for names in BOTH]
    assert not any("//" in file.path for file in directory.files)


def test_opens_one_partition(logs: Path) -> None:
    (partition,) = logdir.open(logs / "broker-1" / "orders-v-2-0").partitions
    assert (partition.topic, partition.partition, partition.broker.node_id) == ("orders-v-2", 0, 1)
    assert (partition.high_watermark, partition.log_start_offset) == (3, 1)


def test_opens_the_current_directory(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(logs / "broker-1" / "orders-v-2-0")
    for path in (".", f"{NAME}.log", f"./{NAME}.log"):
        (partition,) = logdir.open(path).partitions
        assert (partition.topic, partition.high_watermark) == ("orders-v-2", 3)
    monkeypatch.chdir(logs / "broker-1")
    assert found(logdir.open(".")) == [(*names, 1) for names in BOTH]
    assert logdir.open("orders-v-2-0").partitions[0].high_watermark == 3


def test_opens_one_file(logs: Path, tmp_path: Path) -> None:
    (file,) = logdir.open(logs / "broker-1" / "orders-v-2-0" / f"{NAME}.log").files
    assert (file.kind, file.topic, file.partition, file.offset) == ("log", "orders-v-2", 0, 0)
    (alone,) = logdir.open(write(tmp_path / "elsewhere" / f"{NAME}.log", build([Record()]))).files
    assert (alone.kind, alone.topic) == ("log", None)
    assert [type(item) for item in alone.batches()] == [Batch]


def test_overlapping_paths_are_read_once(logs: Path) -> None:
    directory = logdir.open(logs / "broker-1", logs / "broker-1" / "orders-v-2-0")
    assert found(directory) == [(*names, 1) for names in BOTH]


def test_missing_paths_are_errors(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        logdir.open(tmp_path / "nothing")
    assert logdir.open(tmp_path).files == ()


def test_partition_gives_batches_and_offsets(logs: Path) -> None:
    partition = logdir.open(logs / "broker-1").partitions[1]
    assert [file.offset for file in partition.segments] == [0, 3]
    assert [file.offset for file in partition.snapshots] == [2]
    batches = [item for item in partition if isinstance(item, Batch)]
    assert [str(batch.control) for batch in batches] == ["None", "ABORT", "None"]
    assert [batch.base_offset for batch in batches] == [0, 2, 3]
    (aborted,) = partition.aborted_transactions()
    assert aborted.aborted.last_offset == 2  # type: ignore[union-attr]
    latest = partition.latest_snapshot()
    assert latest is not None
    assert (latest[0].offset, latest[1][0].producer.producer_id) == (2, 4001)  # type: ignore[union-attr]


def test_partition_without_checkpoints_has_no_high_watermark(tmp_path: Path) -> None:
    write(tmp_path / "t-0" / "00000000000000000005.log", build([Record()], base_offset=5))
    (partition,) = logdir.open(tmp_path).partitions
    assert (partition.high_watermark, partition.log_start_offset, partition.broker.node_id) == (None, 5, None)
    assert partition.latest_snapshot() is None


def test_oversized_snapshot_is_damage(logs: Path) -> None:
    path = logs / "broker-1" / "orders-v-2-0" / "00000000000000000002.snapshot"
    with path.open("r+b") as file:
        file.truncate(1 << 40)  # sparse
    latest = logdir.open(logs / "broker-1").partitions[1].latest_snapshot()
    assert latest is not None
    (damage,) = latest[1]
    assert isinstance(damage, Damage)
    assert (latest[0].path, damage.reason) == (str(path), "too_large")


def test_unlistable_directory_is_reported(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scandir = os.scandir

    def refused(path: str) -> Any:
        if path.endswith("orders-v-2-0"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refused)
    directory = logdir.open(logs / "broker-1")
    assert found(directory) == [("__transaction_state", 0, 1)]
    (unreadable,) = directory.unreadable
    assert (unreadable.path, unreadable.reason) == (str(logs / "broker-1" / "orders-v-2-0"), "Permission denied")


def test_repr_of_a_partition_names_it(logs: Path) -> None:
    (partition,) = logdir.open(logs / "broker-1" / "orders-v-2-0").partitions
    assert repr(partition) == f"Partition(orders-v-2-0, 2 segments, {partition.path!r})"
