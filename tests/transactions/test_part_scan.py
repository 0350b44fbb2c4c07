"""Parts, merged, are the replay of the whole log, wherever it is cut."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkawire import logdir
from kafkawire.logdir import LogFile, Partition
from kafkawire.logdir.splits import ranges
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaFacts, ReplicaMerge
from kafkawire.transactions.parts import part_scan
from kafkawire.transactions.parts.part_columns import decode, encode
from kafkawire.transactions.parts.part_scan import PartTask, read_range
from tests.audit_logs import HOUR, MINUTE, NOON, LogDirectory, PartitionLog
from tests.injected.cases import CASES
from tests.random_logs import random_partitions
from tests.references.sequential_replay import comparable, replayed
from tests.transactions.schedules import NOON as SCHEDULED
from tests.transactions.schedules import Schedule, schedules
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"

Cut = tuple[int, int | None]


def merged(partition: Partition, cuts: Iterable[list[Cut]], **given: int) -> tuple[ReplicaFacts, int]:
    """The facts from parts, and how many parts were read again.

    Args:
        cuts: of each segment its parts.
    """
    merge = ReplicaMerge(AuditedReplica(partition, **given), whole=True)
    for number, (file, parts) in enumerate(zip(partition.segments, cuts, strict=True)):
        for start, end in parts:
            merge.take(number, decode(encode(read_range(file, start, end))))
    return merge.facts(), merge.read_again


def some(random_: random.Random, file: LogFile) -> list[Cut]:
    """A segment in parts, cut anywhere."""
    points = [start for start, _ in ranges(file, random_.choice([1, 200, 1000]))][1:]
    chosen = sorted(random_.sample(points, random_.randrange(len(points) + 1)))
    return [*zip([0, *chosen], [*chosen, None], strict=True)]


def compare(partition: Partition, random_: random.Random, **given: int) -> int:
    """Compare the facts of a partition, cut twice; returns how many parts were read again."""
    whole = comparable(replayed(partition, **given))
    again = 0
    for _ in range(2):
        facts, read_again = merged(partition, [some(random_, file) for file in partition.segments], **given)
        assert comparable(facts) == whole, partition.path
        again += read_again
    return again


@pytest.mark.parametrize("seed", range(16))
def test_merged_parts_equal_the_whole_for_any_batches_and_damage(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    logs = random_partitions(random_, tmp_path / "logs", seed, log_starts=True)
    for partition in logdir.open(logs.root).partitions:
        compare(partition, random_)
        compare(partition, random_, producer_expiration_ms=random_.choice([1, MINUTE, HOUR, 8 * HOUR]))


@pytest.mark.parametrize("case", CASES[::5], ids=str)
def test_merged_parts_equal_the_whole_for_logs_that_break_a_rule(tmp_path: Path, case: object) -> None:
    random_ = random.Random(str(case))
    for partition in logdir.open(*case.write(tmp_path)).partitions:  # type: ignore[attr-defined]
        compare(partition, random_)


def test_directories_that_brokers_wrote() -> None:
    random_ = random.Random(1)
    roots = [EXAMPLES, *map(unpacked, [*LOG_DIRECTORIES, "read-committed", "hanging-transactions"])]
    for partition in logdir.open(*map(str, roots)).partitions:
        compare(partition, random_)


def write(root: Path, schedule: Schedule) -> Partition:
    return write_segments(root, schedule.segments())


def write_segments(root: Path, segments: Mapping[int, bytes]) -> Partition:
    """A partition of these segments, by base offset."""
    shutil.rmtree(root, ignore_errors=True)
    directory = root / "orders-0"
    directory.mkdir(parents=True)
    for base, data in segments.items():
        (directory / f"{base:020}.log").write_bytes(data)
    (partition,) = logdir.open(directory).partitions
    return partition


def damaged(schedule: Schedule, random_: random.Random) -> dict[int, bytes]:
    """The segments without some batches, with some out of order and some bits flipped; a few end early."""
    kept = [one for one in schedule.batches if random_.random() > 0.05]
    shuffled = sorted(kept, key=lambda one: one.append.base_offset + 9 * (random_.random() < 0.03))
    segments = {}
    for base, content in Schedule(shuffled, schedule.rolls).segments().items():
        data = bytearray(content)
        for _ in range(random_.randrange(3) if data else 0):
            data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        segments[base] = bytes(data[: random_.randrange(len(data) + 1)] if random_.random() < 0.1 else data)
    return segments


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(schedules(most=90), st.integers(0, 2**32))
def test_a_sound_log_is_read_once(tmp_path: Path, schedule: Schedule, seed: int) -> None:
    partition = write(tmp_path / "logs", schedule)
    assert compare(partition, random.Random(seed)) == 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(schedules(most=90), st.integers(0, 2**32))
def test_merged_parts_equal_the_whole_for_damaged_and_compacted_logs(
    tmp_path: Path, schedule: Schedule, seed: int
) -> None:
    random_ = random.Random(seed)
    compare(write_segments(tmp_path / "logs", damaged(schedule, random_)), random_)


def long_log(log: PartitionLog, transactions: int, *, producers: int = 3, version: int = 2, step_ms: int = 10) -> None:
    """Transactions of two batches each, of one producer after the other."""
    epochs = dict.fromkeys(range(producers), 0)
    for number in range(transactions):
        producer, at = number % producers, NOON + number * step_ms
        log.data(producer, epochs[producer], at=at, records=2)
        log.data(producer, epochs[producer], at=at)
        epochs[producer] += version // 2
        log.marker("COMMIT" if number % 3 else "ABORT", producer, epochs[producer], at=at, coordinator_epoch=1)


@pytest.mark.parametrize("version", [0, 2])
def test_the_columns_of_a_part_take_few_bytes_a_batch(tmp_path: Path, version: int) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    sizes = []
    for number, transactions in enumerate((100, 2000)):
        long_log(logs.partition("orders", number), transactions, version=version)
    logs.write()
    for partition in logdir.open(logs.root).partitions:
        sizes.append(len(encode(read_range(partition.segments[0]))))
    assert sizes[1] - sizes[0] < 5 * 3 * 1900


@pytest.mark.parametrize("ahead_ms", [0, HOUR, 30 * HOUR, 3000 * HOUR])
def test_merged_parts_equal_the_whole_where_clocks_are_ahead(tmp_path: Path, ahead_ms: int) -> None:
    """A client's clock that is far ahead lets every later producer look idle."""
    logs = LogDirectory(tmp_path / "logs", ids=0)
    log = logs.partition("orders")
    log.data(99, at=NOON + ahead_ms)
    long_log(log, 60, step_ms=40 * MINUTE)
    logs.write()
    (partition,) = logdir.open(logs.root).partitions
    assert compare(partition, random.Random(ahead_ms)) == 0


def test_times_of_schedules_are_those_of_logs() -> None:
    assert SCHEDULED == NOON


def test_a_segment_without_an_index_is_walked_over_once_for_all_of_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walked: list[int] = []

    def counted(file: LogFile, size: int) -> list[Cut]:
        walked.append(size)
        return ranges(file, size)

    monkeypatch.setattr(part_scan, "ranges", counted)
    logs = LogDirectory(tmp_path / "logs", ids=0)
    long_log(logs.partition("orders"), 100)
    logs.write()
    (partition,) = logdir.open(logs.root).partitions
    (file,) = partition.segments
    count = part_scan.count_parts(file.size, 2000)
    tasks = [PartTask(file, number, count, 2000, 2000) for number in range(count)]
    batches = sum(task.read().scan.batches for task in tasks)
    assert (batches, walked) == (300, [2000])
    Path(file.path).write_bytes(Path(file.path).read_bytes()[:-78])
    tasks[0].read()
    assert walked == [2000, 2000]
