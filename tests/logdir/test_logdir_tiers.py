"""Tiers of KIP-405: a replica's log and its older segments in the tier are one log, which a consumer reads."""

from __future__ import annotations

import json
import shutil
from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkawire import logdir, records, transactions
from kafkawire.logdir import tiers
from kafkawire.logdir.entries import AbortedEntry, EpochLine
from kafkawire.logdir.log_files import log_file, partition_of
from kafkawire.records import Batch
from tools.recordings.archive import unpacked

NODES = ("node-1", "node-2")
TOPIC_ID = "6i8J_b6cRDaTJ2jld3ung-"


def folder() -> Path:
    return unpacked("tiered-storage")


@cache
def consumed() -> dict[str, list[tuple[int, str, str]]]:
    found = json.loads((folder() / "consumed.json").read_text())
    return {level: [(r["offset"], r["key"], r["value"]) for r in rows] for level, rows in found.items()}


def orders(directory: logdir.LogDirectory) -> logdir.Partition:
    (found,) = (one for one in directory.partitions if one.topic == "orders" and not one.state)
    return found


def rows_of(batches: Any, start: int = 0) -> list[tuple[int, str, str]]:
    return [
        (record.offset, (record.key or b"").decode(), (record.value or b"").decode())
        for batch in batches
        if isinstance(batch, Batch) and not batch.control
        for record in batch.records
        if record.offset >= start
    ]


@pytest.mark.parametrize("node", NODES)
def test_log_and_tier_of_a_broker_have_the_records_that_a_consumer_read(node: str) -> None:
    directory = logdir.open(folder() / node, folder() / "tier")
    partition = orders(directory)
    start = partition.log_start_offset or 0
    assert (start, [file.state for file in partition.segments].count("tiered")) == (9, 9)
    assert rows_of(partition, start) == consumed()["read_uncommitted"]
    aborted = [entry.aborted for entry in partition.aborted_transactions() if isinstance(entry, AbortedEntry)]
    (still_open,) = transactions.audit(directory).findings
    committed = transactions.read_committed(partition, aborted, still_open.start_offset)
    assert rows_of(committed, start) == consumed()["read_committed"]


@pytest.mark.slow
@pytest.mark.parametrize("tier", ["tiered-storage/tier", "tier-objects/encrypted-zstd"])
@pytest.mark.parametrize("files", ["node-1/orders-0/*83.log tier", "node-1/orders-0 **/*.log", "node-1 **/*30-*.log",
                                   "node-1/orders-0/*81.log **/*71-*.log"])  # fmt: skip
def test_single_files_of_log_and_tier_have_what_a_consumer_read_of_them(files: str, tier: str) -> None:
    """Whether they are on the broker or in the tier: outcomes are those of the whole log."""
    archive, _, copy = tier.partition("/")
    own, pattern = files.split()
    copies = [unpacked(archive) / copy] if pattern == "tier" else sorted((unpacked(archive) / copy).glob(pattern))
    paths = [str(path) for path in (*folder().glob(own), *copies)]
    directory = logdir.open(*paths, tier_keys=[unpacked("tier-objects") / "private.pem"])
    outcomes = logdir.OutcomesByFile(directory.partitions, paths)
    found, every = [], set()
    for file in (one for one in outcomes.segments.values() if one.topic == "orders"):
        view = logdir.View(outcomes=outcomes.of(file), isolation_level="read_committed")
        options = logdir.Options(deep=True, payloads=True, view=view)
        found += [(row.offset, row.key, row.value) for row in logdir.rows_of(file, options) if row.kind == "record"]
        every.update(offset for offset, *_ in rows_of(file.batches()))
    assert found == [row for row in consumed()["read_committed"] if row[0] in every]
    assert found


def test_a_log_without_its_leader_epochs_follows_the_newest_of_the_tier(tmp_path: Path) -> None:
    without = shutil.ignore_patterns("leader-epoch-checkpoint")
    shutil.copytree(folder() / "node-1", tmp_path / "node-1", ignore=without)
    partition = orders(logdir.open(tmp_path / "node-1", folder() / "tier"))
    assert rows_of(partition, partition.log_start_offset or 0) == consumed()["read_uncommitted"]


def test_segments_of_the_side_that_lost_an_unclean_election_are_left_out() -> None:
    directory = logdir.open(folder() / "node-1", folder() / "tier")
    of_log = {file.path for file in orders(directory).segments}
    lost = [file for file in directory.files if file.kind == "log" and file.state == "tiered"]
    lost = [file for file in lost if file.path not in of_log]
    assert [file.offset for file in lost] == [50, 54]
    # A copy of the tier alone follows the newest leader, too.
    (alone,) = logdir.open(folder() / "tier").partitions
    assert [file.offset for file in alone.segments] == [0, 10, 20, 30, 40, 50, 51, 61, 71]


@pytest.mark.slow
def test_audit_of_log_and_tier_holds_every_rule_that_the_local_log_alone_cannot_show() -> None:
    def audited(*names: str) -> dict[str, tuple[str, int]]:
        found = transactions.audit(logdir.open(*(folder() / name for name in names)))
        return {answer.check: (answer.answer, answer.held) for answer in found.answers}

    both, local = audited("node-1", "node-2", "node-3", "tier"), audited("node-1", "node-2", "node-3")
    assert {check for check, (answer, _) in both.items() if answer == "violated"} == set()
    for check in ("txnindex_equals_log", "snapshot_equals_replay", "marker_epoch", "one_outcome"):
        assert both[check][0] == "holds"
        assert both[check][1] > local[check][1]


def test_damage_in_a_tier_is_reported_once_for_all_replicas(tmp_path: Path) -> None:
    root = shutil.copytree(folder(), tmp_path / "copy")
    segment = sorted((root / "tier").rglob("*.log"))[2]
    data = bytearray(segment.read_bytes())
    data[40] ^= 0xFF
    segment.write_bytes(data)
    audit = transactions.audit(logdir.open(root / "node-1", root / "node-2", root / "tier"))
    assert [(one.file, one.reason) for one in audit.damage] == [(str(segment), "crc_mismatch")]


def test_audit_names_folders_with_segments_that_it_did_not_read(tmp_path: Path) -> None:
    """The layout of another plugin, and a partition's directory that was renamed."""
    (segment,) = (folder() / "node-1" / "__transaction_state-0").glob("*.log")
    plugin, renamed = tmp_path / "orders" / "0", tmp_path / "orders-0 (copy)"
    for place, name in ((plugin, f"{0:020}-vUD2ok5iQti4la3FU6DE-Q.log"), (renamed, segment.name)):
        place.mkdir(parents=True)
        shutil.copy(segment, place / name)
    read = transactions.audit(logdir.open(folder() / "node-1", tmp_path)).read
    assert not read.complete
    assert [gap for gap in read.gaps if str(tmp_path) in gap] == [
        f"{place} was not read: it holds segments, and its name is no partition's" for place in (plugin, renamed)
    ]


def test_copies_that_are_not_finished_or_are_being_deleted_are_no_part_of_the_log() -> None:
    directory = logdir.open(folder() / "node-1", folder() / "tier")
    partition, metadata = orders(directory), directory.tier_metadata
    assert {one.state for one in metadata.values()} == {tiers.COPY_FINISHED}
    own = [file for file in partition.segments if not file.state]
    copies = [file for one in partition.tiers for file in one.segments]
    dropped = {5: tiers.COPY_STARTED, 6: tiers.DELETE_STARTED, 7: tiers.DELETE_FINISHED}
    for number, state in dropped.items():
        metadata[tiers.segment_id(copies[number])] = metadata[tiers.segment_id(copies[number])]._replace(state=state)
    metadata.pop(tiers.segment_id(copies[1]))  # an object that no record names
    found = tiers.join(own, copies, [], metadata, 0).segments
    assert [copies.index(file) for file in found[: -len(own)]] == [0, 2, 3, 4, 8]


def test_the_metadata_of_segments_has_their_last_state() -> None:
    metadata = logdir.open(folder() / "node-2").tier_metadata
    assert sorted((one.start, one.end) for one in metadata.values())[:3] == [(0, 9), (10, 19), (20, 29)]
    assert {(one.topic, one.partition) for one in metadata.values()} == {("orders", 0)}


def test_a_partition_in_a_tier_is_known_by_its_files() -> None:
    segment = f"{0:020}-vUD2ok5iQti4la3FU6DE-Q.log"
    assert partition_of(f"tier/a-b-7-{TOPIC_ID}", [segment]) == ("a-b", 7, "tiered")
    # A topic's id may end as the name of a partition does.
    assert partition_of("tier/orders-0-6i8J_b6cRDaTJ2jld3u-12", [segment]) == ("orders", 0, "tiered")
    assert partition_of("logs/orders-12", [f"{0:020}.log"]) == ("orders", 12, "")
    assert log_file(f"tier/orders-0-{TOPIC_ID}/{segment}").kind == "log"


@pytest.mark.parametrize(
    ("epochs", "lineage", "base", "expected"),
    [
        ([(0, 0)], [(0, 0)], 0, None),
        ([(0, 0)], [(0, 0), (1, 40)], 10, 40),  # the segment may end before: then nothing is cut
        ([(0, 0), (1, 30)], [(0, 0), (2, 30)], 20, 30),
        ([(0, 0), (1, 30)], [(0, 0), (2, 30)], 30, 30),
        ([(0, 0), (1, 30)], [(0, 0), (1, 30), (3, 50)], 30, 50),
        ([(4, 0)], [(5, 100)], 10, 100),  # what lies below the lineage is accepted
        ([], [(0, 0)], 0, None),
    ],
)
def test_a_segment_leaves_the_lineage_where_its_epoch_differs(
    epochs: list[tuple[int, int]], lineage: list[tuple[int, int]], base: int, expected: int | None
) -> None:
    def lines(pairs: list[tuple[int, int]]) -> list[EpochLine]:
        return [EpochLine(0, epoch, start) for epoch, start in pairs]

    assert tiers.leaves_lineage(lines(epochs), lines(lineage), base) == expected


@example([1, 1, 1, 1], [{1, 2}, set()], 3)  # a later copy that begins before earlier ones
@given(
    st.lists(st.integers(1, 4), min_size=4, max_size=14),
    st.lists(st.sets(st.integers(0, 13), max_size=4), min_size=1, max_size=3),
    st.integers(0, 13),
)
def test_overlapping_copies_give_each_offset_once(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], borders: list[set[int]], local_from: int
) -> None:
    """Each leader copies from the segment on that holds the first offset which the tier lacks."""
    batches, offset = [], 0
    for size in sizes:
        made = [records.Record(b"%d" % (offset + i), b"") for i in range(size)]
        batches.append((offset, records.build(made, base_offset=offset)))
        offset += size
    root = tmp_path_factory.mktemp("tier")
    folder, copied = root / f"orders-0-{TOPIC_ID}", 0
    folder.mkdir()
    local_from = min(local_from, len(batches) - 1)
    for leader, cuts in enumerate(borders):
        starts = sorted({0, *(cut for cut in cuts if cut < len(batches))})
        until = len(batches) if leader == len(borders) - 1 else len(batches) * (leader + 1) // len(borders)
        for start, end in zip(starts, [*starts[1:], len(batches)], strict=True):
            if end > copied and start < until:
                name = f"{batches[start][0]:020}-{leader:01}{start:02}AAAAAAAAAAAAAAAAAAA.log"
                (folder / name).write_bytes(b"".join(data for _, data in batches[start:end]))
                copied = end
    own = root / "data" / "orders-0"
    own.mkdir(parents=True)
    (own / f"{batches[local_from][0]:020}.log").write_bytes(b"".join(data for _, data in batches[local_from:]))
    found = orders(logdir.open(root))
    assert [int(record[1]) for record in rows_of(found)] == list(range(offset))
    shutil.rmtree(root)


def test_ids_are_those_in_the_names() -> None:
    file = log_file(f"tier/orders-0-{TOPIC_ID}/{0:020}-AAAAAAAAAAAAAAAAAAAAAQ.log")
    assert tiers.segment_id(file) == UUID(int=1)


@pytest.mark.parametrize("node", NODES)
def test_the_last_stable_offset_is_known_without_the_tier(node: str) -> None:
    """What lies below the local log start is in the tier alone: the snapshot there shows what was open."""
    alone, both = (orders(logdir.open(*paths)) for paths in ((folder() / node,), (folder() / node, folder() / "tier")))
    local, whole = logdir.outcomes_of(alone), logdir.outcomes_of(both)
    assert (alone.local_log_start, both.local_log_start) == (81, 81)
    assert (local.last_stable_offset, local.high_watermark) == (whole.last_stable_offset, whole.high_watermark)
    assert (local.start, whole.start) == (81, 9)
    audits = [transactions.audit(logdir.open(folder() / node, *tier)) for tier in ((), (folder() / "tier",))]
    found = {tuple((one.start_offset, one.producer_id, one.verdict) for one in audit.findings) for audit in audits}
    assert len(found) == len(next(iter(found))) == 1
    gap = "offsets 9 to 80 lie below its first segment, in a tier or files that were not given"
    assert [audit.read.gaps for audit in audits] == [(f"orders-0 of {folder() / node}: {gap}",), ()]


def test_a_log_that_begins_at_0_lacks_nothing_of_a_tier_without_finished_copies(tmp_path: Path) -> None:
    log, copy = (tmp_path / name for name in (f"{0:020}.log", f"{0:020}-AAAAAAAAAAAAAAAAAAAAAQ.log"))
    for path in (log, copy):
        path.write_bytes(records.build([records.Record(b"k")]))
    event = tiers.TieredSegment("orders", 0, UUID(int=2), tiers.COPY_STARTED)
    unfinished = tiers.TierEvents({UUID(int=1): event})
    found = tiers.join([log_file(str(log))], [log_file(str(copy))], [], unfinished)
    assert ([file.path for file in found.segments], found.missing) == ([str(log)], ())


def test_a_copy_that_cannot_be_read_is_a_segment_whose_end_is_unknown(tmp_path: Path) -> None:
    """Reading it reports the damage: left out, its offsets would only be missing."""
    copy = tmp_path / f"{5:020}-AAAAAAAAAAAAAAAAAAAAAQ.log"
    copy.write_bytes(b"\xff" * 100)
    found = tiers.join([], [log_file(str(copy))], [], tiers.TierEvents())
    assert [file.path for file in found.segments] == [str(copy)]
    assert [file.path for file in found.unknown_ends] == [str(copy)]
