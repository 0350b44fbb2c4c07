"""Offsets that are missing in a log, a coordinator's or one of data: what a cleaner removed, and what is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.records import Batch, Record, build, read
from kafkawire.rows import Audit
from kafkawire.transactions import Settings
from kafkawire.transactions.coordinator.coordinator_copies import NOT_CLEANED
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


# Logs of data ------------------------------------------------------------------------------------------------------


def data_gaps(*directories: LogDirectory) -> list[str]:
    """The gaps in logs of data."""
    paths = [directory.write() for directory in directories]
    found = transactions.audit(logdir.open(*paths), Settings(transaction_state_partitions=1))
    assert found.read.complete == (not found.read.gaps)
    return [gap for gap in found.read.gaps if "orders" in gap]


@pytest.fixture
def orders(tmp_path: Path) -> LogDirectory:
    """A log without one batch, the only one of a transaction that may hang."""
    logs = LogDirectory(tmp_path / "logs", ids=1, compacted=False)
    logs.partition("orders").plain(records=3)
    logs.partition("orders").skip(2)
    logs.partition("orders").plain()
    return logs


def test_offsets_that_a_log_of_data_lost_are_a_gap_with_their_file(orders: LogDirectory) -> None:
    file = orders.root / f"orders-0/{0:020}.log"
    assert data_gaps(orders) == [f"{file}: offsets 3 to 4 are missing, where no cleaner has been ({CLEANED})"]
    orders.partition("orders").roll()
    orders.partition("orders").plain()
    assert len(data_gaps(orders)) == 1


def test_a_segment_that_ends_before_the_next_one_begins_is_a_gap(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=1, compacted=False)
    logs.partition("orders").plain(records=3)
    logs.partition("orders").skip(2)
    logs.partition("orders").roll()
    (gap,) = data_gaps(logs)  # the next one is empty
    assert "offsets 3 to 4 are missing" in gap
    logs.partition("orders").plain()
    assert data_gaps(logs) == [gap]


@pytest.mark.parametrize(("cleaned", "lost"), [(0, "3 to 4"), (3, "3 to 4"), (4, "4"), (5, None), (6, None)])
def test_what_a_cleaner_of_any_replica_has_come_across_is_no_gap(
    orders: LogDirectory, tmp_path: Path, cleaned: int, lost: str | None
) -> None:
    other = LogDirectory(tmp_path / "other", ids=1, compacted=False)
    other.partition("orders").plain()
    other.checkpoint(CLEANED, "orders", 0, cleaned)
    gaps = [gap for gap in data_gaps(orders, other) if "missing" in gap]
    assert [f"offset{'s' if 'to' in lost else ''} {lost} " in gap for gap in gaps] == [True] * bool(lost)


def test_batches_that_lack_records_show_that_a_cleaner_has_been_there(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=1, compacted=False)
    log = logs.partition("orders")
    log.skip(2)
    log.empty_marker(7)
    log.skip(3)
    log.segments[-1][1].extend(build([Record(key=b"k", value=b"v")], base_offset=log.end, last_offset=log.end + 4))
    log.skip(5)
    log.plain()
    assert data_gaps(logs) == []
    log.skip(1)
    log.plain()
    assert [gap for gap in data_gaps(logs) if "offset 12 is missing" in gap]


@pytest.mark.parametrize("magic", [0, 1])
def test_offsets_inside_an_old_compressed_batch_are_there(tmp_path: Path, magic: int) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=1, compacted=False)
    log = logs.partition("orders")
    for _ in range(2):
        records = [Record(key=b"k", value=b"v%d" % number) for number in range(4)]
        log.segments[-1][1].extend(build(records, base_offset=log.end, magic=magic, codec="gzip"))
        log.skip(4)
    assert data_gaps(logs) == []
    log.skip(1)
    log.plain()
    assert [gap for gap in data_gaps(logs) if "offset 8 is missing" in gap]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_cluster_whose_data_lacks_a_batch_was_not_read_whole(tmp_path: Path, jobs: int) -> None:
    root = cut(EXAMPLE, tmp_path / "cut", "orders-0", 3)
    found = transactions.audit(logdir.open(root), jobs=jobs)
    assert [gap for gap in found.read.gaps if "orders-0" in gap and NOT_CLEANED in gap]
    assert not found.read.complete
    assert not [gap for gap in audit(EXAMPLE).read.gaps if NOT_CLEANED in gap]
