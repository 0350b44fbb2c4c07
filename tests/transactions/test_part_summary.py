"""`merge` is a monoid: any bracketing of any cut of any log gives the summary of the whole."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import reduce
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire import logdir
from kafkawire.logdir import Partition
from kafkawire.transactions import span_scan
from kafkawire.transactions.part_scan import summarize_range
from kafkawire.transactions.part_summary import LogSummary, PartSummary, decode, encode, merge
from kafkawire.transactions.replica_facts import Replica, ReplicaMerge
from tests.audit_logs import HOUR, MINUTE, LogDirectory
from tests.injected.cases import CASES
from tests.random_logs import PRODUCERS, damage, entry, fill, register
from tests.references.sequential_replay import comparable, replayed
from tests.transactions.schedules import Schedule, schedules
from tests.transactions.test_part_scan import long_log, some, write
from tools.recordings.archive import LOG_DIRECTORIES, unpacked

pytestmark = pytest.mark.slow

IN_TMP_PATH = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture(autouse=True)
def arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays judge producers with few batches, too."""
    monkeypatch.setattr(span_scan, "FEW", 4)


def parts(partition: Partition, random_: random.Random, **given: int) -> list[PartSummary]:
    joints = [file.offset or 0 for file in partition.snapshots]
    return [
        decode(encode(summarize_range(file, start, end, joints=joints, **given)))
        for file in partition.segments
        for start, end in some(random_, file)
    ]


def bracketed(summaries: Sequence[PartSummary], random_: random.Random) -> LogSummary:
    """Merged two by two, in sequence, in some order; an empty side is the identity."""
    if len(summaries) < 2:
        return tuple(summaries)
    cut = random_.randrange(1, len(summaries))
    whole = merge(bracketed(summaries[:cut], random_), bracketed(summaries[cut:], random_))
    assert merge((), whole) == whole == merge(whole, ())
    return whole


def facts(partition: Partition, merged: LogSummary, **given: int) -> tuple[object, int]:
    replica = ReplicaMerge(Replica(partition, **given))
    numbers = {file.offset or 0: number for number, file in enumerate(partition.segments)}
    for summary in merged:
        replica.take(numbers[summary.base_offset], decode(encode(summary)))
    return comparable(replica.facts()), replica.read_again


def compare(partition: Partition, random_: random.Random, expiration_ms: int | None = None) -> list[LogSummary]:
    """Compare two bracketings with the replay, batch by batch; returns them."""
    replica = {} if expiration_ms is None else {"producer_expiration_ms": expiration_ms}
    scanned = {} if expiration_ms is None else {"expiration_ms": expiration_ms}
    whole = comparable(replayed(partition, **replica))
    found = []
    for _ in range(2):
        found.append(bracketed(parts(partition, random_, **scanned), random_))
        merged, _ = facts(partition, found[-1], **replica)
        assert merged == whole, partition.path
    return found


def plain(summary: PartSummary) -> PartSummary:
    """With the reasons of its answers in one order."""
    spans = []
    for span in summary.spans:
        answers = [
            tuple(replace(one, lacked=tuple(sorted(one.lacked))) for one in several)
            for several in (span.answers, span.forgotten)
        ]
        spans.append(replace(span, answers=answers[0], forgotten=answers[1]))
    return replace(summary, spans=tuple(spans))


@IN_TMP_PATH
@given(schedules(most=90), st.integers(0, 2**32))
def test_a_sound_log_has_one_summary_a_segment_whatever_the_cuts(tmp_path: Path, schedule: Schedule, seed: int) -> None:
    partition = write(tmp_path / "logs", schedule)
    whole = tuple(plain(summarize_range(file)) for file in partition.segments)
    for merged in compare(partition, random.Random(seed)):
        assert tuple(map(plain, merged)) == whole
        assert facts(partition, merged)[1] == 0


@IN_TMP_PATH
@given(schedules(most=90), st.integers(0, 2**32))
def test_a_damaged_or_compacted_log_has_the_facts_of_its_replay(tmp_path: Path, schedule: Schedule, seed: int) -> None:
    random_ = random.Random(seed)
    kept = [one for one in schedule.batches if random_.random() > 0.05]
    shuffled = sorted(kept, key=lambda one: one.append.base_offset + 9 * (random_.random() < 0.03))
    partition = write(tmp_path / "logs", Schedule(shuffled, schedule.rolls))
    for file in partition.segments:
        data = bytearray(Path(file.path).read_bytes())
        for _ in range(random_.randrange(3) if data else 0):
            data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
        Path(file.path).write_bytes(data)
    compare(partition, random_)


@pytest.mark.parametrize("seed", range(12))
def test_snapshots_expiry_and_forbidden_batches_at_any_border(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    logs = LogDirectory(tmp_path / "logs", ids=2, compacted=seed % 3 == 2)
    register(random_, logs)
    for number in range(4):
        log = logs.partition(f"topic{number}", start=random_.choice([0, 100]))
        for _ in range(3):
            fill(random_, log, range(PRODUCERS if seed % 2 else 2))
        if random_.random() < 0.7:
            log.snapshot(*(entry(random_, producer) for producer in range(3)), offset=random_.randrange(200))
    logs.write()
    if seed % 2:
        damage(random_, logs.root)
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


def test_a_merged_summary_does_not_grow_with_the_parts(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    long_log(logs.partition("orders"), 400)
    logs.write()
    (partition,) = logdir.open(logs.root).partitions
    (file,) = partition.segments
    (whole,) = summarize_range(file).spans
    steps = sum(len(items) for _, items in whole.programs)
    (merged,) = reduce(merge, [(part,) for part in parts(partition, random.Random(4))])
    assert sum(len(items) for _, items in merged.spans[0].programs) == steps < 40
