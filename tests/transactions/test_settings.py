"""Settings: as given, else from the metadata log, else Kafka's defaults; and that they count."""

from __future__ import annotations

from pathlib import Path

from kafkawire import logdir, transactions
from kafkawire.rows import Audit
from kafkawire.transactions import Settings
from tests.audit_logs import HOUR
from tests.worlds import World


def sound(root: Path, seed: int) -> World:
    world = World(root, seed)
    world.run(10)
    return world


def audit(world: World) -> Audit:
    return transactions.audit(logdir.open(world.root), Settings(as_of=world.now - HOUR))


def test_settings_come_from_the_metadata_log(tmp_path: Path) -> None:
    world = sound(tmp_path, 1)
    world.configure("producer.id.expiration.ms", "60000")
    world.configure("producer.id.expiration.ms", "70000", broker="2")
    world.configure("transaction.max.timeout.ms", "soon")
    world.configure("log.retention.ms", "5")
    world.finish()
    found = {setting.name: setting for setting in audit(world).read.settings}
    path = world.metadata.directory
    values = {name: (setting.value, setting.source) for name, setting in found.items()}
    assert values == {
        "transaction.max.timeout.ms": (900_000, "Kafka's default"),
        "producer.id.expiration.ms": (70_000, f"the configuration of broker 2 in {path}"),
        "transactional.id.expiration.ms": (604_800_000, "Kafka's default"),
        "transaction.state.log.num.partitions": (4, f"the partitions of the topic in {path}"),
    }
    given = Settings(
        max_timeout_ms=1, producer_id_expiration_ms=2, transactional_id_expiration_ms=3, transaction_state_partitions=5
    )
    rows = transactions.audit(logdir.open(world.root), given).read.settings
    assert [(row.value, row.source) for row in rows] == [(n, "given") for n in (1, 2, 3, 5)]


def test_the_expiration_that_the_cluster_has_set_counts(tmp_path: Path) -> None:
    """A producer whose state may have expired can begin anew, with any sequence number."""
    for seconds, checks in ((60, set()), (86_400, {"sequence_contiguous"})):
        world = sound(tmp_path / str(seconds), 1)
        world.configure("producer.id.expiration.ms", str(1000 * seconds))
        producer_id = world.producer_id()
        for sequence in (0, 40):
            world.orders[0].data(producer_id, at=world.tick(120_000), sequence=sequence, transactional=False)
        world.finish()
        assert {violation.check for violation in audit(world).violations} == checks
