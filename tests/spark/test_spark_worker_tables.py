"""Tables that workers write have all findings, violations and damaged places; the answer has the first of them, and
the number of the others."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import pyarrow as pa

from kafkawire import logdir, rows, transactions
from kafkawire.rows import arrow
from kafkawire.transactions.answers import (
    MAX_BREACHES,
    ONE_OUTCOME,
    PREPARE_COMPLETED,
    REPLICAS_AGREE,
    SEQUENCE_CONTIGUOUS,
)
from tests.audit_logs import MINUTE, NOON, LogDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MANY = MAX_BREACHES + 30


def broken(folder: Path, broker: int) -> str:
    """Rules that are broken in the log, against decisions, between replicas, and by ids that do not complete."""
    logs = LogDirectory(folder / f"broker-{broker}", ids=1)
    gaps, ended, copied = (logs.partition(name) for name in ("gaps", "ended", "copied"))
    for number in range(MANY):
        gaps.data(7, sequence=2 * number, transactional=False)
        ended.data(100 + number)
        ended.marker("COMMIT", 100 + number)
        logs.id(f"pay-{number:03}", "CompleteAbort", 100 + number, version=0)
        copied.plain(at=NOON + broker)
        logs.id(f"stuck-{number:03}", "PrepareCommit", 1000 + number, at=NOON - 60 * MINUTE)
    for name in ("gaps", "ended", "copied"):
        logs.high_watermark(name, 0, 10 * MANY)
    return logs.write()


def test_has_every_violation(spark: SparkSession, tmp_path: Path) -> None:
    from kafkawire import spark as kafkawire_spark

    paths = [broken(tmp_path, broker) for broker in range(2)]
    answer = kafkawire_spark.audit(
        paths, spark=spark, part_bytes=1 << 8, save=kafkawire_spark.TableOutput(path=str(tmp_path / "lake"))
    )
    local = transactions.audit(logdir.open(*paths), paths=tuple(paths))
    assert answer == local
    table = spark.read.parquet(str(tmp_path / "lake" / "violations")).collect()
    by_rule = Counter(row.check for row in table)
    assert by_rule == {one.check: one.violated for one in answer.answers if one.violated}
    assert {check for check, count in by_rule.items() if count >= MANY} >= {
        SEQUENCE_CONTIGUOUS, ONE_OUTCOME, REPLICAS_AGREE, PREPARE_COMPLETED,
    }  # fmt: skip
    more = [one for one in answer.violations if " more, after the first " in one.what]
    assert more
    written = {tuple(row) for row in table}
    assert len(written) == len(table)
    names = rows.Violation.__struct_fields__
    kept = [tuple(msgspec.structs.asdict(one)[name] for name in names) for one in answer.violations if one not in more]
    assert [row for row in kept if row not in written] == []


def crowded(folder: Path, count: int) -> str:
    """As many open transactions as damaged batches: some hang, some were decided, of some the id is not known."""
    logs = LogDirectory(folder, ids=1)
    opens, torn = logs.partition("opens"), logs.partition("torn")
    for number in range(count):
        opens.data(number, at=NOON - 60 * MINUTE)
        torn.plain()
        torn.segments[-1][1][-1] ^= 1
        torn.plain()
        if number % 3 == 0:
            logs.id(f"stuck-{number:05}", "PrepareCommit", number, 0, ("opens", 0), at=NOON - 60 * MINUTE)
    logs.id("newest", "Empty", count, at=NOON)
    return logs.write()


def test_answer_has_the_first_findings_and_damaged_places(spark: SparkSession, tmp_path: Path) -> None:
    from kafkawire import spark as kafkawire_spark

    count, most = 3000, 50
    path = crowded(tmp_path / "broker-0", count)
    settings = transactions.Settings(transaction_state_partitions=1)
    local = transactions.audit(logdir.open(path), settings, paths=(path,))
    assert len(local.findings) == len(local.damage) == count
    output = kafkawire_spark.TableOutput(path=str(tmp_path / "lake"))
    answer = kafkawire_spark.audit([path], settings, spark=spark, part_bytes=1 << 13, save=output, most_rows=most)
    assert (answer.findings, answer.damage) == (local.findings[:most], local.damage[:most])
    assert (answer.answers, answer.violations, answer.read) == (local.answers, local.violations, local.read)
    not_listed = Counter((one.verdict, one.reason, one.blocked) for one in local.findings[most:])
    assert {(one.verdict, one.reason, one.blocked): one.count for one in answer.omitted[:-1]} == not_listed
    damage = rows.Omitted(rows="damage", reason=local.damage[0].reason, harmless=False, count=count - most)
    assert answer.omitted[-1] == damage
    for name, expected in (("findings", local.findings), ("damage", local.damage)):
        table = spark.read.parquet(str(tmp_path / "lake" / name)).toArrow()
        assert sorted(table.to_pylist(), key=repr) == sorted(table_of(expected).to_pylist(), key=repr)


def table_of(found: Sequence[rows.Row]) -> pa.Table:
    schema = arrow.schema([type(found[0])])
    return pa.Table.from_batches(arrow.batches(found, schema), schema)


def test_driver_takes_no_more_of_more_findings_and_damage(spark: SparkSession, tmp_path: Path) -> None:
    from kafkawire.spark.auditing.audit_tables import for_driver
    from kafkawire.spark.auditing.replica_parts import DriverFacts, Fleet
    from kafkawire.spark.listing.fleet_listing import listing

    def taken(count: int) -> tuple[int, int, int]:
        paths = [crowded(tmp_path / f"{count}", count)]
        fleet = Fleet.of(listing(spark, paths), transactions.Settings(), 1 << 16)
        read = fleet.facts(whole=False)
        found = [one for one in for_driver(read) if isinstance(one, DriverFacts)]
        size = sum(len(pickle.dumps(one)) for one in found)
        return size, sum(one.opens for one in found), sum(one.damaged for one in found)

    few, many = taken(20), taken(2000)
    assert (few[1:], many[1:]) == ((20, 20), (2000, 2000))
    assert many[0] < few[0] + 500


def test_a_folder_without_a_table_in_it_is_refused_before_the_work(spark: SparkSession, tmp_path: Path) -> None:
    """A run that was killed leaves one, and Spark does not write to it."""
    from kafkawire import spark as kafkawire_spark
    from kafkawire.spark.errors import SparkError

    output = kafkawire_spark.TableOutput(path=str(tmp_path), format="parquet")
    output.check(spark)
    (tmp_path / "violations" / "_temporary").mkdir(parents=True)
    with pytest.raises(SparkError, match="violations exists: choose another place"):
        output.check(spark)
