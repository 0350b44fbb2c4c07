"""Share groups on Spark: the answers of the rules, and the ranges of offsets, are those of one machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkawire import logdir, transactions
from kafkawire.offsets.copied_shares import explained_shares, share_group_names
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_audit import clusters, with_shares
from kafkawire.rows import ShareRange
from kafkawire.transactions.checks.check_names import SHARE_CHECKS
from tools.audit_faults import shares
from tools.recordings import share_groups
from tools.recordings.archive import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def copies() -> list[str]:
    """Of two clusters, which have groups of the same names."""
    return [str(unpacked(share_groups.NAME) / f"kafka-{version}") for version in ("4.4.0", "4.2.0")]


def test_the_audit_of_two_clusters_is_that_of_one_machine(spark: SparkSession) -> None:
    from kafkawire import spark as kafkawire_spark

    directory = logdir.open(*copies())
    local = with_shares(transactions.audit(directory, paths=tuple(copies())), directory)
    audit = kafkawire_spark.audit(copies(), spark=spark)
    assert set(SHARE_CHECKS) <= set(audit.read.checks)
    assert [one for one in audit.answers if one.check in SHARE_CHECKS] == [
        one for one in local.answers if one.check in SHARE_CHECKS
    ]
    assert audit.violations == local.violations
    assert [one.check for one in audit.violations] == ["share_dead_letter"]


def test_planted_faults_of_all_rules_are_found_alike(spark: SparkSession, tmp_path: Path) -> None:
    from kafkawire import spark as kafkawire_spark

    assert shares.outcomes(tmp_path / "copy", "4.4.0", rounds=1).missed == []
    audit = kafkawire_spark.audit([str(tmp_path / "copy")], spark=spark)
    found = [one for one in audit.violations if one.check in SHARE_CHECKS]
    assert {one.check for one in found} == set(SHARE_CHECKS)
    assert found == shares.found(tmp_path / "copy")


def test_the_ranges_of_all_groups_are_those_of_one_machine(spark: SparkSession) -> None:
    from kafkawire.spark import share_offsets

    wanted = set()
    for _, part in clusters(logdir.open(*copies())):
        replicas = LeadingReplicas(part)
        for group in share_group_names(replicas)[0]:
            for share in explained_shares(replicas, group)[0]:
                wanted |= {
                    (part.brokers[0].cluster_id, row.group, row.topic, row.partition, row.first_offset,
                     row.last_offset, row.status, row.reason, row.delivery_count)
                    for row in share.rows(None)
                    if isinstance(row, ShareRange)
                }  # fmt: skip
    table = share_offsets(copies(), spark)
    found = table.select(
        "cluster", "group", "topic", "partition", "first_offset", "last_offset", "status", "reason", "delivery_count"
    )
    listed = [tuple(row) for row in found.collect()]
    assert len(listed) == len(set(listed)) > 100
    assert set(listed) == wanted
    assert table.where("offsets <> last_offset - first_offset + 1 OR doubt IS NOT NULL").count() == 0
    assert {row.topic for row in table.select("topic").distinct().collect()} >= {"orders", "ledger", "trimmed"}


def test_directories_without_share_groups_have_no_ranges(spark: SparkSession) -> None:
    from kafkawire.spark import share_offsets

    assert share_offsets(["examples/kafka-logs/one-node"], spark).count() == 0
