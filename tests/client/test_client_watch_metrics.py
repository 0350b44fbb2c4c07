"""Metrics of a watch, as Prometheus reads them."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire.client import TopicPartition
from kafkawire.client.watch.state import WatchState, advance
from kafkawire.rows import Finding, Lag, LagCount
from tests.client.watching import MINUTE_MS, ORDERS, T0, attempt, finding, observation
from tests.golden import check

pytest.importorskip("prometheus_client")

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from kafkawire.client.watch.metrics import MOST_PARTITIONS, Exporter, late

LIMIT_MS = 15 * MINUTE_MS
NOW = T0 + MINUTE_MS + 1000
LATE = "kafka_server_replica_manager_partitions_with_late_transactions_count"
DURATION = "kafka_cluster_partition_max_active_transaction_duration_seconds"
LAG = "kafka_cluster_partition_last_stable_offset_lag"


def state_of(*seen: Any) -> WatchState:
    state = WatchState()
    for number, one in enumerate(seen, 1):
        state, _ = advance(state, attempt(number, one))
    return state


def text_of(state: WatchState, now: int = NOW) -> str:
    exporter = Exporter(lambda: state, lambda: now, interval_ms=MINUTE_MS)
    return generate_latest(exporter.registry()).decode()


def samples(state: WatchState, now: int = NOW) -> dict[str, dict[tuple[str, ...], float]]:
    """Value by labels' values (topic and partition, verdict and reason), by name."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text_of(state, now)):
        for sample in family.samples:
            mine = found.setdefault(sample.name, {})
            labels = tuple(value for _, value in sorted(sample.labels.items(), reverse=True))
            assert labels not in mine, "a series twice"
            mine[labels] = sample.value
    return found


def old(minutes: float, **fields: Any) -> Finding:
    age_ms = round(minutes * MINUTE_MS)
    return finding(age_ms=age_ms, last_timestamp=NOW - age_ms, **fields)


def test_exposition_equals_the_golden_file() -> None:
    """Reviewed by eye."""
    seen = observation(
        old(30, last_stable_offset=40, high_watermark=100, blocked=True),
        old(1, reason="live", producer_id=8, start_offset=60, last_stable_offset=40, high_watermark=100),
        old(2, place=TopicPartition("payments", 3), reason="late", last_stable_offset=7, high_watermark=7),
        described=[ORDERS, TopicPartition("payments", 3)],
        errors={TopicPartition("orders", 1): "refused"},
        leaders={ORDERS: 2, TopicPartition("orders", 1): 3},
        gaps={"topic orders": "orders-1: refused"},
        brokers=(1, 2, 3),
    )
    state, _ = advance(WatchState(), attempt(1, seen, missed=1))
    check("txn/metrics.txt", text_of(state))


def test_before_the_first_poll_and_where_nothing_was_ever_seen() -> None:
    assert set(samples(WatchState())) == {"kafkawire_polls_total", "kafkawire_missed_polls_total", "kafkawire_stale"}
    found = samples(state_of(None))
    assert found["kafkawire_poll_success"] == {(): 0}
    assert found["kafkawire_polls_total"] == {("complete",): 0, ("incomplete",): 0, ("failed",): 1}
    assert LATE not in found
    assert "kafkawire_last_success_timestamp_seconds" not in found


@pytest.mark.parametrize(
    ("last", "as_of", "is_late"),
    [
        (1, 1 + LIMIT_MS + 5 * MINUTE_MS, False),  # as Kafka's testPartitionsWithLateTransactionsCount has it:
        (1, 2 + LIMIT_MS + 5 * MINUTE_MS, True),  # a millisecond later
        (0, T0, False),
        (-1, T0, False),
        (None, T0, False),
        (T0 + 1, T0, False),
    ],
)
def test_late_as_kafka_counts_it(last: int | None, as_of: int, is_late: bool) -> None:
    assert late(finding(last_timestamp=last), as_of, LIMIT_MS) is is_late


def test_the_earliest_transaction_decides_whether_a_partition_is_late() -> None:
    """ProducerStateManager.oldestTxnLastTimestamp is that of the first of them, whatever the others'."""
    first, second = {"producer_id": 7, "start_offset": 40}, {"producer_id": 8, "start_offset": 41}
    assert samples(state_of(observation(old(30, **first), old(30, **second))))[LATE] == {("1",): 1, ("2",): 0}
    assert samples(state_of(observation(old(30, **first), old(1, **second))))[LATE] == {("1",): 1, ("2",): 0}
    assert samples(state_of(observation(old(1, **first), old(30, **second))))[LATE] == {("1",): 0, ("2",): 0}


def test_the_longest_counts_for_the_duration() -> None:
    found = samples(state_of(observation(old(5), old(7.5, producer_id=8))))
    assert found[DURATION] == {("orders", "0"): 450}


def test_lag_is_high_watermark_minus_last_stable_offset() -> None:
    def lag(**fields: Any) -> dict[tuple[str, ...], float]:
        return samples(state_of(observation(old(30, **fields)))).get(LAG, {})

    assert lag(last_stable_offset=40, high_watermark=90) == {("orders", "0"): 50}
    assert lag(last_stable_offset=40, high_watermark=40) == {("orders", "0"): 0}
    assert lag(last_stable_offset=41, high_watermark=40) == {("orders", "0"): 0}
    assert lag(last_stable_offset=40) == lag() == {}


def test_what_was_read_last_is_exposed_until_it_is_old() -> None:
    """A broker restarts: no alert ends by that. A cluster is gone: no value pretends to be of now."""
    state = state_of(observation(old(30)), None)
    found = samples(state, NOW + MINUTE_MS)
    assert found[LATE] == {("1",): 1, ("2",): 0}
    assert found["kafkawire_poll_success"] == {(): 0}
    assert found["kafkawire_last_success_timestamp_seconds"] == {(): NOW / 1000}
    found = samples(state, NOW + 3 * MINUTE_MS + 1)
    assert LATE not in found
    assert DURATION not in found
    assert found["kafkawire_poll_success"] == {(): 0}
    unread = observation(described=(), errors={ORDERS: "no leader"})
    assert samples(state_of(observation(old(30)), unread), NOW + MINUTE_MS)[DURATION] == {("orders", "0"): 1800}
    late_again = samples(state_of(observation(old(30)), unread, unread, unread, unread), NOW + 4 * MINUTE_MS)
    assert DURATION not in late_again
    assert late_again["kafkawire_partition_unread"] == {("orders", "0"): 1}


def test_every_verdict_has_a_series() -> None:
    found = samples(state_of(observation(finding(), finding(producer_id=8))))["kafkawire_open_transactions"]
    assert found["hanging", "transaction_ended"] == 2
    assert len(found) == 11
    assert sum(found.values()) == 2


@pytest.mark.parametrize(
    "topic", ['a"} 1\nevil{x="', "a\\", "\x1b[31mred", "\udcff", "{}", "", "ß∂", "a\r\n# HELP x y", "\u202e"]
)
def test_hostile_names_are_values_of_labels_and_nothing_else(topic: str) -> None:
    usual = samples(state_of(observation(old(30))))
    found = samples(state_of(observation(old(30, place=TopicPartition(topic, 0)), described=())))
    assert found.keys() == usual.keys()
    ((name, partition),) = found[DURATION]
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in topic)
    assert (name, partition) == (shown, "0")


def test_names_that_become_one_are_one_series() -> None:
    seen = observation(
        old(30, place=TopicPartition("\udcff", 0)), old(40, place=TopicPartition("\\udcff", 0)), described=()
    )
    assert samples(state_of(seen))[DURATION] == {("\\udcff", "0"): 2400}


@pytest.mark.slow
def test_series_are_bounded_and_those_that_matter_most_are_there() -> None:
    places = [TopicPartition("t", number) for number in range(MOST_PARTITIONS + 500)]
    found = [old(1, place=place, reason="live", high_watermark=1, last_stable_offset=0) for place in places]
    found[700] = old(0, place=places[700])
    found[800] = old(9, place=places[800], reason="live")
    name = "n" * 250  # longer than the names of Kafka's topics
    found.append(old(99, place=TopicPartition(name, 0)))
    errors = {TopicPartition("u", number): "refused" for number in range(MOST_PARTITIONS + 1)}
    seen = observation(*found, described=(), errors=errors, brokers=tuple(range(MOST_PARTITIONS + 1)))
    result = samples(state_of(seen))
    assert {("t", "700"), ("t", "800")} < set(result[DURATION])
    assert not any(topic == name for topic, _ in result[DURATION])
    assert result["kafkawire_left_out_partitions"] == {(): 501}
    assert result["kafkawire_unread_partitions"][("1",)] == MOST_PARTITIONS + 1
    assert max(map(len, result.values())) == MOST_PARTITIONS


def test_late_counts_with_the_limit_of_the_brokers() -> None:
    assert samples(state_of(observation(old(30), max_timeout_ms=60 * MINUTE_MS)))[LATE] == {("1",): 0, ("2",): 0}
    assert samples(state_of(observation(old(30), max_timeout_ms=MINUTE_MS)))[LATE] == {("1",): 1, ("2",): 0}


def test_brokers_that_do_not_answer_are_missing_from_those_that_did() -> None:
    state = state_of(observation(brokers=(1, 2, 3), missing=[4], silent=[3]))
    found = samples(state)
    assert (found["kafkawire_brokers_expected"], found["kafkawire_brokers_answered"]) == ({(): 4}, {(): 2})
    failed, _ = advance(state, attempt(2))
    found = samples(failed, NOW + 99 * MINUTE_MS)
    assert (found["kafkawire_brokers_expected"], found["kafkawire_brokers_answered"]) == ({(): 4}, {(): 0})


def test_staleness_shows_when_a_poll_failed_or_does_not_end() -> None:
    def stale(state: WatchState, now: int) -> float:
        return samples(state, now)["kafkawire_stale"][()]

    began = T0 + MINUTE_MS
    state = state_of(observation())
    due = began + MINUTE_MS
    assert stale(WatchState(), T0) == 1
    assert stale(state, due + MINUTE_MS // 2) == 0
    assert stale(state, due + MINUTE_MS // 2 + 1) == 1, "half an interval after it was due"
    failed, _ = advance(state, attempt(2))
    assert stale(failed, due + 1000) == 1
    back, _ = advance(failed, attempt(3, observation()))
    assert stale(back, due + MINUTE_MS + 1000) == 0
    slow, _ = advance(WatchState(), replace(attempt(1, observation()), ended=began + 40_000))
    assert stale(slow, due + MINUTE_MS) == 0, "polls that take long are not late"
    assert stale(slow, due + MINUTE_MS + 1) == 1


def test_the_last_complete_poll_has_a_time_of_its_own() -> None:
    name = "kafkawire_last_complete_timestamp_seconds"
    gap = observation(gaps={"topic orders": "refused"})
    assert name not in samples(state_of(gap))
    found = samples(state_of(observation(), gap))
    assert found[name] == {(): NOW / 1000}
    assert found["kafkawire_last_success_timestamp_seconds"] == {(): NOW / 1000 + 60}


HANGING = "kafkawire_hanging"


def test_hanging_transactions_have_series_by_partition() -> None:
    payments = TopicPartition("payments", 3)
    seen = observation(
        old(30),
        old(31, producer_id=8, start_offset=50),
        old(30, reason="live", place=TopicPartition("clear", 0)),
        old(30, reason="stuck_prepare", place=payments),
    )
    found = samples(state_of(seen))
    assert found[HANGING] == {("orders", "0"): 2, ("payments", "3"): 1}
    assert found["kafkawire_hanging_left_out_partitions"] == {(): 0}


def test_what_blocks_readers_for_too_long_has_series_of_its_own() -> None:
    blocked = old(30, reason="live", place=TopicPartition("payments", 3), attention="blocked")
    found = samples(state_of(observation(old(30), blocked, old(30, reason="live", producer_id=9))))
    assert found["kafkawire_blocked"] == {("payments", "3"): 1}
    assert found["kafkawire_blocked_left_out_partitions"] == {(): 0}
    assert found[HANGING] == {("orders", "0"): 1}


def test_lags_have_bounds_and_groups_that_were_not_read_are_named() -> None:
    exact = LagCount(least=12, most=12, bytes_least=1, bytes_most=1, exact=True)
    held = LagCount(least=0, most=5, bytes_least=0, bytes_most=9, exact=False)
    lag = Lag(
        group="shipments", topic="orders", partition=3, read_committed=exact, held=held, age_ms=90_000, lost_offsets=4,
        high_watermark=20,
    )  # fmt: skip
    unread = Lag(group="other\n", topic="orders", partition=1, problems=("not read",))
    state = replace(state_of(observation()), lags=(lag, unread), unread_groups={"gone": "no such group"})
    found = samples(state)
    place = ("orders", "3", "shipments")
    assert found["kafkawire_group_lag_records"] == {(*place, "least"): 12, (*place, "most"): 12}
    assert found["kafkawire_group_held_records"] == {(*place, "least"): 0, (*place, "most"): 5}
    assert found["kafkawire_group_lag_age_seconds"] == {place: 90}
    assert found["kafkawire_group_lost_offsets"] == {place: 4}
    assert found["kafkawire_group_lag_unread"] == {("gone",): 1, ("other\\n",): 1}
    assert not any(name.startswith("kafkawire_group") for name in samples(state_of(observation())))
    stale_ = samples(state, NOW + 10 * MINUTE_MS)
    assert "kafkawire_group_lag_records" not in stale_


def test_series_of_what_hangs_are_bounded_and_counted() -> None:
    places = [TopicPartition("t", number) for number in range(MOST_PARTITIONS + 20)]
    found = [old(1 + number, place=place) for number, place in enumerate(places)]
    found.append(old(9999, place=TopicPartition("n" * 250, 0)))
    result = samples(state_of(observation(*found, described=())))
    assert len(result[HANGING]) == MOST_PARTITIONS
    assert ("t", "19") not in result[HANGING], "those that are open longest have series"
    assert result["kafkawire_hanging_left_out_partitions"] == {(): 21}


@pytest.mark.parametrize("topic", ['a"} 1\nevil{x="', "\x1b[31mred", "\udcff", "", "a\r\n# HELP x y"])
def test_hostile_names_of_what_hangs_are_values_of_labels(topic: str) -> None:
    found = samples(state_of(observation(old(30, place=TopicPartition(topic, 0)), described=())))
    shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in topic)
    assert found[HANGING] == {(shown, "0"): 1}
