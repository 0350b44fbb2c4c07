"""Clocks of brokers: which times count, and which may be compared with others."""

from __future__ import annotations

import pytest

from kafkawire.transactions.cluster.broker_clocks import FAR_MS, BrokerClocks, broker_clocks
from kafkawire.transactions.facts import CLUSTER_METADATA, Leader, PartitionFacts, Place, Segment, partition_of
from tests.audit_logs import HOUR, NOON

LEADERS = {("orders", number): Leader(number, 3) for number in range(4)}
DAY = FAR_MS


def partition(number: int, time: int, *, epoch: int = 3, before: int = 0, topic: str = "orders") -> PartitionFacts:
    """A replica whose leader of an epoch wrote a time last. `before`: by a leader of an earlier epoch."""
    segment = Segment(
        base_offset=0,
        first_offset=0,
        end_offset=1,
        leader_epoch=epoch,
        broker_time=max(time, before),
        leader_time=(epoch, time),
    )
    return partition_of(Place("logs", topic, number), [segment])


def clocks(*partitions: PartitionFacts) -> BrokerClocks:
    return broker_clocks(partitions, LEADERS)


def test_a_broker_far_before_the_others_is_named_and_its_times_compare_up_to_its_newest() -> None:
    """Whether it wrote nothing since, or its clock is behind, is not known."""
    found = clocks(partition(0, NOON), partition(1, NOON - HOUR), partition(2, NOON - DAY - HOUR))
    assert found.newest is not None
    assert (found.newest.time, found.far, list(found.behind)) == (NOON, None, [2])
    assert found.limit(("orders", 2), NOON - DAY - 2 * HOUR) == NOON - DAY - HOUR
    assert found.limit(("orders", 0), NOON - DAY - 2 * HOUR) == NOON - DAY - HOUR, (
        "an earlier leader may have written it"
    )
    assert found.limit(("orders", 0), NOON - DAY) is None


@pytest.mark.parametrize("time", [NOON * 1000, 2**63 - 1])
def test_times_in_another_unit_are_no_clock_whoever_agrees_on_them(time: int) -> None:
    found = clocks(partition(0, time), partition(1, time), partition(2, NOON))
    assert found.newest is not None
    assert found.far is not None
    assert (found.newest.time, found.far.time, found.is_far(time), found.is_far(NOON)) == (NOON, time, True, False)
    alone = clocks(partition(0, time), partition(1, time))
    assert (alone.newest, alone.is_far(time), alone.is_far(NOON)) == (None, True, False)


def test_brokers_within_a_day_compare() -> None:
    found = clocks(partition(0, NOON), partition(1, NOON - DAY))
    assert (found.behind, found.limit(("orders", 1), NOON - DAY)) == ({}, None)


def test_a_leader_is_the_source_of_what_it_wrote_and_not_of_what_an_earlier_leader_wrote() -> None:
    found = clocks(partition(0, NOON), partition(1, NOON), partition(2, NOON - 2 * DAY, before=NOON))
    assert [stamp.time for stamp in found.behind.values()] == [NOON - 2 * DAY]
    found = clocks(partition(0, NOON), partition(1, NOON), partition(2, NOON - 2 * DAY, epoch=2))
    assert (found.behind, found.alone) == ({}, {("orders", 2): NOON - 2 * DAY})


@pytest.mark.parametrize("of", [("orders", 9), ("orders", 8)])
def test_times_of_a_partition_whose_leader_is_not_known_compare_up_to_its_own_newest(of: tuple[str, int]) -> None:
    found = clocks(partition(0, NOON), partition(1, NOON), partition(9, NOON - 2 * DAY)).of([of], {})
    assert found.limit(("orders", 9), NOON - 2 * DAY) == (NOON - 2 * DAY if of == ("orders", 9) else None)
    assert found.limit(("orders", 0), NOON - 2 * DAY) is None


def test_the_metadata_log_is_a_clock_and_nothing_is_late_by_it_alone() -> None:
    """Brokers wrote nothing for two days, or the controller's clock is ahead."""
    metadata = partition(0, NOON + 2 * DAY, topic=CLUSTER_METADATA)
    found = clocks(metadata, partition(0, NOON), partition(1, NOON))
    assert found.newest is not None
    assert (found.newest.time, found.behind) == (NOON + 2 * DAY, {})
    assert found.limit(("orders", 0), NOON - HOUR) == NOON
    confirmed = clocks(metadata, partition(0, NOON + 2 * DAY), partition(1, NOON))
    assert (confirmed.reference, list(confirmed.behind)) == (None, [1])


def test_a_time_far_after_all_others_does_not_count() -> None:
    found = clocks(partition(0, NOON), partition(1, NOON + 2 * DAY), partition(2, NOON))
    assert found.far is not None
    assert (found.far.time, found.is_far(NOON), found.is_far(NOON + 1)) == (NOON + 2 * DAY, False, True)


def test_without_times_nothing_is_known() -> None:
    assert clocks() == BrokerClocks()
    assert not BrokerClocks().is_far(NOON)


def test_partitions_that_are_led_by_a_broker_far_before_others_are_known() -> None:
    found = clocks(partition(0, NOON), partition(1, NOON), partition(2, NOON - 2 * DAY))
    assert found.of([("orders", 1), ("orders", 2), ("orders", 9)], LEADERS).apart == {("orders", 2)}
