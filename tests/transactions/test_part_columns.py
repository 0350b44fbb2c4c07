"""The parts of any cut of any log give the facts of the whole, in the engine and in the reference."""

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
from kafkawire.transactions.answers import TXNINDEX_EQUALS_LOG
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaMerge
from kafkawire.transactions.parts.part_columns import PartColumns, decode, encode
from kafkawire.transactions.parts.part_scan import read_range
from tests.audit_logs import HOUR, MINUTE, LogDirectory, PartitionLog
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


#: The index of a part's segment, and the part.
Part = tuple[int, PartColumns]


def parts(partition: Partition, random_: random.Random) -> list[Part]:
    return [
        (number, decode(encode(read_range(file, start, end))))
        for number, file in enumerate(partition.segments)
        for start, end in some(random_, file)
    ]


def facts(partition: Partition, taken: Sequence[Part], **given: int) -> tuple[object, int]:
    """The facts, and how many parts were read again."""
    replica = ReplicaMerge(AuditedReplica(partition, **given), whole=True)
    for number, part in taken:
        replica.take(number, part)
    return comparable(replica.facts()), replica.read_again


def compare(partition: Partition, random_: random.Random, expiration_ms: int | None = None) -> int:
    """Compare two cuts with the replay, batch by batch; returns how many parts were read again."""
    replica = {} if expiration_ms is None else {"producer_expiration_ms": expiration_ms}
    whole = comparable(replayed(partition, **replica))
    again = 0
    for _ in range(2):
        merged, read_again = facts(partition, parts(partition, random_), **replica)
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
    """The only partition, and the parts of its segment before and behind a position."""
    (partition,) = logdir.open(log.directory).partitions
    (file,) = partition.segments
    return partition, [(0, read_range(file, 0, cut)), (0, read_range(file, cut))]


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
    partition, taken = halves(log, cut)
    whole = comparable(replayed(partition))
    assert [row[1] for row in whole["endings"]] == [10, 5]
    assert facts(partition, taken)[0] == whole


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
    partition, taken = halves(log, cut)
    assert facts(partition, taken)[0] == comparable(replayed(partition))


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


@pytest.mark.parametrize("open_", [True, False])
def test_the_index_of_aborted_transactions_is_judged_as_that_of_the_whole_log(tmp_path: Path, open_: bool) -> None:
    """An entry's last stable offset is where a transaction begins that is open when the marker comes, or, as a follower
    may have it, the first that another producer begins behind the marker."""
    logs = LogDirectory(tmp_path / "logs", ids=0)
    log = logs.partition("orders")
    for number in range(40):
        log.data(1 + number % 2)
        log.marker("COMMIT", 1 + number % 2)
    if open_:
        stable = log.end
        log.data(2)
    first = log.end
    log.data(1)
    marker = log.end
    log.marker("ABORT", 1)
    if open_:
        log.marker("COMMIT", 2)
    log.data(1)
    log.marker("COMMIT", 1)
    if not open_:
        stable = log.end
    for _ in range(20):
        log.data(2)
        log.marker("COMMIT", 2)
    (partition,) = logdir.open(logs.write()).partitions
    entry = AbortedTxn(producer_id=1, first_offset=first, last_offset=marker, last_stable_offset=stable)
    Path(partition.path, f"{0:020}.txnindex").write_bytes(entry.encode_prefixed(version=0))
    (partition,) = logdir.open(logs.root).partitions
    merge = ReplicaMerge(AuditedReplica(partition))
    merge.take(0, read_range(partition.segments[0]))
    (answer,) = (one.answer for one in merge.facts().answers if one.answer.check == TXNINDEX_EQUALS_LOG)
    assert (answer.held, answer.violated) == (1, 0)


@pytest.mark.parametrize("high_watermark", [0, 100, 219, 301, 400])
def test_the_earliest_transaction_that_may_be_undone(tmp_path: Path, high_watermark: int) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    log = logs.partition("orders")
    for number in range(200):
        log.data(1 + number % 2)
        log.marker("ABORT" if number == 100 else "COMMIT", 1 + number % 2)
    logs.high_watermark("orders", 0, high_watermark)
    (partition,) = logdir.open(logs.write()).partitions
    merge = ReplicaMerge(AuditedReplica(partition))
    for number, part in parts(partition, random.Random(high_watermark)):
        merge.take(number, part)
    assert merge.facts().partition.unreplicated == (None if high_watermark == 400 else high_watermark // 2 * 2)
