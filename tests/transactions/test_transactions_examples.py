"""The example log directories, which real brokers wrote, compared with the answers of those brokers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir, transactions
from kafkawire.transactions import Settings

EXAMPLES = Path(__file__).parents[2] / "examples"
EXPECTED: dict[str, Any] = json.loads((EXAMPLES / "expected.json").read_text("utf-8"))["kafka-logs"]

#: What the brokers named as well as we do. Kafka's -1 for "no marker yet" is None here.
FIELDS = (
    "verdict", "reason", "blocked", "topic", "partition", "producer_id", "producer_epoch", "start_offset",
    "last_timestamp", "coordinator_epoch", "transactional_id", "coordinator_state",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_open_transaction_gets_its_verdict(name: str) -> None:
    truth = EXPECTED[name]
    path = str(EXAMPLES / "kafka-logs" / name)
    audit = transactions.audit(logdir.open(path), Settings(as_of=truth["asked_at"]))
    found = [
        {field: getattr(finding, field) for field in FIELDS}
        | {"coordinator_epoch": -1 if finding.coordinator_epoch is None else finding.coordinator_epoch}
        for finding in audit.findings
    ]
    expected = [{field: open_[field] for field in FIELDS} for open_ in truth["open"]]

    def place(row: dict[str, Any]) -> tuple[str, int, int]:
        return row["topic"], row["partition"], row["start_offset"]

    assert sorted(found, key=place) == sorted(expected, key=place)
    assert audit.read.complete
    assert audit.damage == ()


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_offsets_are_those_that_the_brokers_named(name: str) -> None:
    audit = transactions.audit(logdir.open(str(EXAMPLES / "kafka-logs" / name)))
    truth = {(row["topic"], row["partition"]): row for row in EXPECTED[name]["offsets"]}
    assert audit.findings
    for finding in audit.findings:
        row = truth[finding.topic, finding.partition]
        assert finding.last_stable_offset == row["last_stable_offset"]
        assert finding.high_watermark == row["high_watermark"]


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_without_the_coordinators_log_everything_old_is_unknown(name: str) -> None:
    directories = sorted({path.parent for path in (EXAMPLES / "kafka-logs" / name).rglob("*.log")})
    paths = [str(path) for path in directories if not path.name.startswith("__")]
    audit = transactions.audit(logdir.open(*paths), Settings(as_of=EXPECTED[name]["asked_at"]))
    assert {finding.verdict for finding in audit.findings} == {"unknown"}
    assert len(audit.findings) == len(EXPECTED[name]["open"])
    assert not audit.read.complete
