"""Recorded hanging transactions on Spark: the verdicts of the truth table, as on one machine (tests/transactions)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from kafkawire import logdir, transactions
from kafkawire.transactions import Settings
from tools.recordings.archive import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

HANGING = unpacked("hanging-transactions")
TRUTH: dict[str, Any] = json.loads((HANGING / "truth.json").read_text("utf-8"))


def test_every_open_transaction_is_called_what_it_is_and_nothing_else_is(spark: SparkSession) -> None:
    from kafkawire import spark as kafkawire_spark

    settings = Settings(as_of=TRUTH["later"])
    audit = kafkawire_spark.audit([str(HANGING)], settings, spark=spark)
    found = {(f.topic, f.partition, f.start_offset, f.verdict, f.reason, f.blocked) for f in audit.findings}
    expected = {
        (o["topic"], o["partition"], o["start_offset"], o["later"]["verdict"], o["later"]["reason"], o["blocked"])
        for o in TRUTH["open"]
    }
    assert found == expected
    assert audit.read.complete
    local = transactions.audit(logdir.open(str(HANGING)), settings)
    assert audit.violations == local.violations
    assert audit.answers == local.answers
