"""What the metadata log says: its newest snapshot, then its records; what cannot be read is passed over."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from kafkawire import logdir, records
from kafkawire.messages import (
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kafkawire.records import Record, build
from kafkawire.transactions.cluster.cluster_metadata import handed_out, read_metadata
from kafkawire.transactions.facts import ClusterMetadata
from tests.records.record_bytes import kip853_header, snapshot_footer
from tests.worlds import IDS, World


def read(world: World) -> ClusterMetadata:
    (found,) = read_metadata(logdir.open(world.logs.root).partitions).values()
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


def checkpoint(world: World, *parts: bytes) -> Path:
    """Put a checkpoint in the place of the metadata log."""
    for old in world.metadata.directory.iterdir():
        old.unlink()
    path = world.metadata.directory / f"{world.metadata.end:020}-0000000001.checkpoint"
    path.write_bytes(b"".join(parts))
    (world.metadata.directory / f"{world.metadata.end:020}.log").write_bytes(b"")
    return path


def metadata_records(world: World) -> bytes:
    """The records of the metadata log, as a checkpoint has them: from offset 3 on, in a batch."""
    found = [record for _, data in world.metadata.segments for batch in read_batches(bytes(data)) for record in batch]
    return build([Record(value=record.value, timestamp=record.timestamp) for record in found], base_offset=3)


def read_batches(data: bytes) -> list[list[Record]]:
    return [list(batch.records) for batch in records.read(data) if isinstance(batch, records.Batch)]


def test_a_checkpoint_under_kip_853_is_read_whole(tmp_path: Path) -> None:
    """Its first batch holds records of three kinds."""
    world = World(tmp_path, 1)
    world.logs.write()
    held = metadata_records(world)
    checkpoint(world, kip853_header(until=world.now), held, snapshot_footer(99))
    found = read(world)
    assert (found.complete, found.gaps, found.since_checkpoint) == (True, (), True)
    assert (found.transaction_state_partitions, found.handed_out.newest) == (IDS, world.now)


def test_a_checkpoint_without_its_footer_is_incomplete(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    world.logs.write()
    path = checkpoint(world, kip853_header(), metadata_records(world))
    found = read(world)
    assert (found.complete, found.since_checkpoint) == (False, False)
    assert found.gaps == (f"{path} ends without its SNAPSHOT_FOOTER: records behind its end may be missing",)


def test_a_header_that_cannot_be_read_is_named_with_its_place(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    world.logs.write()
    bad = build([Record(key=b"\0\0\0\3", value=b"\0")], base_offset=98, control=True)
    held = metadata_records(world)
    path = checkpoint(world, held, bad, snapshot_footer(99))
    (gap,) = read(world).gaps
    assert gap.startswith(f"{path}: at byte {len(held)}: SnapshotHeaderRecord")


def test_a_record_that_cannot_be_decoded_is_named_with_its_place(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    before = len(world.metadata.segments[0][1])
    offset = world.control(TopicRecord.spec.api_key or 0, b"\xff")
    world.logs.write()
    found = read(world)
    assert not found.complete
    (gap,) = found.gaps
    path = world.metadata.directory / f"{0:020}.log"
    assert gap.startswith(f"{path}: at byte {before}: the record at offset {offset}: ")


def test_a_missing_segment_and_one_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    world.metadata.roll()
    base = world.metadata.end
    world.hand_out(50_000)
    world.logs.write()
    first = world.metadata.directory / f"{0:020}.log"
    first.unlink()
    assert read(world).gaps == (
        f"{world.metadata.directory}: offsets 0 to {base - 1} are in no checkpoint and no segment",
    )
    first.mkdir()
    first.rmdir()
    first.symlink_to(first.parent / "gone")
    assert any(f"{first}: at byte 0: " in gap for gap in read(world).gaps)


def test_gaps_of_a_log_that_is_damaged_everywhere_are_counted(tmp_path: Path) -> None:
    world = World(tmp_path, 1)
    for _ in range(50):
        world.control(TopicRecord.spec.api_key or 0, b"\xff")
    world.logs.write()
    assert len(read(world).gaps) == 21
    assert read(world).gaps[-1] == "30 more places of __cluster_metadata could not be read"


def test_the_brokers_and_directories_of_partitions_follow_the_log(tmp_path: Path) -> None:
    """Reassigned, moved between a broker's directories, removed."""
    world = World(tmp_path, 1)
    a, b, topic, gone = UUID(int=101), UUID(int=102), UUID(int=8), UUID(int=9)
    for name, id in (("orders", topic), ("gone", gone)):
        world.control(2, TopicRecord(name=name, topic_id=id).encode(version=0))
        for number in range(2):
            record = PartitionRecord(partition_id=number, topic_id=id, replicas=(1, 2), directories=(a, b))
            world.control(3, record.encode(version=1), 1)
    change = PartitionChangeRecord(partition_id=1, topic_id=topic, directories=(b, b))
    world.control(5, change.encode(version=1), 1)
    change = PartitionChangeRecord(partition_id=0, topic_id=topic, replicas=(3,))
    world.control(5, change.encode(version=0))
    world.control(9, RemoveTopicRecord(topic_id=gone).encode(version=0))
    world.logs.write()
    found = read(world)
    assert {place: of for place, of in found.assigned.items() if place[0] != "__transaction_state"} == {
        ("orders", 0): ((3, None),),
        ("orders", 1): ((1, b), (2, b)),
    }
    assert found.removed == {"gone"}
