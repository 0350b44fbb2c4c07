"""Every offset has exactly one status: in all directories that were recorded, and in random ones."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from kafkawire import logdir, offsets
from tests.offsets.naive import naive_statuses, ranges_of, statuses_of
from tests.random_logs import random_partitions
from tools.recordings.archive import ARCHIVES, ROOT, SUFFIX, unpacked

#: All archives but those that hold no log.
RECORDED = sorted(
    {path.name.removesuffix(SUFFIX) for path in ARCHIVES.glob(f"*{SUFFIX}")}
    - {"client-captures", "application-captures", "client-batches"}
)
#: Archives whose folders are not of one cluster at one time.
APART = {
    "read-committed": ("stopped", "recovered"),
    "every-offset": ("node-3", "old-leader", "new-leader", "rejoined"),
    "tier-objects": ("plain", "zstd", "encrypted", "encrypted-zstd"),
    "deliveries": ("lost", "aborted-read", "sound-4.4.0", "sound-3.9.1"),
    "isolation-levels": ("2.8.2", "3.9.1", "4.4.0"),
}


def roots() -> list[Path]:
    logs = ROOT / "examples" / "kafka-logs"
    found = [logs / "one-node", logs / "three-nodes"]
    for name in RECORDED:
        found += [unpacked(name) / one for one in APART.get(name, (".",))]
    return found


def checked(directory: logdir.LogDirectory) -> int:
    """The number of offsets of all partitions."""
    count = 0
    for topic, partition in sorted({(one.topic, one.partition) for one in directory.partitions}):
        for replica in offsets.replicas(directory, topic, partition):
            ranges = ranges_of(replica)
            if replica.bounds.end_offset > 1000:  # the base offset of the last batch is damaged
                continue
            found = statuses_of(ranges)
            expected, sound = naive_statuses(replica.partition)
            assert set(found) == set(range(replica.bounds.end_offset))
            shown = {offset: status for offset, status in found.items() if offset < replica.bounds.log_end_offset}
            if sound:
                assert shown == expected
            count += len(found)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("root", roots(), ids=lambda path: "-".join(path.parts[-2:]))
def test_every_offset_of_every_recorded_directory_has_one_status(root: Path) -> None:
    keys = [root.parent / "private.pem"] if root.name.startswith("encrypted") else []
    assert checked(logdir.open(root, tier_keys=keys)) > 10


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24))
def test_ranges_of_random_logs_are_what_the_outcomes_say(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    logs = random_partitions(random_, tmp_path / "logs", seed, log_starts=seed % 4 > 1)
    for number in range(3):
        logs.high_watermark(f"topic{number}", 0, random_.randrange(200))
    logs.checkpoint("recovery-point-offset-checkpoint", "topic3", 0, random_.randrange(300))
    if seed % 3 == 2:  # what compaction has come across
        for number in range(4):
            logs.checkpoint("cleaner-offset-checkpoint", f"topic{number}", 0, 10)
    for name, lines in logs.checkpoints.items():
        body = "".join(f"{topic} {number} {offset}\n" for (topic, number), offset in lines.items())
        (logs.root / name).write_text(f"0\n{len(lines)}\n{body}")
    directory = logdir.open(logs.root)
    assert checked(directory) > 0
    (replica,) = offsets.replicas(directory, "topic1", 0)
    end = min(replica.bounds.end_offset, 1000)
    everything = statuses_of(ranges_of(replica, 0, end))
    for _ in range(5):
        first = random_.randrange(end) if end else 0
        until = random_.randint(first, end)
        part = statuses_of(ranges_of(replica, first, until))
        assert part == {offset: everything[offset] for offset in range(first, until)}


@pytest.mark.slow
@pytest.mark.parametrize("checkpoints", [True, False])
def test_offsets_before_an_empty_last_segment_are_missing(tmp_path: Path, checkpoints: bool) -> None:
    """Not truncated: the name of the last segment shows that the log reaches to it."""
    root = shutil.copytree(unpacked("tiered-storage"), tmp_path / "copy")
    for path in (root / "node-1" / "orders-0").glob("*81.*"):
        path.unlink()
    if not checkpoints:
        for path in (root / "node-1").glob("re*-offset-checkpoint"):
            path.unlink()
    (replica,) = offsets.replicas(logdir.open(root / "node-1", root / "tier"), "orders", 0)
    assert (replica.bounds.log_end_offset, replica.bounds.end_offset) == (83, 83)
    *_, last = ranges_of(replica)
    assert (last.first_offset, last.last_offset, last.status, last.reason) == (81, 82, "unreadable", "missing")


def test_copies_of_another_cluster_are_not_joined() -> None:
    roots = ROOT / "examples" / "kafka-logs" / "three-nodes", unpacked("tiered-storage")
    both = offsets.replicas(logdir.open(*roots), "orders", 0)
    alone = [one for root in roots for one in offsets.replicas(logdir.open(root), "orders", 0)]
    seen, expected = ({one.partition.path: (one.bounds, one.others) for one in found} for found in (both, alone))
    assert seen == expected
    assert len(seen) == 5


def test_a_copy_of_a_deleted_topic_of_the_same_name_is_not_joined(tmp_path: Path) -> None:
    old = shutil.copytree(unpacked("every-offset") / "old-leader", tmp_path / "old")
    directories = old, unpacked("every-offset") / "new-leader"
    for text, diverges in (("", 5), ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n", None)):
        metadata = old / "unclean-0" / "partition.metadata"
        metadata.write_text(text or metadata.read_text())
        found = offsets.replicas(logdir.open(*directories), "unclean", 0)
        assert {one.partition.path: one.bounds.diverges_at for one in found}[str(old / "unclean-0")] == diverges
