"""The Spark job finds what the replay on one machine finds."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from msgspec.structs import replace

from kafkawire import logdir, transactions
from kafkawire.messages import PartitionRecord, TopicRecord
from kafkawire.rows import Audit
from kafkawire.transactions import Settings
from kafkawire.transactions.auditing.replica_facts import ReplicaMerge
from kafkawire.transactions.parts.part_columns import PartColumns
from kafkawire.transactions.parts.part_scan import PART_BYTES, PartTask
from tests.audit_logs import NOON, LogDirectory
from tests.injected.cases import SEEDS, write_clusters
from tests.random_logs import PRODUCERS, damage, entry, fill, register
from tests.transactions.test_lost_records import EXAMPLE, cut
from tests.worlds import World
from tools.audit_faults.fault_outcomes import outcomes
from tools.audit_faults.faults import sample
from tools.audit_faults.on_spark import rules_by_spark
from tools.audit_faults.sound import sound
from tools.recordings.archive import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs"


def both(session: SparkSession, settings: Settings, *paths: str, part_bytes: int = PART_BYTES) -> tuple[Audit, Audit]:
    from kafkawire import spark

    directory = logdir.open(*paths)
    local = transactions.audit(directory, settings, paths=paths)
    by_spark = spark.audit(paths, settings, spark=session, part_bytes=part_bytes)
    asked = set(by_spark.read.checks)  # some are made on one machine only
    assert asked <= set(local.read.checks)
    local = replace(
        local,
        read=replace(local.read, checks=tuple(check for check in local.read.checks if check in asked)),
        violations=tuple(violation for violation in local.violations if violation.check in asked),
        answers=tuple(answer for answer in local.answers if answer.check in asked),
    )
    return local, by_spark


@pytest.mark.parametrize("part_bytes", [PART_BYTES, 1024])
def test_real_log_directories_give_the_local_answer(spark: SparkSession, part_bytes: int) -> None:
    local, by_spark = both(spark, Settings(), str(EXAMPLES), part_bytes=part_bytes)
    assert by_spark == local
    assert {finding.verdict for finding in local.findings} == {"hanging", "not_hanging"}


def test_partitions_that_are_not_there_are_named_as_on_one_machine(spark: SparkSession, tmp_path: Path) -> None:
    """In a directory that was given as a whole; by their checkpoints, the metadata log, high watermarks."""
    world = World(tmp_path, 4)
    id = UUID(int=9)
    world.control(2, TopicRecord(name="payments", topic_id=id).encode(version=0))
    for number, broker in enumerate((1, 7)):
        record = PartitionRecord(partition_id=number, topic_id=id, replicas=(broker,))
        world.control(3, record.encode(version=0))
    world.control(2, b"\xff")
    world.run()
    world.finish()
    root = world.logs.root
    shutil.rmtree(root / "orders-1")
    shutil.rmtree(root / "__transaction_state-2")
    (root / "orders-2" / f"{world.orders[2].segments[-1][0]:020}.log").write_bytes(b"")
    (root / "orders-0").rename(root / f"orders-0.{'ab' * 16}-stray")
    local, by_spark = both(spark, Settings(), str(root))
    assert by_spark == local
    assert len(local.read.gaps) == 5
    local, by_spark = both(spark, Settings(), str(root / "orders-2"))
    assert by_spark == local
    assert len(local.read.gaps) == 1


def test_records_that_a_coordinators_log_lost_leave_the_local_doubts(spark: SparkSession, tmp_path: Path) -> None:
    root = cut(EXAMPLE, tmp_path / "cut", "__transaction_state-3", 3)
    local, by_spark = both(spark, Settings(), str(root))
    assert by_spark == local
    assert [gap for gap in by_spark.read.gaps if "offset 3 is missing, where no cleaner has been" in gap]
    (live,) = [one for one in by_spark.findings if (one.topic, one.partition) == ("orders", 2)]
    assert live.verdict == "unknown"


def test_records_that_a_log_of_data_lost_are_the_local_gaps(spark: SparkSession, tmp_path: Path) -> None:
    local, by_spark = both(spark, Settings(), str(cut(EXAMPLE, tmp_path / "cut", "orders-0", 3)))
    assert by_spark == local
    assert [gap for gap in by_spark.read.gaps if "orders-0" in gap and "missing, where no cleaner has been" in gap]


def test_links_and_interrupted_swaps_are_read_as_on_one_machine(spark: SparkSession, tmp_path: Path) -> None:
    world = World(tmp_path / "fleet", 3)
    world.run()
    world.begin(world.producer("left-open"), 0, 1)
    world.finish()
    root = world.logs.root
    (root / "orders-1").rename(tmp_path / "moved")
    (root / "orders-1").symlink_to(tmp_path / "moved")
    (root / "orders-2").rename(tmp_path / "fleet" / "a-store")
    (root / "orders-2").symlink_to(tmp_path / "fleet" / "a-store")
    (root / "loop").symlink_to("..")
    (root / "orders-8").symlink_to("gone")
    (root / "orders-9").mkdir()
    for file in (*(root / "orders-0").glob("*.log"), *(root / "orders-0").glob("*.txnindex")):
        file.rename(f"{file}.swap")
    local, by_spark = both(spark, Settings(), str(tmp_path / "fleet"))
    assert by_spark == local
    assert len(local.findings) == 2
    assert local.read.partitions == len(world.logs.partitions)
    assert len(local.read.gaps) == 2


def test_folders_of_no_partition_are_named_as_not_read(spark: SparkSession, tmp_path: Path) -> None:
    from kafkawire import spark as kafkawire_spark

    renamed = tmp_path / "orders-0 (copy)"
    shutil.copytree(unpacked("tiered-storage") / "node-1" / "orders-0", renamed)
    read = kafkawire_spark.audit([str(EXAMPLES / "one-node"), str(tmp_path)], spark=spark).read
    assert not read.complete
    assert [gap for gap in read.gaps if "was not read" in gap] == [
        f"{renamed} was not read: it holds segments, and its name is no partition's",
    ]


TIER, OBJECTS = "tiered-storage/tier", "tier-objects/encrypted-zstd"


@pytest.mark.parametrize("paths", [
    ("tiered-storage/node-1", "tiered-storage/node-2", "tiered-storage/node-3", TIER),
    ("tiered-storage/node-2", OBJECTS),
    ("tiered-storage/node-3", TIER),  # whose replicas do not include the tier's partition
    (OBJECTS,),
    ("tiered-storage/node-2/orders-0", "tiered-storage/tier"),  # without the metadata
])  # fmt: skip
def test_logs_and_their_tier_give_the_local_answer(spark: SparkSession, paths: tuple[str, ...]) -> None:
    from kafkawire import spark as kafkawire_spark

    keys = [str(unpacked("tier-objects") / "private.pem")]
    places = [str(unpacked(path.partition("/")[0]) / path.partition("/")[2]) for path in paths]
    local = transactions.audit(logdir.open(*places, tier_keys=keys), paths=tuple(places))
    assert kafkawire_spark.audit(places, spark=spark, tier_keys=keys, part_bytes=1024) == local
    assert {answer.check for answer in local.answers} >= {"tier_covers_log", "tier_object_present"}


def test_what_is_wrong_with_a_tier_gives_the_local_answer(spark: SparkSession, tmp_path: Path) -> None:
    from kafkawire import spark as kafkawire_spark

    root = shutil.copytree(unpacked("tiered-storage"), tmp_path / "copy")
    for offset, kind in ((30, "*"), (40, "log"), (61, "index")):
        for path in (root / "tier").rglob(f"{offset:020}-*.{kind}"):
            path.unlink()
    (stray,) = (folder / f"{0:020}.log" for folder in (root / "tier").glob("*/orders-0-*"))
    shutil.copytree(root / "tier", tmp_path / "twice")  # a second tier, of a deleted topic
    stray.touch()
    (old,) = (tmp_path / "twice").glob("*/orders-0-*")
    old.rename(old.with_name("orders-0-AAAAAAAAAAAAAAAAAAAAAQ"))
    places = [str(root / "node-1"), str(root / "node-2"), str(root / "tier"), str(tmp_path / "twice")]
    local = transactions.audit(logdir.open(*places), paths=tuple(places))
    assert len([one for one in local.violations if one.check == "tier_object_present"]) == 3
    assert local.read.gaps == (f"{stray} was not read: its name is no segment's in a tier",)
    assert kafkawire_spark.audit(places, spark=spark) == local


@pytest.mark.parametrize("seed", range(4))
def test_logs_of_every_kind_give_the_local_answer(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Copies of several brokers at once, by several tasks each, whole in one half of the runs, damaged in the other."""
    from kafkawire.spark.auditing import outcome_judge
    from kafkawire.spark.listing import fleet_listing
    from kafkawire.spark.session import task_sizing

    for module, name in ((task_sizing, "SMALL_BYTES"), (outcome_judge, "_FEW_ROWS"), (fleet_listing, "_FEW_LISTS")):
        monkeypatch.setattr(module, name, 1)
    random_ = random.Random(seed)
    paths = []
    for broker in range(3):
        logs = LogDirectory(tmp_path / f"broker-{broker}", ids=2)
        register(random_, logs)
        for number in range(8):
            start = random_.choice([0, 0, 100])
            partition = logs.partition(f"topic{number}", start=start)
            fill(random_, partition, range(PRODUCERS))
            logs.high_watermark(f"topic{number}", 0, start + random_.randrange(60))
            if start:
                partition.snapshot(*(entry(random_, n) for n in range(0, PRODUCERS, 3)))
        paths.append(logs.write())
        if seed % 2:
            damage(random_, logs.root)
    settings = Settings(transaction_state_partitions=2, as_of=NOON if seed < 2 else None)
    local, by_spark = both(spark, settings, *paths, part_bytes=512 if seed > 1 else PART_BYTES)
    assert local.findings
    assert by_spark == local


def test_what_has_ended_in_parts_that_are_read_again_is_there_once(spark: SparkSession, tmp_path: Path) -> None:
    """Where offsets go back, which are missing depends on the parts before: the task that replays reads it again."""
    from kafkawire.spark.auditing.outcome_rows import EndedCell, one_a_row
    from kafkawire.spark.auditing.replica_parts import Fleet
    from kafkawire.spark.listing.fleet_listing import listing
    from kafkawire.spark.session.typed_table import only

    logs = LogDirectory(tmp_path / "logs", ids=0)
    orders = logs.partition("orders")
    for number in range(300):
        if number == 150:
            orders.skip(-9)
        orders.data(number % 3)
        orders.marker("COMMIT", number % 3)
    listed = listing(spark, [logs.write()])
    small, whole = (
        sorted(map(repr, one_a_row(only(facts, EndedCell)).collect()))
        for facts in (Fleet.of(listed, Settings(), size).facts(whole=True) for size in (1024, 1 << 20))
    )
    assert small == whole
    assert len(small) == 300


def test_a_large_replica_is_read_in_parts_and_a_small_one_by_one_task(spark: SparkSession, tmp_path: Path) -> None:
    from kafkawire.spark.auditing.replica_parts import Fleet
    from kafkawire.spark.listing.fleet_listing import listing

    logs = LogDirectory(tmp_path / "logs", ids=0)
    for partition, count in enumerate((3, 300)):
        orders = logs.partition("orders", partition)
        for number in range(count):
            orders.data(number % 3)
            orders.marker("COMMIT", number % 3)
    path = logs.write()
    listed = listing(spark, [path])
    parts = {
        size: [
            (row.path is not None, row.part is not None)
            for row in Fleet.of(listed, Settings(), size).planned().collect()
        ]
        for size in (1024, 1 << 20)
    }
    assert parts[1 << 20] == [(True, False)] * 2
    assert sorted(parts[1024])[:3] == [(False, True)] * 3
    assert sorted(parts[1024])[-2:] == [(True, False), (True, True)]
    plans = {
        size: Fleet.of(listed, Settings(), size).facts(whole=False)._jdf.queryExecution().toString() for size in parts
    }
    assert ("Union" in plans[1024], "Union" in plans[1 << 20]) == (True, False)  # nothing else is shuffled
    local, by_spark = both(spark, Settings(), path, part_bytes=1024)
    assert by_spark == local


@pytest.mark.parametrize("ids", [0, 1])
def test_without_a_coordinators_log_only_markers_that_raised_the_epoch_leave_their_replica(
    spark: SparkSession, tmp_path: Path, ids: int
) -> None:
    """The others are counted where they are read, in the replica that counts, as on one machine."""
    from kafkawire.spark.auditing.audit_tables import for_driver
    from kafkawire.spark.auditing.outcome_rows import EndedCell
    from kafkawire.spark.auditing.replica_parts import DriverFacts, Fleet
    from kafkawire.spark.listing.fleet_listing import listing
    from kafkawire.spark.session.typed_table import only
    from kafkawire.transactions.log.endings import JUDGED

    paths = []
    for broker in range(2):
        logs = LogDirectory(tmp_path / f"broker-{broker}", ids=ids)
        for partition in range(2):
            orders = logs.partition("orders", partition)
            for number in range(30):
                orders.data(number)
                orders.marker("COMMIT", number, number % 3 == 0)
        paths.append(logs.write())
    facts = Fleet.of(listing(spark, paths), Settings(), PART_BYTES).facts(whole=False)
    passed_on = sum(len(row.payload) // JUDGED.itemsize for row in only(facts, EndedCell).collect())
    of_replicas = [one for one in for_driver(facts) if isinstance(one, DriverFacts)]
    counted = [one.facts.endings.undecided for one in of_replicas if one.facts.partition.place.topic == "orders"]
    assert (passed_on, counted) == ((120, [0] * 4) if ids else (40, [20] * 4))
    local, by_spark = both(spark, Settings(transaction_state_partitions=1), *paths)
    assert by_spark == local
    (outcomes,) = [answer for answer in by_spark.answers if answer.check == "one_outcome"]
    assert (outcomes.held, outcomes.not_checkable) == (20, 40 + (not ids))  # one for the log that is not there


def test_injected_violations_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """Every injection, each in a cluster of its own, in one job."""
    cases, paths = write_clusters(tmp_path, SEEDS[0])
    local, by_spark = both(spark, Settings(), *paths)
    assert by_spark == local
    named = {name: set[str]() for name in cases}
    for violation in by_spark.violations:
        assert violation.file is not None
        named[Path(violation.file).relative_to(tmp_path).parts[0]].add(violation.check)
    assert named == {name: {case.check} for name, case in cases.items()}


def test_faults_of_one_field_are_named_as_on_one_machine(spark: SparkSession, tmp_path: Path) -> None:
    made = {0: sound(0)}
    chosen = sample(1, 40, 22, made.__getitem__)
    local = {str(fault): found.rules for fault, found in outcomes(tmp_path / "local", made, chosen)}
    assert {str(fault): rules for fault, rules in rules_by_spark(spark, tmp_path, made, chosen)} == local
    assert len(local) == 40
    assert any(local.values())


def test_accepts_logs_without_transactions(spark: SparkSession, tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    logs.partition("orders").plain()
    local, by_spark = both(spark, Settings(), logs.write())
    assert by_spark == local
    assert local.read.complete


def test_reports_a_failed_job_in_one_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkawire import spark as kafkawire_spark
    from kafkawire.spark.auditing import replica_parts
    from kafkawire.spark.errors import SparkError

    def broken(*given: object, **settings: object) -> None:
        raise ValueError("a replica\nthat breaks")

    monkeypatch.setattr(replica_parts, "_replayed", broken)
    logs = LogDirectory(tmp_path / "logs")
    logs.partition("orders").data(1)
    with pytest.raises(SparkError) as caught:
        kafkawire_spark.audit([logs.write()], spark=spark)
    assert str(caught.value) == "the Spark job failed: ValueError: a replica"


def test_no_cell_grows_with_transactions_and_ids(spark: SparkSession, tmp_path: Path) -> None:
    """The largest cell of all facts but ended transactions, which are cut into cells of a fixed size; the rows on
    workers, and the driver's bytes, for ten times the transactions."""
    from kafkawire.spark.auditing.replica_parts import Fleet
    from kafkawire.spark.listing.fleet_listing import listing

    def largest(count: int) -> tuple[int, int, int]:
        logs = LogDirectory(tmp_path / f"logs-{count}", ids=1)
        orders = logs.partition("orders")
        for number in range(count):
            orders.data(number)
            orders.marker("COMMIT", number)
            logs.id(f"pay-{number:03}", "CompleteCommit", number)
        fleet = Fleet.of(listing(spark, [logs.write()]), Settings(), 1024)
        read = fleet.facts(whole=False)
        (row,) = read.selectExpr(
            "max(CASE WHEN type <> 'EndedCell' THEN length(payload) END) AS cell",
            "count_if(type <> 'ForDriver') AS rows",
            "sum(CASE type WHEN 'ForDriver' THEN length(payload) END) AS driver",
        ).collect()
        return row.cell, row.rows, row.driver

    few, many = largest(20), largest(200)
    # The decision twice, the use of a producer id, and that one's owner; ended transactions are a row for each part.
    assert 4 * 180 < many[1] - few[1] < 5 * 180
    assert many[0] < few[0] + 100
    assert many[2] < few[2] + 5000  # tasks add up answers: a row each, and their number varies


def test_a_file_that_a_running_broker_deletes_ends_no_look_at_the_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafkawire.spark.auditing.audit_job import are_small

    for name in ("kept.log", "gone.log"):
        (tmp_path / name).write_bytes(b"k")
    lstat = os.lstat

    def deleting(path: str) -> os.stat_result:
        Path(tmp_path, "gone.log").unlink(missing_ok=True)
        return lstat(path)

    monkeypatch.setattr(os, "lstat", deleting)
    assert are_small([str(tmp_path)])


@pytest.mark.parametrize("part_bytes", [PART_BYTES, 4])
def test_an_unexpected_error_costs_the_replica_that_it_is_raised_in(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    """Read by one task or in parts, the others have their findings, and the error is named with the replica; a table of
    transactions fails."""
    from kafkawire import spark as kafkawire_spark
    from kafkawire.spark.auditing import replica_parts

    logs = LogDirectory(tmp_path / "logs", ids=2)
    for number in range(3):
        logs.partition("orders", number).data(7, at=NOON)
    path, bad = logs.write(), str(tmp_path / "logs" / "orders-1")

    @contextmanager
    def fault() -> Iterator[None]:
        """In the process in which the block is."""
        with pytest.MonkeyPatch.context() as patch:
            reading, read = ReplicaMerge.reading, PartTask.read

            def raising(merge: ReplicaMerge, *given: Any) -> Iterator[None]:
                if merge._replica.partition.path == bad:
                    raise IndexError("out of range")
                return reading(merge, *given)

            def raising_part(task: PartTask) -> PartColumns:
                if bad in task.file.path:
                    raise IndexError("out of range")
                return read(task)

            patch.setattr(ReplicaMerge, "reading", raising)
            patch.setattr(PartTask, "read", raising_part)
            yield

    def with_fault(work: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def failing(*given: Any, **settings: Any) -> Iterator[Any]:
            with fault():
                yield from work(*given, **settings)

        return failing

    for name in ("_replayed", "_cells"):
        monkeypatch.setattr(replica_parts, name, with_fault(getattr(replica_parts, name)))
    found = kafkawire_spark.audit([path], spark=spark, part_bytes=part_bytes)
    assert {finding.partition for finding in found.findings} == {0, 2}
    assert not found.read.complete
    assert f"{bad} was not read: unexpected IndexError: out of range" in found.read.gaps
    with fault():
        local = transactions.audit(logdir.open(path), paths=(path,))
    assert found.read.gaps == local.read.gaps
    with pytest.raises(Exception, match="unexpected IndexError: out of range"):
        kafkawire_spark.transactions([path], spark=spark).count()
