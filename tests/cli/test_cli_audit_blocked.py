"""What has held back readers for too long is found, whatever its verdict: headline, exit code, formats, report."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from kafkawire.cli import app
from tests.audit_logs import MINUTE, NOON, LogDirectory

PID = 1000
P = ("orders", 0)


def run(directory: LogDirectory, *options: str) -> Result:
    return CliRunner().invoke(app, ["audit", directory.write(), "--txn-partitions", "3", *options])


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    """A transaction that began 6 min ago, and may take 15."""
    directory = LogDirectory(tmp_path / "logs")
    directory.partition(*P).data(PID, at=NOON - 6 * MINUTE)
    directory.partition(*P).plain(at=NOON)
    directory.high_watermark(*P, 2)
    directory.id("pay", "Ongoing", PID, 0, P, at=NOON - 6 * MINUTE)
    directory.id("other", "CompleteCommit", 1, 5, at=NOON)
    return directory


@pytest.mark.parametrize(("options", "code"), [((), 3), (("--blocked-after", "6"), 0), (("--blocked-after", "0"), 3)])
def test_a_live_transaction_that_blocks_readers_for_longer_is_found(
    logs: LogDirectory, options: tuple[str, ...], code: int
) -> None:
    assert run(logs, "--format", "json", *options).exit_code == code


def test_the_headline_names_it_and_who_must_act_until_when(logs: LogDirectory) -> None:
    text = run(logs, "--format", "table").output
    assert "Found: 1 blocked, not hanging (yet).\n" in text
    assert (
        "  - orders-0, offset 0: since 2025-06-16 11:54:00 UTC, transactional id 'pay', Ongoing; waits for the "
        "producer of 'pay'; live until 2025-06-16 12:09:00 UTC\n"
    ) in text
    assert "orders-0, offset 0: not_hanging, live, blocked since 2025-06-16 11:54:00 UTC\n" in text
    assert "It waits for the producer of 'pay'; live until 2025-06-16 12:09:00 UTC.\n" in text
    assert "No transaction" not in text


def parsed(result: Result) -> Any:
    return json.loads(result.stdout)


def test_every_format_has_it(logs: LogDirectory) -> None:
    answer = parsed(run(logs, "--format", "json"))
    assert {key: answer["outcome"][key] for key in ("found", "hanging", "stuck", "blocked", "complete")} == {
        "found": True, "hanging": 0, "stuck": 0, "blocked": 1, "complete": True,
    }  # fmt: skip
    expected = {"attention": "blocked", "blocked_since": NOON - 6 * MINUTE, "blocked_until": NOON + 9 * MINUTE}
    lines = [json.loads(line) for line in run(logs, "--format", "jsonl").stdout.splitlines()]
    (listed,) = csv.DictReader(io.StringIO(run(logs, "--format", "csv").stdout))
    for finding in (answer["findings"][0], next(line for line in lines if line["kind"] == "finding")):
        assert {key: finding[key] for key in expected} == expected
        assert [premise["holds"] for premise in finding["premises"]] == [True] * len(finding["premises"])
    assert {key: listed[key] for key in expected} == {key: str(value) for key, value in expected.items()}


def test_the_report_shows_it_on_the_first_screen_and_in_a_section(logs: LogDirectory, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    run(logs, "--report", str(page))
    text = page.read_text("utf-8")
    assert "<h1>No hanging transaction, but 1 blocked one</h1>" in text
    assert "What the verdict rests on" in text
    assert "2025-06-16 11:54:00 UTC at the latest" in text


def test_a_clients_stamp_is_no_evidence_of_how_long_readers_wait(logs: LogDirectory) -> None:
    """The marker behind the batch is."""
    orders = logs.partition("payments")
    orders.data(77, at=NOON - 60 * MINUTE)
    orders.marker("COMMIT", 78, at=NOON - MINUTE)
    logs.partitions.pop(("__transaction_state", 1))
    answer = parsed(run(logs, "--format", "json"))
    (finding,) = [one for one in answer["findings"] if one["topic"] == "payments"]
    assert (finding["verdict"], finding["attention"]) == ("unknown", None)
    assert finding["blocked_since"] == NOON - MINUTE


def test_an_unknown_transaction_that_blocks_for_longer_is_found_and_incomplete(logs: LogDirectory) -> None:
    orders = logs.partition("payments")
    orders.data(77, at=NOON)
    orders.marker("COMMIT", 78, at=NOON - 30 * MINUTE)
    logs.partitions.pop(("__transaction_state", 1))
    result = run(logs, "--format", "table")
    assert result.exit_code == 5
    assert "payments-0, offset 0: unknown, coverage_incomplete, blocked since 2025-06-16 11:30:00 UTC" in result.output
