"""The shipped example: two answers of a real broker were lost, and one batch was written twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import golden
from tests.cli.runner import Run
from tools.recordings.archive import ROOT

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


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("--logs", "docs/witness/broker-1"), 2, "--captures"),
        (("--captures", "no.pcap", "--logs", "docs/witness/broker-1"), 1, "no.pcap: No such file"),
        (("--captures", "docs/witness/clients.pcap", "--logs", "no-such"), 1, "no-such"),
        (("--captures", "docs/witness/README.md", "--logs", "docs/witness/broker-1"), 1, "README.md"),
        ((*FILES, "-o", "docs/witness/clients.pcap"), 2, "clients.pcap"),
        ((*FILES, "--decode-as", "nonsense"), 2, "--decode-as"),
    ],
)
def test_errors(run: Run, arguments: tuple[str, ...], code: int, words: str) -> None:
    ended = run("witness", *arguments)
    assert ended.code == code
    assert words in ended.err
