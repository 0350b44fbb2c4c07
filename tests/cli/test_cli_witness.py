"""The shipped example: two answers of a real broker were lost, and one batch was written twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkawire.witness import held_side
from tests import golden
from tests.cli.runner import Run
from tests.client.recorded import serving
from tools.recordings.archive import ROOT, unpacked

pytestmark = pytest.mark.slow

FILES = ("--captures", "docs/witness/clients.pcap", "--logs", "docs/witness/broker-1")
OTHER = ("--captures", "examples/capture/transactions.pcap", "--logs", "examples/kafka-logs/one-node/broker-1")


@pytest.fixture(autouse=True)
def _at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("format", ["table", "jsonl"])
def test_output(run: Run, format: str) -> None:
    ended = run("witness", *FILES, "--format", format)
    assert ended.code == 3
    golden.check(f"cli/witness.{format}.txt", ended.text, "example")


def test_the_batch_that_was_planted_is_the_anomaly(run: Run) -> None:
    (planted,) = [
        one
        for one in json.loads((ROOT / "examples" / "expected.json").read_text())["witness"]["lost_responses"]
        if not one["idempotent"]
    ]
    rows = lines(run("witness", *FILES, "--format", "jsonl").text)
    (anomaly,) = [row for row in rows if row["kind"] == "anomaly"]
    assert (anomaly["name"], anomaly["topic"], anomaly["partition"]) == ("held_twice", planted["topic"], 0)
    assert (anomaly["second_offset"], anomaly["acknowledged_offset"]) == (planted["record"], planted["record"] + 1)
    assert all(row["holds"] for row in rows if row["kind"] == "premise")


def test_logs_of_another_cluster_prove_nothing(run: Run) -> None:
    ended = run("witness", *OTHER, "--format", "jsonl")
    assert ended.code == 4
    rows = lines(ended.text)
    assert {(row["fate"], row["reason"]) for row in rows if row["kind"] == "fate"} == {("unknown", "no_copy")}
    assert [row["holds"] for row in rows if row.get("name") == "place"] == [False]
    assert "incomplete: " in ended.err


def test_anomalies_that_are_not_listed_are_counted(run: Run) -> None:
    rows = lines(run("witness", *FILES, "--format", "jsonl", "--max-anomalies", "0").text)
    assert rows[0]["anomalies"] == 1
    assert not [row for row in rows if row["kind"] == "anomaly"]


def test_a_report_and_a_parquet_file(run: Run, tmp_path: Path) -> None:
    page, table = tmp_path / "witness.html", tmp_path / "witness.parquet"
    ended = run("witness", *FILES, "--report", str(page), "-o", str(table))
    assert ended.code == 3
    assert "held twice" in page.read_text()
    found = pq.read_table(table).to_pylist()
    assert {row["kind"] for row in found} == {"witness", "fate", "premise", "anomaly"}
    (anomaly,) = (row for row in found if row["kind"] == "anomaly")
    assert (anomaly["name"], anomaly["topic"], anomaly["second_offset"]) == ("held_twice", "metrics", 6)


def counted(text: str) -> list[dict[str, Any]]:
    """The rows without paths and copies: a live cluster has one of each partition, and compaction is not known."""
    kinds = ("witness", "fate", "read", "ended", "commit", "anomaly", "transaction_anomaly", "commit_anomaly")
    left_out = ("log", "copies", "unseen")
    rows = [row for row in lines(text) if row["kind"] in kinds]
    return [{name: value for name, value in row.items() if name not in left_out} for row in rows]


@pytest.mark.parametrize("recorded", [None, "sound-4.4.0", "sound-2.8.2", "late-data-3.9.1"])
def test_a_live_cluster_says_what_its_disks_say(
    run: Run, monkeypatch: pytest.MonkeyPatch, recorded: str | None
) -> None:
    """A mock broker serves the logs, under ids of its own."""
    monkeypatch.setattr(held_side.Identity, "is_same", lambda *given: True)
    folder = ROOT / "docs" / "witness" if recorded is None else unpacked("group-deliveries") / recorded
    capture = folder / ("clients.pcap" if recorded is None else "clients.pcapng")
    held = folder / ("broker-1" if recorded is None else "node-1")
    disk = run("witness", "--captures", str(capture), "--logs", str(held), "--format", "jsonl")
    with serving(held) as broker:
        live = run("witness", "--captures", str(capture), "--bootstrap-server", broker.address, "--format", "jsonl")
    assert live.code == disk.code, live.err
    assert counted(live.text) == counted(disk.text)


def test_a_live_cluster_with_another_id_proves_nothing(run: Run) -> None:
    with serving(ROOT / "docs" / "witness" / "broker-1") as broker:
        ended = run("witness", *FILES[:2], "--bootstrap-server", broker.address, "--format", "jsonl")
    assert ended.code == 4
    rows = lines(ended.text)
    assert {(row["fate"], row["reason"]) for row in rows if row["kind"] == "fate"} == {("unknown", "no_copy")}
    assert [row["holds"] for row in rows if row.get("name") == "place"] == [False]


def test_a_cluster_that_cannot_be_reached(run: Run) -> None:
    ended = run("witness", *FILES[:2], "--bootstrap-server", "127.0.0.1:1")
    assert ended.code == 1
    assert "127.0.0.1:1" in ended.err


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--logs", "docs/witness/broker-1"), 2, "--captures"),
        (FILES[:2], 2, "--bootstrap-server"),
        ((*FILES, "--bootstrap-server", "localhost:9092"), 2, "--bootstrap-server"),
        ((*FILES[:2], "--bootstrap-server", "localhost:9092", "--tier-key", "key"), 2, "--tier-key"),
        ((*FILES, "--command-config", "ssl.properties"), 2, "--command-config"),
        (("--captures", "no.pcap", "--logs", "docs/witness/broker-1"), 1, "no.pcap: No such file"),
        (("--captures", "docs/witness/clients.pcap", "--logs", "no-such"), 1, "no-such"),
        (("--captures", "docs/witness/README.md", "--logs", "docs/witness/broker-1"), 1, "README.md"),
        ((*FILES, "-o", "docs/witness/clients.pcap"), 2, "clients.pcap"),
        ((*FILES, "--decode-as", "nonsense"), 2, "--decode-as"),
        ((*FILES, "--report", "docs/witness/clients.pcap"), 2, "--report"),
    ],
)
def test_errors(run: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    ended = run("witness", *arguments)
    assert ended.code == code
    assert words in ended.err
