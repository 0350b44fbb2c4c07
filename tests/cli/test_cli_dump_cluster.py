"""`kafkawire dump --bootstrap-server`: the rows of the disks, from a mock broker that serves them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkawire.client.diagnosis import live_log
from kafkawire.messages import FetchRequest
from kafkawire.records import Record
from kafkawire.testing import MockBroker
from tests.cli.runner import Run
from tests.client.recorded import denied, leaders, serving
from tests.consumed import LEVELS, REPLICAS, Replicas
from tests.docs.guide import ROOT
from tools.recordings.archive import unpacked

RECORDED = {
    "hanging-transactions": lambda: unpacked("hanging-transactions"),
    "kafka-3.9.1": lambda: unpacked("kafka-3.9.1") / "data",
    "three-nodes": lambda: ROOT / "examples" / "kafka-logs" / "three-nodes",
}
OPTIONS = [
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--transaction"),
    ("--skip-record-metadata",),
    ("--offset", "2..40", "--deep-iteration"),
    ("--no-control", "--deep-iteration"),
]


def listed(text: str, starts: dict[tuple[str, int], int] | None = None) -> list[dict[str, Any]]:
    """The rows of segments, without their place in a file; `starts`: not those below the log start offsets."""
    found = []
    for line in text.splitlines():
        row = json.loads(line)
        place = row["topic"], row["partition"]
        if row["kind"] in ("batch", "record") and row.get("offset", row.get("last_offset")) >= (starts or {}).get(
            place, 0
        ):
            found.append({name: value for name, value in row.items() if name not in ("file", "position")})
    return sorted(found, key=lambda row: (row["topic"], row["partition"]))


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_rows_are_those_of_the_disks(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original = live_log.pieces  # pieces of a few batches
    monkeypatch.setattr(live_log, "pieces", lambda *given, **named: original(*given, **named, most=300))
    path = RECORDED[name]()
    chosen = leaders(path)
    starts = {(one.topic, one.partition): one.log_start_offset or 0 for one in chosen}
    with serving(path) as broker:
        for options in OPTIONS:
            live = run("dump", "--bootstrap-server", broker.address, *options)
            disk = run("dump", *(one.path for one in chosen), *options)
            assert live.code == 0, live.err
            assert listed(live.text) == listed(disk.text, starts), options


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("replicas", REPLICAS, ids=str)
def test_records_are_those_of_a_java_consumer(run: Run, replicas: Replicas, level: str) -> None:
    with serving(replicas.path) as broker:
        for topic, expected in replicas.records(level).items():
            options = ("--topic", topic, "--print-data-log", "--isolation-level", level)
            live = run("dump", "--bootstrap-server", broker.address, *options)
            found = [json.loads(line) for line in live.text.splitlines()]
            assert [[row["offset"], row["key"], row["value"]] for row in found if row["kind"] == "record"] == expected


@pytest.fixture
def broker() -> Any:
    with MockBroker({"orders": 2, "payments": 1}) as made:
        for at in range(10):
            made.append("orders", at % 2, [Record(b"k%d" % at, b"v%d" % at, timestamp=1_750_000_000_000 + at)])
        yield made


@pytest.mark.parametrize("format", ["table", "csv", "json", "jsonl"])
def test_formats(run: Run, broker: MockBroker, format: str) -> None:
    options = ("--topic", "orders", "--partition", "1", "--print-data-log", "--format", format)
    done = run("dump", "--bootstrap-server", broker.address, *options)
    assert done.code == 0, done.err
    assert [f"v{at}" in done.text for at in range(10)] == [at % 2 == 1 for at in range(10)]


def test_parquet(run: Run, broker: MockBroker, tmp_path: Any) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "orders.parquet"
    assert run("dump", "--bootstrap-server", broker.address, "--print-data-log", "-o", str(path)).code == 0
    values = [row["value"] for row in pq.read_table(path).to_pylist() if row["kind"] == "record"]
    assert sorted(values) == [f"v{at}" for at in range(10)]


def test_positions_count_from_the_first_byte(run: Run, broker: MockBroker) -> None:
    done = run("dump", "--bootstrap-server", broker.address, "--topic", "orders", "--partition", "0")
    rows = [json.loads(line) for line in done.text.splitlines()]
    sizes = [row["size"] for row in rows]
    assert [row["position"] for row in rows] == [sum(sizes[:at]) for at in range(len(sizes))]
    assert {row["file"] for row in rows} == {f"{broker.address}/orders-0"}


def test_what_cannot_be_read_has_a_row_and_exit_code_4(run: Run, broker: MockBroker) -> None:
    broker.answer(FetchRequest, denied)
    done = run("dump", "--bootstrap-server", broker.address, "--topic", "orders")
    assert done.code == 4
    (damage,) = [row for row in map(json.loads, done.text.splitlines()) if row["kind"] == "damage"]
    assert (damage["topic"], damage["partition"], damage["reason"]) == ("orders", 0, "unreadable")
    assert "the principal needs Read on topic orders" in damage["detail"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("--topic", "order"), 1, "--topic: there is no topic 'order'"),
        (("--topic", "orders", "--partition", "7"), 1, "--partition: no topic has a partition 7"),
        (("--stats",), 2, "--stats needs log directories"),
        (("--max-bytes", "5"), 2, "--max-bytes needs log directories"),
        (("--verify-index-only",), 2, "--verify-index-only needs log directories"),
        ((".",), 2, "give log directories (PATH...), or a cluster"),
        (("--files", "a"), 2, "--files needs log directories"),
    ],
)
def test_what_has_no_effect_is_refused(
    run: Run, broker: MockBroker, arguments: tuple[str, ...], code: int, text: str
) -> None:
    done = run("dump", "--bootstrap-server", broker.address, *arguments)
    assert (done.code, text in done.err.replace("\n", " ")) == (code, True), done.err


def test_options_of_clusters_are_refused_for_files(run: Run) -> None:
    done = run("dump", ".", "--topic", "orders")
    assert done.code == 2
    assert "--topic needs --bootstrap-server" in done.err


def test_no_broker_is_one_line(run: Run) -> None:
    with MockBroker() as broker:
        address = broker.address
    done = run("dump", "--bootstrap-server", address)
    assert (done.code, done.text) == (1, "")
    assert "connection refused" in done.err
