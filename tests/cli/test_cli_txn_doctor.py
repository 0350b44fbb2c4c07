"""`kafkawire txn doctor` against a mock broker: its output, its exit codes, and what rights hide."""

from __future__ import annotations

import json

from kafkawire.testing import MockBroker
from tests.cli.runner import Run
from tests.client.doctor_script import answering


def test_command_prints_risks_and_what_is_hidden(run: Run) -> None:
    with MockBroker({"orders": 2}) as broker:
        answering(broker, {"transaction.partition.verification.enable": "false"})
        done = run("txn", "doctor", "--bootstrap-server", broker.address, "--format", "table")
        assert done.code == 5
        assert "1 broker, 2 partitions" in done.text
        assert "broker 1: transaction.partition.verification.enable is false (verification_off)" in done.text
        assert "(KIP-890)" in done.text
        assert "quorum of the controllers: " in done.text
        assert "the principal needs Describe on the cluster" in done.text
        found = json.loads(run("txn", "doctor", "--bootstrap-server", broker.address, "--format", "json").text)
        assert [one["check"] for one in found["risks"]] == ["verification_off"]
        assert found["outcome"]["complete"] is False
        lines = run("txn", "doctor", "--bootstrap-server", broker.address, "--format", "jsonl").text.splitlines()
        assert [json.loads(line)["kind"] for line in lines] == ["risk", "outcome"]


def test_without_rights_each_missing_one_is_named(run: Run) -> None:
    with MockBroker({"orders": 1}) as broker:
        answering(broker, {}, denied=True)
        done = run("txn", "doctor", "--bootstrap-server", broker.address, "--format", "json")
    found = json.loads(done.text)
    assert done.code == 4
    assert done.err.startswith("incomplete: settings of broker 1: ")
    assert found["risks"] == []
    assert "verification_off" not in found["checks"]
    assert any("DescribeConfigs on the cluster" in one for one in found["hidden"])
    assert any(one.startswith("log directories of broker 1: ") for one in found["hidden"])
