"""What the metadata log says: its newest snapshot, then its records; what cannot be read is passed over."""

from __future__ import annotations

from pathlib import Path

from kafkawire import logdir
from kafkawire.messages import ProducerIdsRecord
from kafkawire.records import Record, build
from kafkawire.transactions.cluster_metadata import handed_out, read_metadata
from kafkawire.transactions.facts import ClusterMetadata
from kafkawire.transactions.replica_files import replicas
from tests.worlds import World


def read(world: World) -> ClusterMetadata:
    (found,) = read_metadata(replicas(logdir.open(world.logs.root))).values()
    return found


def test_ignores_settings_that_were_removed_again(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    world.configure("producer.id.expiration.ms", "60000")
    world.configure("producer.id.expiration.ms", "70000", broker="2")
    world.configure("producer.id.expiration.ms", None)
    world.configure("transaction.max.timeout.ms", None)
    world.logs.write()
    assert read(world).configs == {("2", "producer.id.expiration.ms"): "70000"}


def test_a_checkpoint_has_the_first_free_producer_id_and_no_blocks(tmp_path: Path) -> None:
    """Blocks are ordered in the log; a snapshot has the newest only, and may overlap the log."""
    world = World(tmp_path, 1)
    world.logs.write()
    alone = read(world)
    body = ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=99_000).encode(version=0)
    record = Record(value=bytes((1, ProducerIdsRecord.spec.api_key or 0, 0)) + body, timestamp=world.now)
    snapshot = world.metadata.directory / f"{world.metadata.end:020}-0000000001.checkpoint"
    snapshot.write_bytes(build([record], base_offset=0))
    both = read(world)
    assert both.handed_out.blocks == alone.handed_out.blocks
    assert (alone.handed_out.checkpointed, both.handed_out.checkpointed) == (None, 99_000)
    assert (alone.next_producer_id, both.next_producer_id) == (world.next_producer_id + 1000, 99_000)
    assert handed_out([alone, both]) == 99_000


def test_a_segment_that_is_gone_is_passed_over(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    world.metadata.roll()
    world.hand_out(50_000)
    world.logs.write()
    first = world.metadata.directory / f"{0:020}.log"
    first.unlink()
    first.symlink_to(first.parent / "gone")
    found = read(world)
    assert (found.next_producer_id, found.transaction_state_partitions) == (50_000, None)
