"""A partition that a log directory must hold is there, read to its high watermark, or named."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kafkawire import logdir
from kafkawire.messages import PartitionChangeRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from kafkawire.rows import Audit
from kafkawire.transactions import audit
from kafkawire.transactions.parts.manifest import listed
from kafkawire.transactions.verdict.completeness import outcome
from tests.worlds import PARTITIONS, TOPIC, World

ORDERS = UUID(int=77)
HERE, THERE = UUID(int=1001), UUID(int=1002)


def finished(root: Path, seed: int = 1, *, checkpoints: bool = True) -> World:
    world = World(root, seed)
    world.run()
    world.finish(checkpoints=checkpoints)
    return world


def assigned(
    root: Path,
    *,
    brokers: Sequence[int] = (1,),
    directories: Sequence[UUID] = (),
    removed: bool = False,
    checkpoints: bool = True,
    partitions: int = PARTITIONS,
) -> World:
    """A world whose metadata log has the topic of the data."""
    world = World(root, 1)
    world.control(2, TopicRecord(name=TOPIC, topic_id=ORDERS).encode(version=0))
    for number in range(partitions):
        record = PartitionRecord(
            partition_id=number, topic_id=ORDERS, replicas=tuple(brokers), directories=tuple(directories)
        )
        version = 1 if directories else 0
        world.control(3, record.encode(version=version), version)
    if removed:
        world.control(9, RemoveTopicRecord(topic_id=ORDERS).encode(version=0))
    world.run()
    world.finish(checkpoints=checkpoints)
    return world


def audited(*paths: Path) -> Audit:
    return audit(logdir.open(*paths), paths=tuple(map(str, paths)))


def gaps(*paths: Path) -> tuple[str, ...]:
    found = audited(*paths)
    (reach,) = (one for one in found.read.premises if one.name == "reach")
    assert reach.holds == (not found.read.gaps) == found.read.complete
    assert outcome(found).complete == (not outcome(found).missing)
    return found.read.gaps


def identity(root: Path, node: int, directory: UUID | None = None) -> None:
    import base64

    id = "" if directory is None else base64.urlsafe_b64encode(directory.bytes).decode().rstrip("=")
    (root / "meta.properties").write_text(f"version=1\nnode.id={node}\ncluster.id=test\ndirectory.id={id}\n")


@pytest.mark.parametrize("seed", range(8))
def test_each_partition_that_is_taken_away_is_named(tmp_path: Path, seed: int) -> None:
    """Whichever they are, of data or of a coordinator."""
    world = finished(tmp_path, seed)
    root, chosen = world.logs.root, random.Random(seed)
    assert gaps(root) == ()
    lost = chosen.sample(sorted(world.logs.partitions), chosen.randrange(1, len(world.logs.partitions)))
    for topic, number in lost:
        shutil.rmtree(root / f"{topic}-{number}")
    expected = f"{root} does not hold {listed(lost)}, which replication-offset-checkpoint there names"
    assert expected in gaps(root)


def test_other_checkpoints_name_partitions_too(tmp_path: Path) -> None:
    world = finished(tmp_path, checkpoints=False)
    root = world.logs.root
    (root / "recovery-point-offset-checkpoint").write_text("0\n1\nother 4 9\n")
    (root / "cleaner-offset-checkpoint").write_text("0\n2\nother 4 9\norders 0 1\n")
    names = "recovery-point-offset-checkpoint, cleaner-offset-checkpoint"
    (gap,) = gaps(root)
    assert gap in {
        f"{root} does not hold other-4, which {names} there names",
        f"{root} does not hold other-4, which {', '.join(reversed(names.split(', ')))} there names",
    }


@pytest.mark.parametrize("file", ["replication-offset-checkpoint", "recovery-point-offset-checkpoint"])
def test_a_log_that_ends_below_a_checkpoint_is_named(tmp_path: Path, file: str) -> None:
    world = finished(tmp_path, checkpoints=False)
    end, root = world.orders[1].end, world.logs.root
    (root / file).write_text(f"0\n1\n{TOPIC} 1 {end}\n")
    assert gaps(root) == ()
    (root / file).write_text(f"0\n1\n{TOPIC} 1 {end + 1}\n")
    assert gaps(root) == (f"{root / TOPIC}-1 ends at offset {end}, and {file} has {end + 1}",)
    assert gaps(*root.iterdir()) == gaps(root)


def test_a_replica_that_reaches_the_high_watermark_of_another_is_enough(tmp_path: Path) -> None:
    """A follower that was copied earlier has less than its checkpoint, which was copied later."""
    world = World(tmp_path, 2)
    world.run()
    world.finish()
    other = world.replicate()
    other.write()
    for log in other.partitions.values():
        log.derive()
    follower = other.root / f"{TOPIC}-0" / f"{world.orders[0].segments[-1][0]:020}.log"
    follower.write_bytes(b"")
    assert any(f"{TOPIC}-0 ends at" in gap for gap in gaps(other.root))
    assert gaps(world.logs.root, other.root) == ()


def test_a_folder_without_a_segment_is_named(tmp_path: Path) -> None:
    world = finished(tmp_path, checkpoints=False)
    for log in (world.logs.root / f"{TOPIC}-2").glob("*.log"):
        log.unlink()
    assert gaps(world.logs.root) == (f"{world.logs.root}: no segment is in the folders of {TOPIC}-2",)


def test_partitions_that_were_given_by_name_do_not_make_others_gaps(tmp_path: Path) -> None:
    world = assigned(tmp_path)
    root = world.logs.root
    shutil.rmtree(root / f"{TOPIC}-0")
    assert gaps(root) != ()
    given = [folder for folder in root.iterdir() if folder.is_dir()]
    assert gaps(*given) == ()
    assert gaps(*(file for folder in given for file in folder.iterdir())) == ()


def test_the_metadata_log_names_what_its_brokers_must_hold(tmp_path: Path) -> None:
    world = assigned(tmp_path, checkpoints=False, partitions=5)
    root = world.logs.root
    where = root / "__cluster_metadata-0"
    assert gaps(root) == (f"{root} does not hold partitions 3-4 of orders, which {where} assigns to it",)


def test_a_partition_of_which_no_replica_was_given_is_named(tmp_path: Path) -> None:
    """A broker whose directory was not given is no gap by itself."""
    assert gaps(assigned(tmp_path / "a", brokers=(1, 5)).logs.root) == ()
    world = assigned(tmp_path / "b", brokers=(5,), partitions=4)
    assert gaps(world.logs.root) == ("orders-3: no replica of it was given",)


@pytest.mark.parametrize(
    ("changes", "gap"),
    [
        ((), None),
        (({"isr": (1,)},), None),  # it leads no more, and is in sync
        (({"leader": 5, "isr": (5,)},), "broker 5 had those in sync"),
        (({"leader": 5, "isr": (5,)}, {"isr": (5, 1)}), None),  # it came back
        (({"leader": 5, "isr": (5, 7)}, {"leader": 7}), "brokers 5, 7 had those in sync"),
        (({"leader": -1, "isr": (), "eligible_leader_replicas": (5,)},), "broker 5 had those in sync"),
        (
            ({"leader": 5, "isr": (5,), "eligible_leader_replicas": (1,)},),
            None,
        ),  # all below the high watermark (KIP-966)
        (({"leader": -1, "isr": ()},), None),  # no broker is known to have more
    ],
)
def test_a_replica_that_was_left_behind_proves_nothing(
    tmp_path: Path, changes: Sequence[dict[str, Any]], gap: str | None
) -> None:
    """The disk of broker 1 failed, broker 5 leads: what began or ended there since is not on the failed disk."""
    world = World(tmp_path, 1)
    world.control(2, TopicRecord(name=TOPIC, topic_id=ORDERS).encode(version=0))
    for number in range(PARTITIONS):
        record = PartitionRecord(
            partition_id=number, topic_id=ORDERS, replicas=(1, 5, 7), isr=(1, 5, 7), leader=1, leader_epoch=0
        )
        world.control(3, record.encode(version=2), 2)
    for change in changes:
        record_ = PartitionChangeRecord(partition_id=1, topic_id=ORDERS, **change)
        world.control(5, record_.encode(version=2), 2)
    world.run()
    world.finish()
    identity(world.logs.root, 1)
    expected = () if gap is None else (f"orders-1: only replicas that were not in sync were given; {gap}",)
    assert gaps(world.logs.root) == expected
    if gap is not None and "5" in gap:
        other = world.replicate()
        other.write()
        identity(other.root, 5)
        assert gaps(world.logs.root, other.root) == ()
        (world.logs.root / "meta.properties").unlink()  # whose it is is not known
        assert gaps(world.logs.root) == ()


def test_a_line_of_a_topic_that_was_removed_is_old(tmp_path: Path) -> None:
    world = assigned(tmp_path, removed=True)
    for number in range(PARTITIONS):
        shutil.rmtree(world.logs.root / f"{TOPIC}-{number}")
    assert gaps(world.logs.root) == ()


def test_a_line_of_a_replica_that_went_to_another_broker_is_old(tmp_path: Path) -> None:
    world = assigned(tmp_path, brokers=(2,))
    shutil.rmtree(world.logs.root / f"{TOPIC}-0")
    assert gaps(world.logs.root) == ("orders-0: no replica of it was given",)


@pytest.mark.parametrize("state", ["delete", "future"])
def test_a_line_of_a_replica_that_is_removed_or_not_live_yet_is_no_gap(tmp_path: Path, state: str) -> None:
    world = finished(tmp_path)
    folder = world.logs.root / f"{TOPIC}-0"
    folder.rename(world.logs.root / f"{TOPIC}-0.{'ab' * 16}-{state}")
    assert gaps(world.logs.root) == ()


def test_a_stray_replica_is_named_and_is_not_the_broker_s(tmp_path: Path) -> None:
    world = finished(tmp_path, checkpoints=False)
    (world.logs.root / f"{TOPIC}-0").rename(world.logs.root / f"{TOPIC}-0.{'ab' * 16}-stray")
    found = audited(world.logs.root).read
    assert found.gaps == ()
    assert f"no broker uses {world.logs.root / TOPIC}-0.*-stray" in found.premises[0].what


def test_a_moved_replica_is_looked_for_in_the_directory_that_has_it(tmp_path: Path) -> None:
    """JBOD: the line in the directory that it left is old; the one that it moved to must hold it."""
    world = assigned(tmp_path, directories=(THERE,))
    root, other = world.logs.root, tmp_path / "disk-2"
    other.mkdir()
    identity(root, 1, HERE)
    identity(other, 1, THERE)
    for number in range(PARTITIONS):
        (root / f"{TOPIC}-{number}").rename(other / f"{TOPIC}-{number}")
    assert gaps(root, other) == ()
    shutil.rmtree(other / f"{TOPIC}-1")
    where = root / "__cluster_metadata-0"
    assert gaps(root, other) == (f"{other} does not hold orders-1, which {where} assigns to it",)


def test_one_directory_of_a_broker_with_two_does_not_speak_for_the_other(tmp_path: Path) -> None:
    world = assigned(tmp_path, directories=(THERE,))
    root = world.logs.root
    identity(root, 1, HERE)
    for number in range(PARTITIONS):
        shutil.rmtree(root / f"{TOPIC}-{number}")
    assert gaps(root) == ("partitions 0-2 of orders: no replica of them was given",)


def answers(found: Audit, root: Path) -> tuple[object, ...]:
    """An audit's answer, without the paths of segments."""
    text = str((found.findings, found.violations, found.read.gaps, found.answers)).replace(str(root), "")
    return text.replace(".swap", ""), found.read.batches, found.as_of


@pytest.mark.parametrize("seed", range(6))
def test_links_and_interrupted_swaps_change_no_answer(tmp_path: Path, seed: int) -> None:
    """Partitions on other disks, links to them, segments as they are after an interrupted compaction."""
    world = World(tmp_path, seed)
    world.run()
    left = world.producer("left-open")
    world.begin(left, *world.random.sample(range(PARTITIONS), 2))
    world.finish()
    root, chosen = world.logs.root, random.Random(seed)
    before = answers(audited(root), root)
    disk = tmp_path / "disk"
    disk.mkdir()
    for number, folder in enumerate(sorted(one for one in root.iterdir() if one.is_dir())):
        if folder.name.startswith(TOPIC):
            log = chosen.choice(sorted(folder.glob("*.log")))
            for file in (log, log.with_suffix(".txnindex")):
                if file.exists():
                    file.rename(f"{file}.swap")
        if chosen.random() < 0.6:
            folder.rename(disk / f"d{number}")
            folder.symlink_to(disk / f"d{number}")
    assert list(root.glob(f"{TOPIC}-*/*.swap"))
    assert answers(audited(root), root) == before


def test_a_link_to_nothing_and_a_segment_under_another_name_are_named(tmp_path: Path) -> None:
    world = finished(tmp_path, checkpoints=False)
    folder = world.logs.root / f"{TOPIC}-1"
    (folder / f"{10**6:020}.log.gz").touch()
    (world.logs.root / f"{TOPIC}-9").symlink_to("gone")
    assert gaps(world.logs.root) == (
        f"{folder}/{10**6:020}.log.gz was not read: its name is no segment's",
        f"{world.logs.root / TOPIC}-9 was not read: a link to what is not there",
    )


def test_many_partitions_are_one_sentence() -> None:
    names = [(f"topic-{n:03}", number) for n in range(200) for number in (0, 1, 2, 9)]
    text = listed(names)
    assert text.startswith("partitions 0-2, 9 of topic-000; partitions 0-2, 9 of topic-001; ")
    assert text.endswith(" and partitions of 180 more topics")
    assert len(listed([("x" * 100_000, 0)])) < 300
