"""The story of one offset: its standing on each replica, its batch, its transaction, the coordinator's records."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import crc32c
import pytest

from kafkawire import logdir, offsets, rows
from kafkawire.logdir import tiers
from kafkawire.records import Record, build, build_marker
from tests.audit_logs import NOON, LogDirectory
from tools.recordings.archive import ROOT, unpacked

THREE_NODES = ROOT / "examples" / "kafka-logs" / "three-nodes"


def story_of(root: Path, offset: int, topic: str = "orders", *more: Path) -> list[Any]:
    return list(offsets.story(logdir.open(root, *more), topic, 0, offset))


def of(found: list[Any], kind: type[Any]) -> list[Any]:
    return [row for row in found if isinstance(row, kind)]


def test_an_aborted_record_has_its_transaction_from_first_batch_to_marker() -> None:
    found = story_of(THREE_NODES, 4)
    standing = of(found, rows.OffsetStanding)
    assert [(one.broker, one.transaction, one.read_committed, one.read_uncommitted) for one in standing] == [
        (broker, "aborted", False, True) for broker in (1, 2, 3)
    ]
    (batch,) = of(found, rows.BatchRow)
    assert batch.base_offset <= 4 <= batch.last_offset
    (transaction,) = of(found, rows.TransactionStory)
    assert (transaction.first_offset, transaction.last_offset, transaction.marker_offset) == (4, 6, 9)
    assert (transaction.transaction, transaction.records, transaction.producer_id) == ("aborted", 3, batch.producer_id)
    steps = of(found, rows.CoordinatorStep)
    assert [step.state for step in steps] == ["Ongoing", "PrepareAbort", "CompleteAbort"]
    assert {step.transactional_id for step in steps} == {transaction.transactional_id}
    assert [step.has_partition for step in steps] == [True, True, False]


def test_coordinator_records_of_another_cluster_are_not_those_of_the_transaction() -> None:
    alone = of(story_of(THREE_NODES, 4), rows.CoordinatorStep)
    (first, *_) = of(story_of(THREE_NODES.parent / "one-node", 4), rows.CoordinatorStep)
    both = of(story_of(THREE_NODES, 4, "orders", THREE_NODES.parent / "one-node"), rows.CoordinatorStep)
    assert both[0] == first  # the first replica is that of the other cluster
    clusters = logdir.open(THREE_NODES, unpacked("every-offset") / "node-3")
    assert of(list(offsets.story(clusters, "orders", 0, 4)), rows.CoordinatorStep) == alone


def test_a_marker_leads_to_the_transaction_that_it_ends() -> None:
    (transaction,) = of(story_of(THREE_NODES, 9), rows.TransactionStory)
    (of_data,) = of(story_of(THREE_NODES, 5), rows.TransactionStory)
    assert (transaction.first_offset, transaction.marker_offset) == (4, 9)
    assert transaction == of_data


def test_an_open_record_shows_where_consumers_stop() -> None:
    found = story_of(THREE_NODES, 11)
    (standing, *_) = of(found, rows.OffsetStanding)
    assert standing.transaction == "open"
    assert standing.detail.endswith("read_committed consumers stop at the last stable offset, 11")
    (transaction,) = of(found, rows.TransactionStory)
    assert (transaction.first_offset, transaction.marker_offset) == (11, None)


@pytest.mark.parametrize("raised", [0, 1], ids=["one epoch", "an epoch each"])
def test_each_of_several_transactions_has_its_own_records(tmp_path: Path, raised: int) -> None:
    """With version 2 of transactions the decision raises the epoch, and the next transaction begins with it."""
    logs = LogDirectory(tmp_path, compacted=False)
    orders = logs.partition("orders")
    for number in range(3):
        at, epoch = NOON + 1000 * number, raised * number
        orders.data(5, epoch, at=at)
        outcome = "Abort" if number == 1 else "Commit"
        logs.id("pay", "Ongoing", 5, epoch, ("orders", 0), at=at, version=2 * raised)
        ended = {"at": at + 10, "version": 2 * raised}
        logs.id("pay", f"Prepare{outcome}", 5, epoch + raised, ("orders", 0), **ended)
        orders.marker(outcome.upper(), 5, epoch + raised, at=at + 20)
        logs.id("pay", f"Complete{outcome}", 5, epoch + raised, **ended)
    logs.write()
    for number in range(3):
        found = story_of(tmp_path, 2 * number)
        (transaction,) = of(found, rows.TransactionStory)
        assert (transaction.first_offset, transaction.marker_offset) == (2 * number, 2 * number + 1)
        assert [step.offset for step in of(found, rows.CoordinatorStep)] == [3 * number + n for n in range(3)]


def test_a_compacted_offset_has_no_batch_of_its_own() -> None:
    root = unpacked("every-offset") / "node-3"
    (replica,) = offsets.replicas(logdir.open(root), "compacted", 0)
    (row, *_) = (row for row in offsets.explain(replica) if isinstance(row, rows.StatusRange))
    found = story_of(root, row.first_offset, "compacted")
    assert row.status == "compacted"
    (standing,) = of(found, rows.OffsetStanding)
    assert (standing.status, standing.detail) == ("compacted", "compaction has removed it")


def test_a_tier_s_copy_of_the_side_that_lost_stands_beside_the_log() -> None:
    root = unpacked("tiered-storage")
    found = of(story_of(root / "node-1", 50, "orders", root / "tier"), rows.OffsetStanding)
    assert [one.status for one in found] == ["marker", "left_out"]
    assert found[0].leader_epoch > found[1].leader_epoch


@pytest.mark.parametrize(
    ("epoch", "state", "expected"),
    [
        (0, None, []),  # copied, and not deleted locally yet
        (0, tiers.COPY_FINISHED, []),
        (0, tiers.COPY_STARTED, [(4, "its copying is not finished, or its deletion has begun")]),
        (0, tiers.DELETE_STARTED, [(4, "its copying is not finished, or its deletion has begun")]),
        (1, None, [(4, "of another leader epoch")]),
    ],
)
def test_a_copy_of_what_the_log_has_is_no_other_standing(
    tmp_path: Path, epoch: int, state: int | None, expected: list[tuple[int, str]]
) -> None:
    """A segment is in the tier for a while before retention deletes it locally. Offsets 3 and 4 are in both."""
    local, tier = tmp_path / "data" / "orders-0", tmp_path / "tier" / "orders-0-6i8J_b6cRDaTJ2jld3ung-"
    for folder in (local, tier):
        folder.mkdir(parents=True)

    def batches(first: int, end: int, leader_epoch: int) -> bytes:
        made = (build([Record(b"k")], base_offset=at, partition_leader_epoch=leader_epoch) for at in range(first, end))
        return b"".join(made)

    (local / f"{3:020}.log").write_bytes(batches(3, 6, epoch))
    (tier / f"{0:020}-AAAAAAAAAAAAAAAAAAAAAQ.log").write_bytes(batches(0, 5, 0))
    known = tiers.TierEvents()
    if state is not None:
        known[UUID(int=1)] = tiers.TieredSegment("orders", 0, UUID(int=2), state, 0, 4)
    directory = logdir.open(tmp_path / "data", tmp_path / "tier")
    for one in directory.partitions:
        one.tier_metadata = lambda: known
    found = [row for at in (4, 5) for row in of(list(offsets.story(directory, "orders", 0, at)), rows.OffsetStanding)]
    left_out = [one for one in found if one.status == "left_out"]
    prefix = "a copy in a tier that is no part of the log: "
    assert [(one.offset, one.detail.removeprefix(prefix)) for one in left_out] == expected
    assert all(one.detail.startswith(prefix) for one in left_out)


def test_replicas_with_different_records_have_a_standing_each() -> None:
    root = unpacked("every-offset")
    old, new = root / "old-leader", root / "rejoined"
    found = of(story_of(old, 5, "unclean", new), rows.OffsetStanding)
    assert {(Path(one.file).parent.name, one.transaction) for one in found} == {
        ("old-leader", "committed"), ("rejoined", "none"),
    }  # fmt: skip
    found = of(story_of(old, 12, "unclean", new), rows.OffsetStanding)
    assert {(Path(one.file).parent.name, one.status) for one in found} == {
        ("old-leader", "marker"), ("rejoined", "truncated"),
    }  # fmt: skip


@pytest.mark.parametrize("offset", [-1, 23])
def test_an_offset_that_is_in_no_log_is_an_error(offset: int) -> None:
    with pytest.raises(LookupError, match=f"orders-0 has no offset {offset}: its log ends at 23"):
        story_of(THREE_NODES, offset)


@pytest.mark.parametrize(
    ("topic", "partition", "text"),
    [
        ("order", 0, "the paths hold no topic 'order'; near: orders"),
        ("orders", 9, "the paths hold no partition 9 of orders; there are 0, 1, 2"),
    ],
)
def test_an_unknown_partition_is_an_error_that_names_the_known(topic: str, partition: int, text: str) -> None:
    with pytest.raises(LookupError, match=text):
        offsets.replicas(logdir.open(THREE_NODES), topic, partition)


def test_an_unknown_partition_is_an_error_that_names_twenty_others(tmp_path: Path) -> None:
    for number in range(30):
        (tmp_path / f"orders-{number}").mkdir()
        (tmp_path / f"orders-{number}" / f"{0:020}.log").touch()
    with pytest.raises(LookupError, match=r"no partition 77 of orders; there are 0, 1, .*, 18, 19$"):
        offsets.replicas(logdir.open(tmp_path), "orders", 77)


def test_batches_outside_of_transactions_are_none_of_the_transaction(tmp_path: Path) -> None:
    """A client may use the id of a transactional producer for an idempotent one."""
    logs = LogDirectory(tmp_path, compacted=False)
    orders = logs.partition("orders")
    orders.data(5, 0, at=NOON, records=2)
    orders.data(5, 0, at=NOON, transactional=False)
    orders.marker("COMMIT", 5, 0, at=NOON)
    logs.write()
    (transaction,) = of(story_of(tmp_path, 0), rows.TransactionStory)
    assert (transaction.batches, transaction.records, transaction.last_offset) == (1, 2, 1)


def test_a_segment_that_cannot_be_read_has_a_standing_and_no_batch(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path, compacted=False)
    logs.partition("orders").data(5, 0, at=NOON)
    logs.write()
    (path,) = (tmp_path / "orders-0").glob("*.log")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\norders 0 1\n")
    directory = logdir.open(tmp_path)
    path.unlink()
    (standing,) = offsets.story(directory, "orders", 0, 0)
    assert isinstance(standing, rows.OffsetStanding)
    assert (standing.status, standing.reason, standing.read_uncommitted) == ("unreadable", "unreadable", False)
    assert standing.detail == "No such file or directory"


def test_a_control_batch_whose_record_cannot_be_read_is_malformed(tmp_path: Path) -> None:
    data = bytearray(
        build_marker("COMMIT", offset=0, timestamp=1, producer_id=5, producer_epoch=0, coordinator_epoch=0)
    )
    data[61] = 0x7F  # the length of the record
    data[17:21] = crc32c.crc32c(bytes(data[21:])).to_bytes(4, "big")
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(data)
    standing, batch, transaction = story_of(tmp_path, 0)
    assert (standing.status, standing.control, batch.control) == ("control", "MALFORMED", "MALFORMED")
    assert (transaction.transaction, transaction.marker_offset, transaction.batches) == ("unknown", 0, 0)


def test_an_offset_outside_of_transactions_has_no_transaction(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(build([Record(b"k")]))
    assert [type(row) for row in story_of(tmp_path, 0)] == [rows.OffsetStanding, rows.BatchRow]


def test_what_is_in_no_batch_has_a_standing_alone(tmp_path: Path) -> None:
    """Below the first segment; and behind the end of another replica's log."""
    for node, last in (("a", 12), ("b", 15)):
        (tmp_path / node / "orders-0").mkdir(parents=True)
        log = build([Record(b"k")], base_offset=10, last_offset=last)
        (tmp_path / node / "orders-0" / f"{10:020}.log").write_bytes(log)
    assert [one.status for one in story_of(tmp_path / "a", 3, "orders", tmp_path / "b")] == ["deleted", "deleted"]
    found = of(story_of(tmp_path / "a", 14, "orders", tmp_path / "b"), rows.OffsetStanding)
    assert [(one.status, one.detail) for one in found] == [
        ("none", "this log ends at offset 13"), ("compacted", "compaction has removed it"),
    ]  # fmt: skip


def test_an_open_transaction_is_in_the_last_group_of_its_id_s_records(tmp_path: Path) -> None:
    """Where the epoch stays the same, and the log has damage."""
    logs = LogDirectory(tmp_path, compacted=False)
    orders = logs.partition("orders")
    for at in (NOON, NOON + 1000):
        orders.data(5, 0, at=at)
        logs.id("pay", "Ongoing", 5, 0, ("orders", 0), at=at)
        if at == NOON:
            orders.marker("COMMIT", 5, 0, at=at + 20)
            for state in ("PrepareCommit", "CompleteCommit"):
                logs.id("pay", state, 5, 0, ("orders", 0), at=at + 10)
    logs.write()
    (path,) = (tmp_path / "orders-0").glob("*.log")
    with path.open("ab") as file:
        file.write(b"\0" * 7)
    found = story_of(tmp_path, 2)
    assert [(one.state, one.offset) for one in of(found, rows.CoordinatorStep)] == [("Ongoing", 3)]
    assert [one.first_offset for one in of(found, rows.TransactionStory)] == [2]
