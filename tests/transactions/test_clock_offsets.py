"""By how much clocks of brokers differ, as ended transactions show, and what follows for copies of running brokers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import logdir, transactions
from kafkawire.messages import PartitionRecord, TopicRecord
from kafkawire.records import Record
from kafkawire.records.control import COMMIT_CODE
from kafkawire.rows import Audit, Finding
from kafkawire.transactions import Settings
from kafkawire.transactions.cluster import clock_offsets
from kafkawire.transactions.cluster.clock_offsets import (
    LASTING_MS,
    OF_COORDINATOR,
    OF_DATA,
    TOLD_MS,
    DecisionTimes,
    MarkerTimes,
    differences,
    far_apart,
    spread_ms,
)
from kafkawire.transactions.coordinator.coordinator_copies import SKEW_MS
from kafkawire.transactions.facts import DecisionTime, MarkerTime
from kafkawire.transactions.log.endings import PACKED, packed
from tests.audit_logs import HOUR, MINUTE, NOON, LogDirectory

SECOND = 1000
PID = 1000


def times(
    clocks: dict[int, int], pairs: list[tuple[int, int, int]]
) -> tuple[list[tuple[int, MarkerTime]], list[tuple[int, DecisionTime]]]:
    """Ended transactions, a second apart. `pairs`: coordinator, leader, and how long the markers took."""
    markers, decisions = [], []
    for number, (coordinator, leader, took) in enumerate(pairs):
        now = NOON + number * SECOND
        since, until = now + clocks[coordinator], now + took + clocks[coordinator]
        decisions.append((coordinator, DecisionTime(number, 1, since, until, 0)))
        markers.append((leader, MarkerTime(number, 1, now + took // 2 + clocks[leader])))
    return markers, decisions


brokers = st.integers(0, 3)


@given(
    clocks=st.fixed_dictionaries({number: st.integers(-HOUR, HOUR) for number in range(4)}),
    pairs=st.lists(st.tuples(brokers, brokers, st.integers(0, 500)), max_size=12),
    compared=st.sets(brokers, min_size=2),
)
def test_what_is_measured_is_never_below_the_true_difference(
    clocks: dict[int, int], pairs: list[tuple[int, int, int]], compared: set[int]
) -> None:
    found = spread_ms(differences(*times(clocks, pairs), NOON), compared)
    true = max(clocks[one] for one in compared) - min(clocks[one] for one in compared)
    assert found is None or true <= found <= true + 3 * 500


def test_brokers_are_compared_by_way_of_others() -> None:
    clocks = {1: 0, 2: 5 * SECOND, 3: 9 * SECOND}
    assert spread_ms(differences(*times(clocks, [(1, 2, 20), (2, 3, 20)]), NOON), {1, 3}) == 9 * SECOND + 20
    assert spread_ms(differences(*times(clocks, [(1, 2, 20)]), NOON), {1, 3}) is None
    assert spread_ms(differences(*times(clocks, [(1, 2, 20)]), NOON), {1}) is None


def test_a_clock_that_was_set_in_between_is_not_measured() -> None:
    before, after = times({1: 0, 2: 0}, [(1, 2, 20)]), times({1: 0, 2: MINUTE}, [(3, 3, 0), (1, 2, 20)][1:])
    moved = [(broker, one._replace(producer_id=9)) for broker, one in after[0]]
    decided = [(broker, one._replace(producer_id=9)) for broker, one in after[1]]
    assert spread_ms(differences(*before, NOON), {1, 2}) is not None
    assert differences([*before[0], *moved], [*before[1], *decided], NOON) == {}


def test_an_old_transaction_says_nothing_on_clocks_now() -> None:
    made = times({1: 0, 2: 0}, [(1, 2, 20)])
    assert spread_ms(differences(*made, NOON + LASTING_MS), {1, 2}) is not None
    assert spread_ms(differences(*made, NOON + LASTING_MS + 11), {1, 2}) is None


@given(
    clocks=st.fixed_dictionaries({number: st.integers(-HOUR, HOUR) for number in range(4)}),
    pairs=st.lists(st.tuples(brokers, brokers, st.integers(0, 500)), max_size=12),
)
def test_brokers_that_are_told_to_be_apart_are_and_all_are_told(
    clocks: dict[int, int], pairs: list[tuple[int, int, int]]
) -> None:
    told = far_apart(differences(*times(clocks, pairs), NOON))
    for row in told:
        assert TOLD_MS < row.least_ms <= clocks[row.broker] - clocks[row.other] <= row.most_ms
    apart = {(row.broker, row.other) for row in told}
    for coordinator, leader, _ in pairs:
        ahead, behind = sorted((coordinator, leader), key=lambda one: -clocks[one])
        if clocks[ahead] - clocks[behind] > TOLD_MS + 500:
            assert (ahead, behind) in apart


@pytest.mark.parametrize("count", [3, 10_000])
def test_two_logs_keep_the_same_of_their_transactions(count: int) -> None:
    draw = random.Random(count)
    keys = [(draw.randrange(10**6), draw.randrange(1000)) for _ in range(count)]
    markers, decisions = MarkerTimes(0), DecisionTimes()
    zeros = dict.fromkeys(PACKED.names or (), 0)
    for start in range(0, count, 999):
        rows = [
            tuple((zeros | {"producer_id": p, "data_epoch": e, "marker_epoch": e + 1, "outcome": COMMIT_CODE}).values())
            for p, e in keys[start : start + 999]
        ]
        markers.add(packed(rows))
    for producer_id, epoch in draw.sample(keys, count):
        decisions.add(DecisionTime(producer_id, epoch + 1, 0, 0, 0))
    kept = {one[:2] for one in markers.found()}
    assert len(kept) == min(count, OF_DATA)
    assert kept <= {one[:2] for one in decisions.found()}
    assert len(decisions.found()) == min(count, OF_COORDINATOR)


def test_markers_that_other_transactions_may_have_are_not_kept() -> None:
    row = dict.fromkeys(PACKED.names or (), 0) | {"offset": 7, "data_epoch": 4, "marker_epoch": 5}
    found = {
        name: MarkerTimes(start)
        for name, start in (("kept", 7), ("of an earlier leader epoch", 8), ("of an unknown one", None))
    }
    for one in found.values():
        one.add(packed([tuple(row.values()), tuple((row | {"marker_epoch": 4}).values())]))
    assert {name: len(one.found()) for name, one in found.items()} == {
        "kept": 1,
        "of an earlier leader epoch": 0,
        "of an unknown one": 0,
    }


# Copies --------------------------------------------------------------------------------------------------------------


def led(directory: LogDirectory, leaders: dict[tuple[str, int], int]) -> None:
    """The metadata log names the leaders of partitions, in leader epoch 0."""
    log, topics = directory.partition("__cluster_metadata"), sorted({topic for topic, _ in leaders})
    ids = {topic: UUID(int=number) for number, topic in enumerate(topics, 1)}
    messages: list[tuple[int, TopicRecord | PartitionRecord]] = [
        (2, TopicRecord(name=topic, topic_id=ids[topic])) for topic in topics
    ]
    for (topic, number), leader in leaders.items():
        record = PartitionRecord(
            partition_id=number,
            topic_id=ids[topic],
            replicas=(1, 2),
            isr=(1, 2),
            leader=leader,
            leader_epoch=0,
            partition_epoch=0,
        )
        messages.append((3, record))
    log.records([Record(value=bytes((1, key, 0)) + one.encode(version=0), timestamp=NOON) for key, one in messages])


def audited(root: Path, after: int, *, ahead: int = 0, epochs: str = "0\n1\n0 0\n", ended: bool = True) -> Audit:
    """The audit of an open transaction without a transactional id, in copies of two running brokers: the first leads
    its partition, the second `__transaction_state`.

    Args:
        after: the newest record of each partition of `__transaction_state` is later than the data by that.
        ahead: how far the clock of the first broker is ahead.
        epochs: the first broker's `leader-epoch-checkpoint`. `ended`: a transaction shows how far the clocks differ.
    """
    first, second = (LogDirectory(root / name, stopped=False) for name in ("one", "two"))
    orders = first.partition("orders")
    orders.data(50, 0, at=NOON)
    second.id("other", "Ongoing", 50, 0, ("orders", 0), at=NOON)
    second.id("other", "PrepareCommit", 50, 1, ("orders", 0), at=NOON + 10)
    orders.marker("COMMIT", 50, 1 if ended else 0, at=NOON + 15 + ahead)
    second.id("other", "CompleteCommit", 50, 1, at=NOON + 20)
    orders.data(PID, at=NOON)
    orders.marker("COMMIT", 77, at=NOON + MINUTE + ahead)
    first.partition("payments").marker("COMMIT", 77, at=NOON + 3 * HOUR + ahead)  # it is older than any limit
    for name in ("clock-0", "clock-1", "clock-2"):
        second.id(name, "Empty", 1, 0, at=NOON + MINUTE + ahead + after)
    led(first, {("orders", 0): 1, ("payments", 0): 1, **{("__transaction_state", number): 2 for number in range(3)}})
    paths = [first.write(), second.write()]
    (first.root / "orders-0" / "leader-epoch-checkpoint").write_text(epochs)
    (second.root / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=test\n")
    return transactions.audit(logdir.open(*paths), Settings(transaction_state_partitions=3))


def judged(root: Path, after: int, **options: Any) -> Finding:
    """The verdict of `audited` on that transaction."""
    (finding,) = (one for one in audited(root, after, **options).findings if one.producer_id == PID)
    return finding


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (MINUTE, ""),
        (HOUR, "; the clock of broker 1 is ahead of broker 2's by 59 min 59 s to 1 h, as ended transactions show"),
        (-HOUR, "; the clock of broker 2 is ahead of broker 1's by 59 min 59 s to 1 h, as ended transactions show"),
    ],
)
def test_a_clock_that_is_far_from_others_is_told(tmp_path: Path, ahead: int, told: str) -> None:
    clock = str(audited(tmp_path, MINUTE, ahead=ahead).read.clock)
    assert clock.partition("; the clock")[1:] == told.partition("; the clock")[1:]


@pytest.mark.parametrize(
    ("ahead", "after", "verdict"),
    [
        (0, SECOND + 5, "unknown"),
        (0, SECOND + 6, "hanging"),
        (5 * MINUTE, 5 * MINUTE + SECOND + 5, "unknown"),
        (5 * MINUTE, 5 * MINUTE + SECOND + 6, "hanging"),
        (HOUR, SKEW_MS + SECOND, "unknown"),
        (HOUR, HOUR + SECOND + 6, "hanging"),
    ],
)
def test_times_of_two_brokers_are_compared_by_the_measured_difference(
    tmp_path: Path, ahead: int, after: int, verdict: str
) -> None:
    """The marker of the other transaction was written 5 ms after its Prepare, and 5 ms before its Complete."""
    assert judged(tmp_path, after, ahead=ahead).verdict == verdict


@pytest.mark.parametrize(
    "options",
    [
        {"ended": False},
        {"epochs": "0\n0\n"},
        {"epochs": "0\n1\n1 0\n"},
        {"epochs": "0\n1\n0 zero\n"},
        {"epochs": "0\n1\n0 4\n"},
    ],
    ids=["no such transaction", "no epoch", "another epoch", "damaged", "of an earlier epoch"],
)
def test_what_was_not_measured_may_differ_by_ten_minutes(tmp_path: Path, options: dict[str, Any]) -> None:
    assert judged(tmp_path / "less", SKEW_MS, **options).verdict == "unknown"
    assert judged(tmp_path / "more", SKEW_MS + 1, **options).verdict == "hanging"


@given(st.integers(0, 2**63 - 1), st.integers(-(2**15), 2**15 - 1))
def test_the_hash_is_the_finalizer_of_splitmix64(producer_id: int, epoch: int) -> None:
    (found,) = clock_offsets._hashes(np.array([producer_id]), np.array([epoch])).tolist()
    mixed = ((producer_id << 16) ^ epoch) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = ((mixed ^ (mixed >> shift)) * factor) % 2**64
    assert found == mixed ^ (mixed >> 31)
