"""The table of violations has all of them, and the answer the first hundred of a rule in a partition."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire import logdir, rows, transactions
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
    from kafkawire import spark as room

    paths = [broken(tmp_path, broker) for broker in range(2)]
    answer = room.audit(paths, spark=spark, part_bytes=1 << 12, save=room.TableOutput(path=str(tmp_path / "lake")))
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
