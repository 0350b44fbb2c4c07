"""Log directories of two clusters in one audit: as if each had been audited alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from kafkawire import logdir, rows, transactions
from kafkawire.transactions import Settings
from kafkawire.transactions.checks.check_names import CHECKS
from tests.worlds import World

LOGS = Path(__file__).parents[2] / "examples" / "kafka-logs"
NAMES = ("one-node", "three-nodes")


def plain(finding: rows.Finding) -> rows.Finding:
    return replace(finding, age_ms=None, evidence=(), premises=())


@pytest.mark.slow
def test_clusters_that_share_topics_and_producer_ids_are_judged_apart() -> None:
    alone = [transactions.audit(logdir.open(str(LOGS / name))) for name in NAMES]
    together = transactions.audit(logdir.open(str(LOGS)))
    expected = {plain(finding) for audit in alone for finding in audit.findings}
    assert {plain(finding) for finding in together.findings} == expected
    assert len({(f.topic, f.partition, f.start_offset) for f in together.findings}) < len(expected)
    # Ages count from each cluster's own clock.
    assert {f.age_ms for f in together.findings} == {f.age_ms for audit in alone for f in audit.findings}
    assert together.read.partitions == sum(audit.read.partitions for audit in alone)
    assert together.read.clusters == tuple(sorted({f.cluster_id for f in together.findings if f.cluster_id}))
    assert len(together.read.clusters) == 2
    assert together.read.clock is not None
    for cluster in together.read.clusters:
        assert f"cluster {cluster}: " in together.read.clock
    assert together.as_of == max(audit.as_of or 0 for audit in alone)


@pytest.mark.slow
def test_a_given_clock_counts_for_all() -> None:
    as_of = 1_800_000_000_000
    audit = transactions.audit(logdir.open(str(LOGS)), Settings(as_of=as_of))
    assert audit.as_of == as_of
    assert {finding.age_ms for finding in audit.findings} == {
        as_of - (finding.last_timestamp or 0) for finding in audit.findings
    }


@pytest.mark.slow
def test_a_directory_that_names_no_cluster_belongs_to_the_only_one(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(LOGS / "three-nodes", tmp_path / "copy")
    for path in (tmp_path / "copy").glob("*/meta.properties"):
        if "broker-1" not in str(path):
            lines = path.read_text("utf-8").splitlines(keepends=True)
            path.write_text("".join(line for line in lines if not line.startswith("cluster.id")), "utf-8")
    audit = transactions.audit(logdir.open(str(tmp_path / "copy")))
    whole = transactions.audit(logdir.open(str(LOGS / "three-nodes")))
    assert {plain(finding) for finding in audit.findings} == {plain(finding) for finding in whole.findings}


def test_rules_are_judged_cluster_by_cluster(tmp_path: Path) -> None:
    """Two clusters use the same topics, producer ids and transactional ids; taken for one they would break rules."""
    for name in ("a", "b"):
        world = World(tmp_path / name, 5)
        if name == "b":
            world.run(3)
        world.run()
        world.finish()
        (world.logs.root / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={name}\n")
    both = transactions.audit(logdir.open(tmp_path))
    assert both.violations == ()
    assert [answer.check for answer in both.answers] == list(CHECKS)
    assert {setting.source.split(":")[0] for setting in both.read.settings} == {"cluster a", "cluster b"}
    one, other = (transactions.audit(logdir.open(tmp_path / name)) for name in ("a", "b"))
    held = {answer.check: answer.held for answer in both.answers}
    for answer, again in zip(one.answers, other.answers, strict=True):
        assert held[answer.check] == answer.held + again.held
    for path in tmp_path.rglob("meta.properties"):
        path.unlink()
    assert {row.check for row in transactions.audit(logdir.open(tmp_path)).violations} >= {"replicas_agree"}
