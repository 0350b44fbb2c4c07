"""`kafkawire audit --bootstrap-server` against a mock broker with recorded logs: output, exit codes, usage errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkawire.testing import MockBroker
from tests.cli.runner import Run
from tests.client.recorded import serving
from tools.recordings.archive import unpacked


@pytest.mark.slow
def test_audits_a_cluster(run: Run, tmp_path: Path) -> None:
    truth = json.loads((unpacked("hanging-transactions") / "truth.json").read_text("utf-8"))
    page = tmp_path / "page.html"
    with serving(unpacked("hanging-transactions")) as broker:
        address = broker.address
        options = ["--bootstrap-server", address, "--since", 0, "--confirm-after", 0, "--as-of", truth["later"]]
        done = run("audit", *options, "--format", "json", "--report", page)
    assert done.code == 3
    assert "note: reads 29 of 32 partitions and __transaction_state: 250 offsets" in done.err
    assert "4 side by side, at most 10.0 MB a second" in done.err
    found = json.loads(done.text)
    assert len(found["findings"]) == len(truth["open"])
    assert found["read"]["paths"] == [address]
    assert "hanging" in page.read_text("utf-8")


def test_an_empty_cluster_is_clear(run: Run) -> None:
    with MockBroker({"orders": 1}) as broker:
        done = run("audit", "--bootstrap-server", broker.address, "--format", "table", "--throttle", 1000)
    assert "at most 1,000 bytes a second" in done.err
    assert "No transaction is open." in done.text
    assert done.code == 0, done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give log directories (PATH...), or a cluster (--bootstrap-server)"),
        (("logs", "--bootstrap-server", "h:1"), "give log directories (PATH...), or a cluster (--bootstrap-server)"),
        (("logs", "--since", "0"), "--since needs --bootstrap-server"),
        (("logs", "--resume", "file"), "--resume needs --bootstrap-server"),
        (("logs", "--topic", "orders"), "--topic needs --bootstrap-server"),
        (("logs", "--command-config", "f"), "--command-config needs --bootstrap-server"),
        (("--bootstrap-server", "h:1", "--jobs", "2"), "--jobs needs log directories"),
        (("--bootstrap-server", "h:1", "--engine", "spark", "--resume", "file"), "--resume needs --engine local"),
        (("--bootstrap-server", "h:1", "--engine", "spark", "--save", "lake"), "--save and --save-as-table need log"),
        (("--bootstrap-server", "h:1", "--since", "17"), "of seconds, multiply by 1000"),
    ],
)
def test_refuses_options_that_do_not_go_together(run: Run, arguments: tuple[str, ...], reason: str) -> None:
    done = run("audit", *arguments)
    assert done.code == 2
    assert reason in " ".join(done.err.split())
