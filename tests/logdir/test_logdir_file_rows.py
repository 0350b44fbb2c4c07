"""The rows of all kinds of files, and of what cannot be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import crc32c

from kafkawire import logdir, rows
from kafkawire.records import Record, build
from tests.logdir.logged import NAME, all_rows, write


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


def test_only_indexes_have_a_sanity_check(logs: Path) -> None:
    found_rows = all_rows(logdir.open(logs / "broker-1"), indexes="sanity")
    assert {(row["kind"], row["check"]) for row in found_rows} == {("check", "sanity")}
    assert {Path(row["file"]).suffix for row in found_rows} <= {".index", ".timeindex", ".txnindex"}
