"""Offsets that are missing in a coordinator's log: what its cleaner removed, and what is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.records import Batch, read
from kafkawire.rows import Audit
from kafkawire.transactions import Settings
from tests.audit_logs import HOUR, NOON, LogDirectory

EXAMPLE = Path("examples/kafka-logs/three-nodes")
CLEANED = "cleaner-offset-checkpoint"
STATE = "__transaction_state"


def cut(source: Path, to: Path, partition: str, batch: int) -> Path:
    """A cluster in which every replica of a partition lacks a batch."""
    shutil.copytree(source, to)
    for path in to.glob(f"*/{partition}/*.log"):
        data = path.read_bytes()
        lost = [one for one in read(data) if isinstance(one, Batch)][batch]
        path.write_bytes(data[: lost.position] + data[lost.position + lost.size :])
    return to


def audit(*paths: Path | str) -> Audit:
    return transactions.audit(logdir.open(*paths))


def verdicts(found: Audit) -> dict[tuple[str, int, int | None], str]:
    return {(one.topic, one.partition, one.start_offset): one.verdict for one in found.findings}


@pytest.mark.parametrize("partition", range(4))
def test_no_batch_that_a_coordinators_log_lost_makes_a_transaction_hang(tmp_path: Path, partition: int) -> None:
    """Each batch but the last in turn: that is where the log ends, and checkpoints have more."""
    whole = audit(EXAMPLE)
    held = {place for place, verdict in verdicts(whole).items() if verdict != "hanging"}
    log = EXAMPLE / f"broker-1/{STATE}-{partition}/{0:020}.log"
    batches = [one for one in read(log.read_bytes()) if isinstance(one, Batch)]
    for number, lost in enumerate(batches[:-1]):
        root = cut(EXAMPLE, tmp_path / str(number), f"{STATE}-{partition}", number)
        found = audit(root)
        assert not [place for place in held if verdicts(found)[place] == "hanging"]
        assert verdicts(found)["orders", 0, 11] == "unknown"  # its id could be anywhere
        last = lost.last_offset
        offsets = f"offset {last} is" if lost.base_offset == last else f"offsets {lost.base_offset} to {last} are"
        file = root / f"broker-3/{STATE}-{partition}/{0:020}.log"
        assert f"{file}: {offsets} missing, where no cleaner has been ({CLEANED})" in found.read.gaps
        assert not found.read.complete
        assert "REACH" in {one.name.upper() for one in found.read.premises if not one.holds}


def test_a_live_transaction_whose_record_is_lost_is_unknown(tmp_path: Path) -> None:
    root = cut(EXAMPLE, tmp_path / "cut", f"{STATE}-3", 3)
    found = {(one.topic, one.partition, one.start_offset): one for one in audit(root).findings}
    one = found["orders", 2, 0]
    (doubt,) = [premise for premise in one.premises if premise.name == "soundness" and not premise.holds]
    assert (one.verdict, one.reason) == ("unknown", "coverage_incomplete")
    assert doubt.what.startswith(f"Of {STATE}-3 offset 3 is missing, where no cleaner has been")
    assert doubt.source == f"{root}/broker-3/{STATE}-3/{0:020}.log: offset 3"
    # The ids of these have newer records in that log, or are in other partitions.
    assert found["payments", 0, 20].verdict == "hanging"


@pytest.fixture
def logs(tmp_path: Path) -> LogDirectory:
    """A transaction that hangs, whose id's log lacks the offset before its last record."""
    logs = LogDirectory(tmp_path / "logs", ids=1, compacted=False)
    logs.partition("orders").data(1, at=NOON - 3 * HOUR)
    logs.id("pay", "CompleteCommit", 1, 1, at=NOON)
    logs.partition(STATE).skip(1)
    logs.id("other", "CompleteCommit", 2, 1, at=NOON)
    return logs


def verdict(*directories: LogDirectory) -> str:
    paths = [directory.write() for directory in directories]
    found = transactions.audit(logdir.open(*paths), Settings(transaction_state_partitions=1))
    (finding,) = found.findings
    assert (finding.verdict == "unknown") == any(f"missing, where no cleaner has been ({CLEANED})" in gap
                                                 for gap in found.read.gaps)  # fmt: skip
    return finding.verdict


@pytest.mark.parametrize(
    ("checkpoint", "expected"),
    [
        (None, "unknown"),  # never in the active segment
        ("", "unknown"),
        ("0\n0\n", "unknown"),
        (f"0\n1\n{STATE} 0 1\n", "unknown"),
        (f"0\n1\n{STATE} 0 2\n", "hanging"),
        (f"0\n1\n{STATE} 1 2\n", "unknown"),
    ],
)
def test_what_the_cleaner_has_come_across_is_not_lost(
    logs: LogDirectory, checkpoint: str | None, expected: str
) -> None:
    if checkpoint is not None:
        logs.root.mkdir()
        (logs.root / CLEANED).write_text(checkpoint)
    assert verdict(logs) == expected


@pytest.mark.parametrize(
    ("checkpoint", "expected"), [(None, "hanging"), ("no checkpoint\n", "hanging"), ("", "unknown")]
)
def test_without_a_checkpoint_older_segments_may_have_been_cleaned(
    logs: LogDirectory, checkpoint: str | None, expected: str
) -> None:
    logs.partition(STATE).roll()
    logs.id("other", "CompleteCommit", 2, 2, at=NOON)
    if checkpoint is not None:
        logs.root.mkdir()
        (logs.root / CLEANED).write_text(checkpoint)
    assert verdict(logs) == expected


def test_the_cleaner_of_another_replica_explains_what_is_missing(logs: LogDirectory, tmp_path: Path) -> None:
    """A replica that was made anew has the log as its leader's cleaner left it."""
    other = LogDirectory(tmp_path / "other", ids=1, compacted=False)
    other.partitions[STATE, 0].segments = logs.partition(STATE).segments
    other.partitions[STATE, 0].end = logs.partition(STATE).end
    assert verdict(logs, other) == "unknown"
    other.checkpoint(CLEANED, STATE, 0, 2)
    assert verdict(logs, other) == "hanging"


def test_what_is_missing_before_an_ids_newest_record_changes_no_verdict_on_it(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=1, compacted=False)
    logs.partition("orders").data(1, at=NOON - 3 * HOUR)
    logs.partition("orders").data(7, at=NOON - 3 * HOUR)
    logs.partition(STATE).skip(1)
    logs.id("pay", "CompleteCommit", 1, 1, at=NOON)
    found = transactions.audit(logdir.open(logs.write()), Settings(transaction_state_partitions=1))
    assert {one.producer_id: one.verdict for one in found.findings} == {1: "hanging", 7: "unknown"}
    assert found.read.gaps == (
        f"{logs.root}/{STATE}-0/{0:020}.log: offset 0 is missing, where no cleaner has been ({CLEANED})",
    )
