"""The summaries of any cut of any log give the facts of the whole; also where what has ended in parts is apart."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kafkawire import logdir
from kafkawire.logdir import Partition
from kafkawire.messages import AbortedTxn
from kafkawire.transactions import span_scan
from kafkawire.transactions.endings import Packed
from kafkawire.transactions.part_scan import summarize_range
from kafkawire.transactions.part_summary import PartSummary, decode, encode
from kafkawire.transactions.replica_facts import AuditedReplica, ReplicaMerge
from kafkawire.transactions.span_split import split
from tests.audit_logs import HOUR, MINUTE, PartitionLog
from tests.injected.cases import CASES
from tests.random_logs import random_partitions
from tests.references.sequential_replay import comparable, replayed
from tests.transactions.schedules import Schedule, schedules
from tests.transactions.test_part_scan import damaged, some, write, write_segments
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

pytestmark = pytest.mark.slow

IN_TMP_PATH = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # smaller logs that fail would take minutes to find
)


@pytest.fixture(autouse=True)
def arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays judge producers with few batches, too."""
    monkeypatch.setattr(span_scan, "FEW", 4)


#: The index of a part's segment, and its summary.
Part = tuple[int, PartSummary]


def parts(partition: Partition, random_: random.Random, **given: int) -> list[Part]:
    joints = [file.offset or 0 for file in partition.snapshots]
    return [
        (number, decode(encode(summarize_range(file, start, end, joints=joints, **given))))
        for number, file in enumerate(partition.segments)
        for start, end in some(random_, file)
    ]


def facts(partition: Partition, summaries: Sequence[Part], **given: int) -> tuple[object, int]:
    """The facts, and how many parts were read again."""
    replica = ReplicaMerge(AuditedReplica(partition, **given), whole=True)
    for number, summary in summaries:
        replica.take(number, summary)
    return comparable(replica.facts()), replica.read_again


def split_facts(partition: Partition, summaries: Sequence[Part], **given: int) -> object:
    """From summaries whose ended transactions are apart."""
    replica = ReplicaMerge(AuditedReplica(partition, **given), whole=True)
    apart: list[Packed] = []
    for number, summary in summaries:
        few, ended = split(summary)
        few = decode(encode(few))
        taken = replica.take(number, summary if replica.is_undone(few) else few, apart=True)
        apart += ended[:taken]
    found = comparable(replica.facts())
    return {**found, "endings": sorted([*found["endings"], *(row for rows in apart for row in rows.tolist())])}


def compare(partition: Partition, random_: random.Random, expiration_ms: int | None = None) -> int:
    """Compare two cuts with the replay, batch by batch; returns how many parts were read again."""
    replica = {} if expiration_ms is None else {"producer_expiration_ms": expiration_ms}
    scanned = {} if expiration_ms is None else {"expiration_ms": expiration_ms}
    whole = comparable(replayed(partition, **replica))
    again = 0
    for _ in range(2):
        summaries = parts(partition, random_, **scanned)
        split_whole = {**whole, "endings": sorted(whole["endings"])}
        assert split_facts(partition, summaries, **replica) == split_whole, partition.path
        merged, read_again = facts(partition, summaries, **replica)
        assert merged == whole, partition.path
        again += read_again
    return again


@IN_TMP_PATH
@given(schedules(most=50), st.integers(0, 2**32))
def test_a_sound_log_is_read_once_whatever_the_cuts(tmp_path: Path, schedule: Schedule, seed: int) -> None:
    assert compare(write(tmp_path / "logs", schedule), random.Random(seed)) == 0


@IN_TMP_PATH
@given(schedules(most=50), st.integers(0, 2**32))
def test_a_damaged_or_compacted_log_has_the_facts_of_its_replay(tmp_path: Path, schedule: Schedule, seed: int) -> None:
    random_ = random.Random(seed)
    compare(write_segments(tmp_path / "logs", damaged(schedule, random_)), random_)


def halves(log: PartitionLog, cut: int) -> tuple[Partition, list[Part]]:
    """The only partition, and the summaries of its segment before and behind a position."""
    (partition,) = logdir.open(log.directory).partitions
    (file,) = partition.segments
    return partition, [(0, summarize_range(file, 0, cut)), (0, summarize_range(file, cut))]


def test_offsets_that_go_back_behind_a_batch_without_a_producer_id_keep_the_order_of_the_log(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "orders-0")
    log.data(1)
    log.data(2)
    log.skip(8)
    log.marker("COMMIT", 1)
    cut = len(log.segments[0][1])
    log.plain()
    log.skip(-7)
    log.marker("ABORT", 2)
    log.write()
    partition, summaries = halves(log, cut)
    whole = comparable(replayed(partition))
    assert [row[1] for row in whole["endings"]] == [10, 5]
    assert facts(partition, summaries)[0] == whole


def test_offsets_that_go_back_below_an_open_transaction_have_its_last_stable_offset(tmp_path: Path) -> None:
    log = PartitionLog(tmp_path / "orders-0")
    log.plain()
    log.data(1)
    cut = len(log.segments[0][1])
    log.plain()
    log.skip(-3)
    log.data(2)
    log.marker("ABORT", 2)
    log.write()
    entry_ = AbortedTxn(producer_id=2, first_offset=0, last_offset=1, last_stable_offset=2)
    (log.directory / f"{0:020}.txnindex").write_bytes(entry_.encode_prefixed(version=0))
    partition, summaries = halves(log, cut)
    assert facts(partition, summaries)[0] == comparable(replayed(partition))


@pytest.mark.parametrize("seed", range(12))
def test_snapshots_expiry_and_forbidden_batches_at_any_border(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    logs = random_partitions(random_, tmp_path / "logs", seed)
    for partition in logdir.open(logs.root).partitions:
        compare(partition, random_)
        compare(partition, random_, random_.choice([1, MINUTE, HOUR, 8 * HOUR]))


@pytest.mark.parametrize("case", CASES[::5], ids=str)
def test_logs_that_break_a_rule(tmp_path: Path, case: object) -> None:
    random_ = random.Random(str(case))
    for partition in logdir.open(*case.write(tmp_path)).partitions:  # type: ignore[attr-defined]
        compare(partition, random_)


def test_directories_that_brokers_wrote() -> None:
    random_ = random.Random(1)
    for partition in logdir.open(*map(str, map(unpacked, LOG_DIRECTORIES))).partitions:
        compare(partition, random_)
