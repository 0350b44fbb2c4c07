"""`kafkawire dump --decode`: keys and values that are messages."""

from __future__ import annotations

import cProfile
import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

import kafkawire
from kafkawire.messages import TransactionLogKey, TransactionLogValue
from kafkawire.records import Record, build, build_marker
from tests.cli.runner import Run
from tests.own_schemas import ORDER, ORDER_KEY, write
from tests.records.test_records_mirror_topics import CHECKPOINTS, checkpoint, records_of

BAD = b"\x00\x7fa"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Topics `orders` (version 1), `prefixed` (an int16 with the version in front), `plain`; schemas in `my`."""
    mine = kafkawire.load_schemas(write(tmp_path / "my", ORDER, ORDER_KEY))
    key = mine.OrderKey(number=7).encode(0)
    value = mine.OrderValue(customer="ann", amount=5)
    topics = {
        "orders": [
            Record(key=key, value=value.encode(1)),
            Record(key=key, value=None),
            Record(key=None, value=BAD),
            Record(key=b"\0", value=value.encode(1) + b"\0"),
        ],
        "prefixed": [
            Record(value=value.encode_prefixed(1)),
            Record(value=mine.OrderValue(customer="bob").encode_prefixed(0)),
            Record(value=b"\0\x09"),
            Record(value=b"\1"),
        ],
        "plain": [Record(value=b"text")],
    }
    for topic, records in topics.items():
        folder = tmp_path / "logs" / f"{topic}-0"
        folder.mkdir(parents=True)
        marker = build_marker("COMMIT", offset=9, timestamp=9, producer_id=7, producer_epoch=1, coordinator_epoch=3)
        (folder / f"{0:020}.log").write_bytes(build(records) + marker)
    return tmp_path / "logs"


def records(run: Run, logs: Path, *arguments: object) -> dict[str, list[dict[str, Any]]]:
    result = run("dump", logs, "--schemas", logs.parent / "my", *arguments)
    assert result.code == 0, result.err
    found: dict[str, list[dict[str, Any]]] = {}
    for row in map(json.loads, result.out.splitlines()):
        if row["kind"] == "record" and row["control"] is None:
            found.setdefault(row["topic"], []).append(row)
    return found


def test_decodes_keys_and_values_of_a_topic(run: Run, logs: Path) -> None:
    found = records(run, logs, "--decode", "orders=OrderValue@1", "--decode-key", "orders=OrderKey")
    first, tombstone, _, _ = found["orders"]
    assert first["decoded"] == {
        "key": {"name": "OrderKey", "version": 0, "data": {"number": 7}},
        "value": {"name": "OrderValue", "version": 1, "data": {"customer": "ann", "amount": 5}},
    }
    assert (tombstone["decoded"]["value"], tombstone["decoded"]["key"]["data"]) == (None, {"number": 7})
    assert [row["decoded"] for row in found["plain"]] == [None]
    assert found["plain"][0]["value"] == "text"


def test_values_that_do_not_decode_keep_their_bytes_with_the_reason(run: Run, logs: Path) -> None:
    _, _, bad, trailing = records(run, logs, "--decode", "orders=OrderValue@1")["orders"]
    assert bad["decoded"]["key"] is None
    assert bad["decoded"]["value"].items() >= {"name": "OrderValue", "version": 1, "data": None}.items()
    assert "at byte 0" in bad["decoded"]["value"]["problem"]
    assert (bad["value"], bad["value_base64"]) == ("\0\x7fa", None)
    assert "expected the end of the message, found 1 more byte" in trailing["decoded"]["value"]["problem"]


def test_reads_the_version_in_front_of_a_value(run: Run, logs: Path) -> None:
    found = records(run, logs, "--decode", "prefixed=OrderValue@prefix")["prefixed"]
    values = [row["decoded"]["value"] for row in found]
    assert [(value["version"], value["data"]) for value in values] == [
        (1, {"customer": "ann", "amount": 5}), (0, {"customer": "bob"}), (9, None), (None, None),
    ]  # fmt: skip
    assert "has no version 9" in values[2]["problem"]
    assert values[3]["problem"] == "no version at its beginning"


def test_kafkas_messages_are_there_without_schemas(run: Run, logs: Path) -> None:
    result = run("dump", logs / "plain-0", "--decode", "plain=AbortedTxn", "--format", "csv")
    assert result.code == 0, result.err
    (row,) = (row for row in csv.DictReader(io.StringIO(result.text)) if row["value"] == "text")
    assert json.loads(row["decoded"])["value"]["name"] == "AbortedTxn"


def test_a_message_with_the_name_of_kafkas_is_not_taken_for_it(run: Run, logs: Path) -> None:
    """Kafka's ConfigRecord has secrets, and its GroupMetadataValue has members."""
    for name in ("ConfigRecord", "GroupMetadataValue"):
        folder = write(logs.parent / name, ORDER_KEY | {"name": name})
        result = run("dump", logs / "orders-0", "--schemas", folder, "--decode-key", f"orders={name}")
        assert result.code == 0, result.err
        shown = [json.loads(line) for line in result.out.splitlines()]
        assert {"name": name, "version": 0, "data": {"number": 7}} in [
            row["decoded"]["key"] for row in shown if row.get("decoded")
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("orders", "'orders' is not TOPIC=MESSAGE"),
        ("=OrderValue", "is not TOPIC=MESSAGE"),
        ("orders=OrderVal@1", "--decode: no message is named 'OrderVal'; near: OrderValue"),
        ("order=OrderValue@1", "the paths hold no topic 'order'; near: orders"),
        ("orders=OrderValue", "OrderValue has the versions 0-1: give one of them, OrderValue@1, or OrderValue@prefix"),
        ("orders=OrderValue@2", "has the versions 0-1"),
        ("orders=OrderValue@", "has the versions 0-1"),
        ("orders=OrderKey@x", "has the versions 0"),
        ("__transaction_state=OrderKey", "__transaction_state has Kafka's own messages"),
    ],
)
def test_refuses_unknown_topics_messages_and_versions(run: Run, logs: Path, given: str, problem: str) -> None:
    result = run("dump", logs, "--schemas", logs.parent / "my", "--decode", given)
    assert result.code == 2
    assert problem in " ".join(result.err.split())


def test_refuses_two_messages_for_one_topic(run: Run, logs: Path) -> None:
    twice = ["--decode", "plain=AbortedTxn", "--decode", "plain=AbortedTxn"]
    refused = run("dump", logs, *twice)
    assert (refused.code, "plain is given twice" in refused.err) == (2, True)


# MirrorMaker ----------------------------------------------------------------------------------------------------------


def test_where_a_group_stands_on_a_mirror(run: Run, tmp_path: Path) -> None:
    """KAFKA-12468: the checkpoints of one group, by its name; rows are those of internal topics."""
    written = [checkpoint(group, 3, 4_700 + n, 12 + n) for n in range(2) for group in ("shipments", "billing")]
    path = records_of(tmp_path, CHECKPOINTS, written)
    result = run("dump", path, "--print-data-log", "--key", "shipments", "--format", "jsonl")
    assert result.code == 0
    found = [json.loads(line) for line in result.text.splitlines()]
    values = [one["decoded"]["value"]["data"] for one in found if one["kind"] == "record"]
    assert [one["downstreamOffset"] for one in values] == [12, 13]
    whole = run("dump", path, "--print-data-log", "--format", "json")
    assert whole.text.count('"MirrorCheckpointKey"') == 4


@pytest.mark.parametrize(
    "command", [("dump", "--print-data-log"), ("dump", "--print-data-log", "--key", "t7"), ("audit",)], ids=" ".join
)
def test_no_module_is_looked_up_for_each_record(command: tuple[str, ...], tmp_path: Path, run: Run) -> None:
    """The audit once asked for modules six times a transaction."""

    def lookups(count: int) -> int:
        folder = tmp_path / str(count) / "__transaction_state-0"
        folder.mkdir(parents=True)
        value = TransactionLogValue(producer_id=4001, producer_epoch=1, transaction_status=4).encode_prefixed(1)
        keys = [TransactionLogKey(transactional_id=f"t{number}").encode_prefixed(0) for number in range(count)]
        listed = [Record(key, value, timestamp=1_795_000_000_000) for key in keys]
        (folder / f"{0:020}.log").write_bytes(build(listed))
        profile = cProfile.Profile()
        profile.runcall(run, command[0], str(folder.parent), *command[1:])
        return sum(
            entry.callcount for entry in profile.getstats() if getattr(entry.code, "co_name", "") == "import_module"
        )

    lookups(1)  # modules of the first use
    assert lookups(400) <= lookups(40) + 5
