"""Opening log directories: what is found, how it is named, and what a partition knows."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import crc32c
import pytest

from kafkawire import logdir, rows
from kafkawire.logdir.names import FileName, PartitionName, file_name, partition_name
from kafkawire.messages import AbortedTxn, TransactionLogKey, TransactionLogValue
from kafkawire.records import Batch, Damage, Header, Record, build, build_marker

NAME = "0" * 20


def write(path: Path, data: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Two brokers' log directories in one folder, with a name that could be a partition's."""
    orders = build(
        [Record(b"k", b"v", (Header("h", b"\xff"),), timestamp=1000), Record(b"\xfe", None, timestamp=1001)],
        producer_id=4001,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    abort = build_marker("ABORT", offset=2, timestamp=2000, producer_id=4001, producer_epoch=0, coordinator_epoch=7)
    state = build(
        [
            Record(
                TransactionLogKey(transactional_id="t").encode_prefixed(version=0),
                TransactionLogValue(producer_id=4001).encode_prefixed(version=1),
            ),
            Record(TransactionLogKey(transactional_id="gone").encode_prefixed(version=0), None),
        ]
    )
    producers = struct.pack(">i", 1) + struct.pack(">qhiqiqiq", 4001, 0, 1, 1, 1, 1001, -1, 0)
    root = tmp_path / "brokers-0"
    for broker in ("broker-1", "broker-2"):
        home = root / broker
        write(home / "meta.properties", f"#\nversion=1\nnode.id={broker[-1]}\ncluster.id=c\n")
        write(home / "replication-offset-checkpoint", "0\n2\norders-v-2 0 3\n__transaction_state 0 2\n")
        write(home / "log-start-offset-checkpoint", "0\n1\norders-v-2 0 1\n")
        write(home / ".lock", "")
        write(home / "orders-v-2-0" / f"{NAME}.log", orders + abort)
        aborted = AbortedTxn(producer_id=4001, first_offset=0, last_offset=2, last_stable_offset=3)
        write(home / "orders-v-2-0" / f"{NAME}.txnindex", aborted.encode_prefixed(version=0))
        write(home / "orders-v-2-0" / f"{NAME}.index", bytes(80))
        write(
            home / "orders-v-2-0" / "00000000000000000002.snapshot",
            struct.pack(">hI", 1, crc32c.crc32c(producers)) + producers,
        )
        write(home / "orders-v-2-0" / "00000000000000000003.log", build([Record(b"x")], base_offset=3))
        write(home / "orders-v-2-0" / "00000000000000000009.log.deleted", build([], base_offset=9, last_offset=9))
        write(home / "orders-v-2-0" / "leader-epoch-checkpoint", "0\n1\n0 0\n")
        write(home / "orders-v-2-0" / "partition.metadata", "version: 0\ntopic_id: abc\n")
        write(home / "orders-v-2-0" / "notes.txt", "mine")
        write(home / "__transaction_state-0" / f"{NAME}.log", state)
    return root


def test_names() -> None:
    assert partition_name("a-b-12") == PartitionName("a-b", 12, "")
    assert partition_name("t-0." + "a" * 32 + "-delete") == PartitionName("t", 0, "delete")
    assert [partition_name(n) for n in ("kafka-logs", "t", "-1", "t-", "t-1x", "t-٣")] == [None] * 6
    assert file_name(f"{NAME}.log") == FileName("log", 0, "")
    assert file_name("00000000000000000042.timeindex.swap") == FileName("timeindex", 42, "swap")
    assert file_name("00000000000000000042-0000000003.checkpoint") == FileName("kraft-snapshot", 42, "")
    assert file_name("replication-offset-checkpoint") == FileName("checkpoint", None, "")
    assert [file_name(n) for n in ("42.log", f"{NAME}.txt", "readme", f"{NAME}.log.bak")] == [None] * 4


def found(directory: logdir.LogDirectory) -> list[tuple[str, int, int | None]]:
    return [(p.topic, p.partition, p.broker.node_id) for p in directory.partitions]


BOTH = [("__transaction_state", 0), ("orders-v-2", 0)]


def test_a_folder_of_brokers(logs: Path) -> None:
    directory = logdir.open(logs)
    assert found(directory) == [(*names, broker) for broker in (1, 2) for names in BOTH]
    assert len(directory.files) == 28
    assert [Path(file.path).name for file in directory.unnamed] == ["notes.txt"] * 2
    assert {file.kind for file in directory.files} == {
        *("meta-properties", "checkpoint", "lock", "log", "txnindex", "index", "snapshot", "epochs"),
        *("partition-metadata", "unknown"),
    }
    assert [broker.properties["cluster.id"] for broker in directory.brokers] == ["c", "c"]


@pytest.mark.parametrize("ending", ["", "/"])
def test_one_broker(logs: Path, ending: str) -> None:
    directory = logdir.open(f"{logs}/broker-2{ending}")
    assert found(directory) == [(*names, 2) for names in BOTH]
    assert not any("//" in file.path for file in directory.files)


def test_one_partition(logs: Path) -> None:
    (partition,) = logdir.open(logs / "broker-1" / "orders-v-2-0").partitions
    assert (partition.topic, partition.partition, partition.broker.node_id) == ("orders-v-2", 0, 1)
    assert (partition.high_watermark, partition.log_start_offset) == (3, 1)


def test_the_current_directory(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(logs / "broker-1" / "orders-v-2-0")
    for path in (".", f"{NAME}.log", f"./{NAME}.log"):
        (partition,) = logdir.open(path).partitions
        assert (partition.topic, partition.high_watermark) == ("orders-v-2", 3)
    monkeypatch.chdir(logs / "broker-1")
    assert found(logdir.open(".")) == [(*names, 1) for names in BOTH]
    assert logdir.open("orders-v-2-0").partitions[0].high_watermark == 3


def test_one_file(logs: Path, tmp_path: Path) -> None:
    (file,) = logdir.open(logs / "broker-1" / "orders-v-2-0" / f"{NAME}.log").files
    assert (file.kind, file.topic, file.partition, file.offset) == ("log", "orders-v-2", 0, 0)
    (alone,) = logdir.open(write(tmp_path / "elsewhere" / f"{NAME}.log", build([Record()]))).files
    assert (alone.kind, alone.topic) == ("log", None)
    assert [type(item) for item in alone.batches()] == [Batch]


def test_several_paths_are_read_once(logs: Path) -> None:
    directory = logdir.open(logs / "broker-1", logs / "broker-1" / "orders-v-2-0")
    assert found(directory) == [(*names, 1) for names in BOTH]


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        logdir.open(tmp_path / "nothing")
    assert logdir.open(tmp_path).files == ()


def test_a_partition(logs: Path) -> None:
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


def test_a_partition_without_checkpoints(tmp_path: Path) -> None:
    write(tmp_path / "t-0" / "00000000000000000005.log", build([Record()], base_offset=5))
    (partition,) = logdir.open(tmp_path).partitions
    assert (partition.high_watermark, partition.log_start_offset, partition.broker.node_id) == (None, 5, None)
    assert partition.latest_snapshot() is None


# Rows ----------------------------------------------------------------------------------------------------------------


def all_rows(directory: logdir.LogDirectory, **options: Any) -> list[dict[str, Any]]:
    return [rows.to_dict(row) for file in directory.files for row in logdir.rows_of(file, logdir.Options(**options))]


def of_kind(found_rows: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in found_rows if row["kind"] == kind]


def test_rows_of_a_broker(logs: Path) -> None:
    found_rows = all_rows(logdir.open(logs / "broker-1"), deep=True, payloads=True)
    assert {row["kind"] for row in found_rows} == {
        *("batch", "record", "txnindex", "snapshot", "epoch", "checkpoint", "metadata"),
    }
    batch = of_kind(found_rows, "batch")[1]
    assert batch["file"].endswith(f"orders-v-2-0/{NAME}.log")
    del batch["file"], batch["crc"]
    assert batch == {
        "kind": "batch",
        "topic": "orders-v-2",
        "partition": 0,
        "position": 0,
        "base_offset": 0,
        "last_offset": 1,
        "records": 2,
        "magic": 2,
        "codec": "none",
        "size": 82,
        "timestamp": 1001,
        "timestamp_type": "CreateTime",
        "producer_id": 4001,
        "producer_epoch": 0,
        "sequence": 0,
        "last_sequence": 1,
        "leader_epoch": -1,
        "transactional": True,
        "control": None,
        "coordinator_epoch": None,
        "delete_horizon": None,
    }
    records = [row for row in of_kind(found_rows, "record") if row["topic"] == "orders-v-2"]
    assert [(r["offset"], r["control"], r["sequence"]) for r in records] == [
        (0, None, 0),
        (1, None, 1),
        (2, "ABORT", -1),
        (3, None, -1),
    ]
    assert (records[0]["key"], records[0]["value"], records[0]["decoded"]) == ("k", "v", None)
    assert records[0]["headers"] == ({"key": "h", "value": None, "value_base64": "/w=="},)
    assert (records[1]["key"], records[1]["key_base64"], records[1]["value"], records[1]["value_base64"]) == (
        *(None, "/g=="),
        *(None, None),
    )
    assert (records[1]["key_size"], records[1]["value_size"]) == (1, None)
    assert records[2]["coordinator_epoch"] == 7

    state, gone = (row["decoded"] for row in of_kind(found_rows, "record") if row["topic"] != "orders-v-2")
    assert state["key"] == {"name": "TransactionLogKey", "version": 0, "data": {"transactionalId": "t"}}
    assert (state["value"]["name"], state["value"]["version"]) == ("TransactionLogValue", 1)
    assert state["value"]["data"]["producerId"] == 4001
    assert gone["value"] is None

    (snapshot,) = of_kind(found_rows, "snapshot")
    assert (snapshot["offset"], snapshot["position"], snapshot["current_txn_first_offset"]) == (2, 10, 0)
    (aborted,) = of_kind(found_rows, "txnindex")
    assert (aborted["first_offset"], aborted["last_offset"], aborted["last_stable_offset"]) == (0, 2, 3)
    assert [(r["name"], r["topic"], r["offset"]) for r in of_kind(found_rows, "checkpoint")] == [
        ("log-start-offset-checkpoint", "orders-v-2", 1),
        ("replication-offset-checkpoint", "orders-v-2", 3),
        ("replication-offset-checkpoint", "__transaction_state", 2),
    ]
    assert ("topic_id", "abc") in [(r["name"], r["value"]) for r in of_kind(found_rows, "metadata")]


def test_shallow_rows_and_hidden_payloads(logs: Path) -> None:
    directory = logdir.open(logs / "broker-1" / "orders-v-2-0")
    assert of_kind(all_rows(directory), "record") == []
    assert {row["kind"] for file in directory.files for row in map(rows.to_dict, file)} >= {"batch", "epoch"}
    (first, *_) = of_kind(all_rows(directory, deep=True), "record")
    assert "key" not in first
    assert "decoded" not in first
    assert first["key_size"] == 1


def test_damage_becomes_rows(tmp_path: Path) -> None:
    good = build([Record(b"good")], base_offset=5)
    torn = bytearray(build([Record(b"x" * 100)] * 5, codec="lz4"))
    torn[61:70] = b"no frames"
    torn[17:21] = crc32c.crc32c(torn[21:]).to_bytes(4, "big")
    marker = bytearray(build([Record(b"\0\0\0\0", b"")], base_offset=6, control=True))
    marker[61] = 0x7E
    marker[17:21] = crc32c.crc32c(marker[21:]).to_bytes(4, "big")
    path = write(tmp_path / "t-0" / f"{NAME}.log", bytes(torn) + good + bytes(marker) + good[:-1])
    found_rows = all_rows(logdir.open(path), deep=True)
    assert [row["kind"] for row in found_rows] == ["batch", "damage", "batch", "record", "batch", "damage", "damage"]
    damage = of_kind(found_rows, "damage")
    assert [(d["reason"], d["position"], d["resumed_at"]) for d in damage] == [
        ("bad_records", 0, len(torn)),
        ("bad_records", len(torn) + len(good), len(torn) + len(good) + len(marker)),
        ("truncated", len(torn) + len(good) + len(marker), None),
    ]
    assert "records compressed with lz4" in damage[0]["detail"]
    assert found_rows[4]["control"] == "MALFORMED"


def test_offsets_that_go_back_are_told(tmp_path: Path) -> None:
    path = write(
        tmp_path / "t-0" / "00000000000000000005.log",
        build([Record()], base_offset=4) + build([Record()], base_offset=9) + build([Record()], base_offset=6),
    )
    (file,) = logdir.open(path).files
    items = list(file.batches())
    assert [getattr(item, "reason", "batch") for item in items] == [
        *("offset_backwards", "batch"),
        "batch",
        *("offset_backwards", "batch"),
    ]
    assert isinstance(items[3], Damage)
    assert items[3].detail == "base offset 6 where 10 or more should follow"


def test_too_large_a_small_file(tmp_path: Path) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    with path.open("wb") as file:
        file.truncate(1 << 40)  # sparse
    (damage,) = all_rows(logdir.open(path))
    assert (damage["kind"], damage["reason"]) == ("damage", "too_large")


@pytest.mark.parametrize("window", [1, 100, 4096])
def test_windows(tmp_path: Path, window: int) -> None:
    """However small the windows, the same batches."""
    from io import FileIO

    from kafkawire.records import read

    data = b"".join(build([Record(b"x" * 37 * i)], base_offset=i, codec="gzip") for i in range(40))
    path = write(tmp_path / "a.log", data[:300] + b"junk" + data[300:] + bytes(5000))
    with FileIO(str(path)) as file:
        whole = path.read_bytes()
        assert list(read(logdir.FileSource(file, window))) == list(read(whole))


def test_a_file_that_is_truncated_meanwhile(tmp_path: Path) -> None:
    one = build([Record(b"x" * 1000)])
    path = write(tmp_path / "t-0" / f"{NAME}.log", one * 10_000)  # several windows
    (file,) = logdir.open(path).files
    batches = file.batches()
    next(batches)
    with path.open("r+b") as shrinking:
        shrinking.truncate(len(one) + 100)
    rest = list(batches)
    assert isinstance(rest[-1], Damage)
    assert rest[-1].reason == "truncated"
