"""Ended and open transactions, from parts of logs: all that their batches and markers tell."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir, transactions
from kafkawire.records.control import MALFORMED, MARKER_CODES
from kafkawire.transactions.auditing import local_audit
from kafkawire.transactions.auditing.replica_facts import AuditedReplica, ReplicaMerge, parts_of
from kafkawire.transactions.log import endings
from kafkawire.transactions.log.endings import PACKED
from kafkawire.transactions.log.producer_append import NO_EPOCH, Append
from kafkawire.transactions.parts.segment_scan import Appends, read_part
from kafkawire.transactions.verdict.cluster_facts import Facts
from tests.audit_logs import NOON, LogDirectory
from tests.random_logs import PRODUCERS, damage, fill, random_partitions

Row = tuple[int, ...]


def expected(partition: logdir.Partition) -> tuple[list[Row], list[Row]]:
    """Ended and open transactions: a producer's markers cut its batches of data."""
    begun: dict[int, list[Append]] = {}
    ended = []
    for file in partition.segments:
        for append in (append for fact in read_part(file, None) if isinstance(fact, Appends) for append in fact):
            if not append.transactional or append.control == MALFORMED:
                continue
            if append.control is None:
                begun.setdefault(append.producer_id, []).append(append)
            elif append.producer_id in begun:
                ended.append(_ended(begun.pop(append.producer_id), append))
    still = [(data[0].producer_id, data[0].base_offset, *_data(data)) for data in begun.values()]
    return sorted(ended), sorted(still)


def _data(data: list[Append]) -> Row:
    return data[-1].last_offset, data[0].timestamp, data[-1].timestamp, len(data)


def _ended(data: list[Append], marker: Append) -> Row:
    epoch = NO_EPOCH if marker.coordinator_epoch is None else marker.coordinator_epoch
    assert marker.control is not None
    return (
        marker.producer_id, marker.base_offset, marker.timestamp, data[0].base_offset, data[-1].producer_epoch,
        marker.producer_epoch, MARKER_CODES[marker.control], *_data(data), epoch,
    )  # fmt: skip


def found(partition: logdir.Partition, part_bytes: int) -> tuple[list[Row], list[Row]]:
    """From parts."""
    replica = AuditedReplica(partition)
    merge = ReplicaMerge(replica, whole=True)
    for segment, task in parts_of(replica, part_bytes):
        merge.take(segment, task.read())
    merge.facts()
    still = [
        (one.producer_id, one.start_offset, one.last_offset, one.first_timestamp, one.last_timestamp, one.batches)
        for one in merge.open_in_log()
    ]
    return sorted(row for chunk in merge.endings.drain() for row in chunk.tolist()), sorted(still)


@pytest.mark.slow
@pytest.mark.parametrize("part_bytes", [1 << 20, 700])
@pytest.mark.parametrize("seed", range(6))
def test_transactions_have_their_batches_and_times_in_parts_of_any_size(
    tmp_path: Path, seed: int, part_bytes: int
) -> None:
    random_ = random.Random(seed)
    logs = LogDirectory(tmp_path / "logs", ids=0)
    for number in range(4):
        fill(random_, logs.partition(f"topic{number}"), range(PRODUCERS))
    busy = logs.partition("busy")
    for number in range(60):
        for batch in range(1 + number % 3):
            busy.data(1, at=NOON + 10 * number + batch)
        busy.marker(("COMMIT", "ABORT")[number % 2], 1, at=NOON + 10 * number + 5, coordinator_epoch=number // 7)
    busy.data(1, at=NOON + 1000)
    path = logs.write()
    if seed % 2:
        damage(random_, logs.root)
    for partition in logdir.open(path).partitions:
        if partition.segments:
            assert found(partition, part_bytes) == expected(partition)


def test_keeps_what_the_rules_need_unless_asked_for_all(tmp_path: Path) -> None:
    logs = LogDirectory(tmp_path / "logs", ids=0)
    orders = logs.partition("orders")
    orders.data(1)
    orders.marker("COMMIT", 1)
    (partition,) = logdir.open(logs.write()).partitions
    sizes = []
    for whole in (False, True):
        replica = AuditedReplica(partition)
        merge = ReplicaMerge(replica, whole=whole)
        for segment, task in parts_of(replica):
            merge.take(segment, task.read())
        (chunk,) = merge.endings.chunks
        sizes.append(chunk.dtype.itemsize)
    assert sizes == [37, PACKED.itemsize]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_what_is_judged_in_groups_of_producers_is_judged_as_at_once(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random_partitions(random.Random(seed), tmp_path / "logs", seed)
    directory = logdir.open(tmp_path / "logs")
    whole = transactions.audit(directory)
    assert any(one.check == "one_outcome" and one.held + one.violated + one.not_checkable for one in whole.answers)
    monkeypatch.setattr(endings, "_AT_ONCE", 3)
    assert transactions.audit(directory) == whole


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_without_coordinators_what_is_only_counted_is_answered_as_if_it_were_kept(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = random.Random(seed)
    logs = LogDirectory(tmp_path / "logs", ids=0)
    topics = [logs.partition(f"topic{number}") for number in range(3)]
    for log in topics:
        fill(drawn, log, range(PRODUCERS))
    for number in range(40):  # one transaction in several partitions, with an epoch of its own, or without
        for log in drawn.sample(topics, 2):
            log.data(77, number, at=NOON + 10 * number)
            outcome = "ABORT" if drawn.random() < 0.1 else "COMMIT"
            log.marker(outcome, 77, number + (number % 3 > 0), at=NOON + 10 * number + 5)
    directory = logdir.open(logs.write())
    kept: list[tuple[int, int]] = []
    joined = local_audit.conclude

    def noted(facts: Facts, *given: Any, **named: Any) -> Any:
        kept.append((sum(map(len, facts.endings)), sum(one.undecided for one in facts.endings)))
        return joined(facts, *given, **named)

    monkeypatch.setattr(local_audit, "conclude", noted)
    counted = transactions.audit(directory)
    monkeypatch.setattr(AuditedReplica, "_replace", lambda self, **given: self)
    assert transactions.audit(directory) == counted
    (few, undecided), (all_, none) = kept
    assert none == 0
    assert all_ == few + undecided
    assert min(few, undecided) > 0
