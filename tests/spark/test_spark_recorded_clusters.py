"""A running copy of brokers and separate controllers on Spark: what hangs, and the answer of one machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkawire import logdir, transactions
from kafkawire.transactions import Settings
from tests.recorded_clusters import Copy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("cluster", ["cluster-controllers", "cluster-event-time"])
def test_the_audit_of_a_running_copy_is_that_of_one_machine(spark: SparkSession, cluster: str) -> None:
    from kafkawire import spark as kafkawire_spark

    copy = Copy(cluster, "forward")
    audit = kafkawire_spark.audit([str(copy.path)], Settings(), spark=spark)
    local = transactions.audit(logdir.open(str(copy.path)), Settings())
    assert audit.findings == local.findings
    assert audit.violations == local.violations
    assert audit.answers == local.answers
    assert (audit.read.gaps, audit.read.complete) == (local.read.gaps, local.read.complete)
    hanging = {(f.topic, f.partition, f.producer_id, f.start_offset) for f in audit.findings if f.verdict == "hanging"}
    assert hanging or not copy.one_clock
    assert hanging <= set(copy.left_open("hanging"))
