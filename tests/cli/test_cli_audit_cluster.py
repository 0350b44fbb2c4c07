"""`kafkawire audit --bootstrap-server` against a mock broker with recorded logs: output, exit codes, usage errors."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkawire.testing import MockBroker
from tests.audit_logs import LogDirectory
from tests.cli.runner import Run
from tests.client.recorded import serving
from tools.recordings.archive import unpacked

MINUTE_MS = 60_000


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


@pytest.fixture
def blocked(tmp_path: Path) -> Iterator[MockBroker]:
    """A transaction that began ten minutes ago holds orders-0 back; its producer has five more."""
    began = int(time.time() * 1000) - 10 * MINUTE_MS
    directory = LogDirectory(tmp_path / "logs")
    directory.partition("orders").data(7, at=began)
    directory.high_watermark("orders", 0, 1)
    directory.id("pay", "Ongoing", 7, 0, ("orders", 0), at=began)
    with serving(Path(directory.write())) as broker:
        yield broker


@pytest.mark.slow
@pytest.mark.parametrize(("after", "code"), [((), 3), (("--blocked-after", "9"), 3), (("--blocked-after", "11"), 0)])
def test_what_blocks_readers_for_longer_is_found(
    run: Run, blocked: MockBroker, after: tuple[str, ...], code: int
) -> None:
    options = ("--bootstrap-server", blocked.address, "--since", 0, "--confirm-after", 0, *after)
    done = run("audit", *options, "--format", "json")
    assert done.code == code, done.err
    answer = json.loads(done.text)
    (finding,) = answer["findings"]
    needs = "blocked" if code else None
    assert (finding["verdict"], finding["reason"], finding["attention"]) == ("not_hanging", "live", needs)
    assert finding["blocked_until"] - finding["blocked_since"] == 15 * MINUTE_MS
    assert (answer["outcome"]["blocked"], answer["outcome"]["complete"]) == (int(code == 3), True)


@pytest.mark.slow
def test_the_headline_names_what_blocks_readers(run: Run, blocked: MockBroker) -> None:
    options = ("--bootstrap-server", blocked.address, "--since", 0, "--confirm-after", 0, "--format", "table")
    done = run("audit", *options)
    assert done.code == 3
    assert "Found: 1 blocked, not hanging (yet)." in done.text
    assert "  - orders-0, offset 0: since 20" in done.text
    assert "transactional id 'pay', Ongoing; waits for the producer of 'pay'; live until 20" in done.text
    assert "No transaction" not in done.text


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
        (("--bootstrap-server", "h:1", "--engine", "spark", "--save", "lake"), "--save needs log directories"),
        (("--bootstrap-server", "h:1", "--since", "17"), "of seconds, multiply by 1000"),
    ],
)
def test_refuses_options_that_do_not_go_together(run: Run, arguments: tuple[str, ...], reason: str) -> None:
    done = run("audit", *arguments)
    assert done.code == 2
    assert reason in " ".join(done.err.split())
