"""How transactions ended, from small logs: what is missing or damaged, and what a cleaner explains."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafkawire import logdir
from kafkawire.logdir import OutcomesByFile, Partition, outcomes_of
from kafkawire.logdir.transaction_states import STATES
from kafkawire.messages import AbortedTxn
from kafkawire.records import Batch, Record, build
from tests.audit_logs import PartitionLog
from tests.logdir.test_logdir_transaction_states import data_of, marker
from tests.transactions.schedules import Schedule, naive_state


def states(partition: Partition) -> dict[int, str]:
    outcomes = outcomes_of(partition)
    batches = (item for item in partition if isinstance(item, Batch))
    return {batch.base_offset: STATES[outcomes.state(batch)] for batch in batches}


def log_directory(root: Path, segments: dict[int, bytes], high_watermark: int | None = None) -> Partition:
    folder = root / "orders-0"
    folder.mkdir(exist_ok=True)
    for base, data in segments.items():
        (folder / f"{base:020}.log").write_bytes(data)
    if high_watermark is not None:
        (root / "replication-offset-checkpoint").write_text(f"0\n1\norders 0 {high_watermark}\n")
    (partition,) = logdir.open(root).partitions
    return partition


def test_a_transaction_from_before_the_first_segment_ends_as_its_marker_says(tmp_path: Path) -> None:
    partition = log_directory(tmp_path, {5: data_of(5) + marker("ABORT", 6) + data_of(7, 2) + marker("COMMIT", 8, 2)})
    assert states(partition) == {5: "aborted", 6: "aborted", 7: "committed", 8: "committed"}


def test_a_ghost_in_the_snapshot_holds_consumers_at_the_log_start(tmp_path: Path) -> None:
    """As in a broker: the last stable offset is not below the log start."""
    partition = log_directory(tmp_path, {5: data_of(5) + marker("COMMIT", 6)})
    assert outcomes_of(partition).last_stable_offset == 7
    ghost = naive_state([truth.append for truth in _ghost().batches])
    PartitionLog(tmp_path / "orders-0").snapshot(*ghost, offset=7)
    (partition,) = logdir.open(tmp_path).partitions
    assert outcomes_of(partition).last_stable_offset == 5
    assert states(partition) == {5: "committed", 6: "committed"}


def test_a_missing_segment_of_a_compacted_log_hides_outcomes(tmp_path: Path) -> None:
    """Compaction leaves gaps, and no marker in one; between segments, a whole one may be missing."""
    thin = build([Record(b"k")], base_offset=2, last_offset=5)
    parts = {0: data_of(0), 1: marker("ABORT", 1) + thin, 6: data_of(6) + marker("COMMIT", 7)}
    assert set(states(log_directory(tmp_path, parts)).values()) == {"aborted", "none", "committed"}
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    (tmp_path / "orders-0" / f"{1:020}.log").unlink()
    (partition,) = logdir.open(tmp_path).partitions
    assert states(partition) == {0: "unknown", 6: "committed", 7: "committed"}
    assert outcomes_of(partition).why(0) == "offsets 1 to 5 are missing"


@pytest.mark.parametrize(
    ("checkpoint", "state", "stable"),
    [
        ("0\n1\norders 0 2\n", "committed", (4, 4)),  # the cleaner has been there
        ("0\n1\norders 0 1\n", "unknown", (1, 4)),
        ("0\n1\nother 0 2\n", "unknown", (1, 4)),  # a partition that it does not name was never cleaned
        (None, "unknown", (1, 4)),  # nothing shows a cleaner
    ],
)
def test_offsets_that_are_missing_where_no_cleaner_has_been_are_lost(
    tmp_path: Path, checkpoint: str | None, state: str, stable: tuple[int, int]
) -> None:
    root = log_directory(tmp_path, {0: data_of(0) + data_of(2) + marker("COMMIT", 3)})
    if checkpoint is not None:
        (tmp_path / "cleaner-offset-checkpoint").write_text(checkpoint)
    (partition,) = logdir.open(tmp_path).partitions
    assert states(root) == {0: state, 2: "committed", 3: "committed"}
    found = outcomes_of(partition)
    assert (found.last_stable_offset, found.last_stable_at_most) == stable


def test_without_a_checkpoint_the_active_segment_was_not_cleaned(tmp_path: Path) -> None:
    thin = build([Record(b"k")], base_offset=1, last_offset=3)
    parts = {0: data_of(0) + thin + data_of(5) + marker("COMMIT", 6), 7: data_of(7) + data_of(9) + marker("COMMIT", 10)}
    found = states(log_directory(tmp_path, parts))
    assert found == {
        0: "committed",
        1: "none",
        5: "committed",
        6: "committed",
        7: "unknown",
        9: "committed",
        10: "committed",
    }


def _ghost() -> Schedule:
    """Producer 9 has a transaction open since offset 1."""
    from kafkawire.transactions import Append
    from tests.transactions.schedules import Written

    append = Append(base_offset=1, last_offset=1, timestamp=1, producer_id=9, producer_epoch=0, base_sequence=0)
    return Schedule([Written(append, b"")])


def test_what_is_open_is_unknown_where_the_high_watermark_lies_behind_the_log(tmp_path: Path) -> None:
    """A log that was cut: the marker may have been behind it."""
    log = data_of(0, 1) + data_of(1, 2) + marker("COMMIT", 2, 2)
    assert set(states(log_directory(tmp_path, {0: log})).values()) == {"open", "committed"}
    cut = log_directory(tmp_path, {0: log}, high_watermark=4)
    assert states(cut) == {0: "unknown", 1: "committed", 2: "committed"}
    outcomes = outcomes_of(cut)
    assert (outcomes.last_stable_offset, outcomes.last_stable_at_most) == (0, 3)
    assert outcomes.why(0) == "the log from offset 3 on is not here"


def test_a_file_alone_uses_the_segments_beside_it(tmp_path: Path) -> None:
    log_directory(tmp_path, {0: data_of(0), 1: data_of(1) + marker("ABORT", 2)})
    path = str(tmp_path / "orders-0" / f"{0:020}.log")
    directory = logdir.open(path)
    (file,) = directory.files
    (batch,) = (item for item in file.batches() if isinstance(item, Batch))
    assert STATES[OutcomesByFile(directory.partitions, [path]).of(file).state(batch)] == "aborted"
    assert STATES[OutcomesByFile(directory.partitions, []).of(file).state(batch)] == "open"
    renamed = tmp_path / "orders-0" / f"{0:020}.log.deleted"
    shutil.copy(path, renamed)
    directory = logdir.open(str(renamed))
    assert STATES[OutcomesByFile(directory.partitions, [str(renamed)]).of(directory.files[0]).state(batch)] == "unknown"


@pytest.mark.parametrize("form", ["{}", "file://{}", "file://{}?unused=1", ""])
def test_a_file_uses_the_segments_beside_it_whatever_its_path_looks_like(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log_directory(tmp_path, {0: data_of(0), 1: data_of(1) + marker("ABORT", 2)})
    monkeypatch.chdir(tmp_path / "orders-0")
    name = f"{0:020}.log"
    path = form.format(tmp_path / "orders-0" / name) or name
    directory = logdir.open(path)
    outcomes = OutcomesByFile(directory.partitions, [path])
    (file,) = directory.files
    assert file.path in outcomes.named
    (batch,) = (item for item in file.batches() if isinstance(item, Batch))
    assert STATES[outcomes.of(file).state(batch)] == "aborted"


def test_a_segment_is_proven_while_it_has_nothing_but_right_checksums_and_does_not_change(tmp_path: Path) -> None:
    wrong = bytearray(data_of(2))
    wrong[-1] ^= 1
    partition = log_directory(tmp_path, {0: data_of(0) + marker("COMMIT", 1), 2: bytes(wrong)})
    outcomes = OutcomesByFile([partition], [])
    sound, damaged = partition.segments
    assert not outcomes.proven(sound)
    outcomes.of(sound)
    assert (outcomes.proven(sound), outcomes.proven(damaged)) == (True, False)
    with open(sound.path, "ab") as file:
        file.write(data_of(2))
    assert not outcomes.proven(sound)


def test_batches_without_producers_stand_beside_transactions(tmp_path: Path) -> None:
    """A log that began before transactions: messages of magic 1."""
    old = build([Record(b"k", offset=0), Record(b"k", offset=1)], magic=1, codec="gzip")
    partition = log_directory(tmp_path, {0: old + data_of(2) + marker("ABORT", 3)})
    assert states(partition) == {0: "none", 2: "aborted", 3: "aborted"}
    assert outcomes_of(partition).last_stable_offset == 4


def test_a_segment_that_goes_while_it_is_read_leaves_outcomes_unknown(tmp_path: Path) -> None:
    partition = log_directory(tmp_path, {0: data_of(0), 1: marker("COMMIT", 1), 2: data_of(2) + marker("ABORT", 3)})
    gone = Path(partition.segments[1].path)
    gone.unlink()
    outcomes = outcomes_of(partition)
    batches = [item for file in (partition.segments[0], partition.segments[2]) for item in file.batches()]
    assert [STATES[outcomes.state(item)] for item in batches if isinstance(item, Batch)] == [
        "unknown", "aborted", "aborted",
    ]  # fmt: skip
    assert outcomes.why(0) == f"{gone}: No such file or directory"


@pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"\0" * 9)], ids=["gone", "damaged"])
def test_a_snapshot_that_cannot_be_read_shows_nothing(tmp_path: Path, harm: Any) -> None:
    """Behind the segments, and in a gap between them."""
    log_directory(tmp_path, {1: data_of(1, 9), 6: marker("COMMIT", 6, 9)})
    for offset, open_there in ((6, [_ghost().batches[0].append]), (9, [])):
        PartitionLog(tmp_path / "orders-0").snapshot(*naive_state(open_there), offset=offset)
    (partition,) = logdir.open(tmp_path).partitions
    assert states(partition) == {1: "committed", 6: "committed"}
    for snapshot in partition.snapshots:
        harm(Path(snapshot.path))
    assert states(partition) == {1: "unknown", 6: "committed"}
    assert outcomes_of(partition).why(1) == "offsets 2 to 5 are missing"


def test_a_later_snapshot_shows_what_was_open_before_the_first_segment(tmp_path: Path) -> None:
    log_directory(tmp_path, {5: data_of(5, 2) + marker("COMMIT", 6, 2)})
    PartitionLog(tmp_path / "orders-0").snapshot(*naive_state([_ghost().batches[0].append]), offset=7)
    (partition,) = logdir.open(tmp_path).partitions
    assert outcomes_of(partition).ongoing.cover(np.array([9]), np.array([1])).tolist() == [True]


def test_an_index_of_aborted_transactions_that_cannot_be_read_leaves_outcomes_unknown(tmp_path: Path) -> None:
    log_directory(tmp_path, {0: data_of(0), 6: data_of(6, 2)})
    index = tmp_path / "orders-0" / f"{0:020}.txnindex"
    index.write_bytes(AbortedTxn(producer_id=1, first_offset=0, last_offset=3).encode_prefixed(0))
    (partition,) = logdir.open(tmp_path).partitions
    assert states(partition) == {0: "aborted", 6: "open"}
    index.unlink()
    assert states(partition) == {0: "unknown", 6: "open"}


def test_an_empty_segment_has_no_outcomes_and_nothing_is_open(tmp_path: Path) -> None:
    """A broker rolls to one."""
    outcomes = outcomes_of(log_directory(tmp_path, {7: b""}))
    assert (outcomes.start, outcomes.last_stable_offset, outcomes.high_watermark) == (7, 7, 7)
    assert outcomes.aborted.producer_id.size == 0


def test_each_partition_has_its_own_outcomes(tmp_path: Path) -> None:
    for name, kind in (("orders-0", "ABORT"), ("orders-1", "COMMIT")):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{0:020}.log").write_bytes(data_of(0) + marker(kind, 1))
    partitions = logdir.open(tmp_path).partitions
    both = OutcomesByFile(partitions, [])
    found = [both.of(one.segments[0]) for one in partitions]
    assert [one.aborted.producer_id.size for one in found] == [1, 0]
    assert both.of(partitions[1].segments[0]) is found[1]


def test_a_snapshot_behind_the_log_shows_what_holds_consumers_back(tmp_path: Path) -> None:
    """The segments before it are missing, and with them the data of producer 9, whose transaction is still open."""
    log_directory(tmp_path, {0: data_of(0, 2) + marker("COMMIT", 1, 2)})
    assert outcomes_of(logdir.open(tmp_path).partitions[0]).last_stable_offset == 2
    PartitionLog(tmp_path / "orders-0").snapshot(*naive_state([_ghost().batches[0].append]), offset=7)
    (partition,) = logdir.open(tmp_path).partitions
    assert outcomes_of(partition).last_stable_offset == 1
