"""Numbers in a broker's files that no broker writes: only the content of that file is lost, and all brokers are
audited."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkawire import logdir, transactions
from kafkawire.messages import ConfigRecord
from kafkawire.records import Record
from kafkawire.rows import Audit
from kafkawire.transactions import Settings
from kafkawire.transactions.cluster.cluster_metadata import MOST_PARTITIONS
from kafkawire.wire.write import uvarint
from tests.audit_logs import HOUR, NOON, LogDirectory

OLD = NOON - 3 * HOUR
LONG = "1" * 5000


@pytest.fixture
def brokers(tmp_path: Path) -> list[LogDirectory]:
    """Two brokers, of which the second has a hanging transaction."""
    one, two = LogDirectory(tmp_path / "one"), LogDirectory(tmp_path / "two", ids=0)
    one.id("other", "CompleteCommit", 9, 1, at=NOON)
    two.partition("orders").data(1, at=OLD)
    two.partition("orders").marker("COMMIT", 9, at=NOON)
    for broker in (one, two):
        broker.write()
    return [one, two]


def audit(brokers: list[LogDirectory], partitions: int | None = 3) -> Audit:
    directory = logdir.open(*(str(broker.root) for broker in brokers))
    return transactions.audit(directory, Settings(transaction_state_partitions=partitions))


@pytest.mark.parametrize("number", [LONG, str(1 << 31), "-1", "\u0663"])
@pytest.mark.parametrize("name", ["node.id", "broker.id"])
def test_an_absurd_node_id_costs_only_that_brokers_id(brokers: list[LogDirectory], number: str, name: str) -> None:
    """And with it the proof that both directories are of one broker, and so of one moment."""
    properties = brokers[0].root / "meta.properties"
    properties.write_text(f"version=1\n{name}={number}\ncluster.id=test\n", "utf-8")
    found = audit(brokers)
    assert [(one.verdict, one.reason) for one in found.findings] == [("unknown", "coverage_incomplete")]
    assert found.read.brokers == (1,)
    assert found.read.clusters == ("test",)
    (damage,) = found.damage
    assert (damage.file, damage.position, damage.reason) == (str(properties), 10, "bad_line")
    assert damage.detail == f"{name} is no broker's id: {number[:50]!r}"


@pytest.mark.parametrize("number", [LONG, str(1 << 63)])
def test_an_absurd_checkpoint_line_costs_only_that_line(brokers: list[LogDirectory], number: str) -> None:
    path = brokers[1].root / "replication-offset-checkpoint"
    path.write_text(f"0\n2\norders 0 2\norders 1 {number}\n")
    found = audit(brokers)
    assert [(one.verdict, one.high_watermark) for one in found.findings] == [("hanging", 2)]
    assert [(one.file, one.reason) for one in found.damage] == [(str(path), "bad_line")]


def test_an_absurd_partition_number_does_not_raise_the_expected_count(brokers: list[LogDirectory]) -> None:
    """The partitions that are missing are listed: two billion would not fit into memory."""
    for number in (MOST_PARTITIONS, (1 << 31) - 1):
        brokers[0].partition("__transaction_state", number)
    brokers[0].write()
    found = audit(brokers, None)
    assert found.read.transaction_state == (0, 1, 2, MOST_PARTITIONS, (1 << 31) - 1)
    assert found.read.transaction_state_missing == tuple(range(3, 50))


def test_ignores_a_setting_that_is_no_number(brokers: list[LogDirectory]) -> None:
    metadata = brokers[0].partition("__cluster_metadata")
    for number in (LONG, str(1 << 63), "\u0663"):
        record = ConfigRecord(resource_type=4, name="producer.id.expiration.ms", resource_name="", value=number)
        body = uvarint(1) + uvarint(4) + uvarint(0) + record.encode(version=0)
        metadata.records([Record(value=body, timestamp=NOON)])
    brokers[0].write()
    found = audit(brokers)
    (setting,) = (one for one in found.read.settings if one.name == "producer.id.expiration.ms")
    assert (setting.value, setting.source) == (86_400_000, "Kafka's default")


def test_a_log_whose_name_no_offset_has_ends_no_audit(brokers: list[LogDirectory]) -> None:
    path = brokers[1].root / "orders-0"
    (path / "99999999999999999999.log").write_bytes((path / f"{0:020}.log").read_bytes())
    assert [one.verdict for one in audit(brokers).findings] == ["hanging"]
