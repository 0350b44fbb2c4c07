"""A watch's state as Prometheus metrics: Kafka's metrics in Prometheus' spelling, and the health of the polls.

`families` is a pure function of a `WatchState`; `Exporter` is a collector of prometheus-client. Names from the cluster
are used as label values only. The number of series is bounded: partitions beyond a limit are left out, the least
important first, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from kafkawire._installation import install_command
from kafkawire.client.errors import ConfigError
from kafkawire.client.results import TopicPartition
from kafkawire.client.watch.state import OUTCOMES, WatchedTransaction, WatchState, noteworthy
from kafkawire.printable import printable
from kafkawire.rows import Finding, Impact, Lag, LagCount
from kafkawire.transactions.attention import BLOCKED, HANGING, STUCK
from kafkawire.transactions.verdict.case import GRACE_MS
from kafkawire.transactions.verdict.completeness import attention as needs_attention
from kafkawire.transactions.verdict.verdicts import REASONS

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

#: Partitions with series of their own.
MOST_PARTITIONS = 1000
#: Intervals for which a value is exposed after its reading.
_KEPT = 3
#: Kafka's longest topic name (Topic.MAX_NAME_LENGTH); a longer one is not Kafka's.
_LONGEST_NAME = 249

_LATE = "kafka_server_replica_manager_partitions_with_late_transactions_count"
_DURATION = "kafka_cluster_partition_max_active_transaction_duration_seconds"
_LAG = "kafka_cluster_partition_last_stable_offset_lag"

Labels = tuple[str, ...]
#: Name, help, names of the labels, and the values by those labels.
Gauge = tuple[str, str, tuple[str, ...], dict[Labels, float]]


def late(finding: Finding, as_of: int, max_timeout_ms: int) -> bool:
    """Whether the earliest open transaction of a partition makes it count as late.

    It is late by the rule of ProducerStateManager.hasLateTransaction: its producer's last batch is older than
    transaction.max.timeout.ms and 5 minutes (LATE_TRANSACTION_BUFFER_MS). A partition without a time of 1 or above
    never is. `as_of`: epoch milliseconds of the reading. `max_timeout_ms`: transaction.max.timeout.ms."""
    last = finding.last_timestamp or 0
    return last > 0 and as_of - last > max_timeout_ms + GRACE_MS


def late_by_broker(state: WatchState) -> dict[int, int]:
    """How many of the partitions that each broker leads have late transactions.

    Kafka's kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount (KIP-664)."""
    counts = dict.fromkeys(state.brokers, 0)
    for seen in _earliest(state.seen.values()).values():
        if late(seen.finding, seen.at, state.max_timeout_ms):
            counts[seen.leader] = counts.get(seen.leader, 0) + 1
    return counts


def durations(seen: Iterable[WatchedTransaction]) -> dict[TopicPartition, float]:
    """Seconds that the longest open transaction of each partition is open, at least (`WatchedTransaction.duration_ms`).

    MaxActiveTransactionDuration of KIP-664's draft, at the level of partitions; brokers never got it."""
    found: dict[TopicPartition, float] = {}
    for one in seen:
        place = _place(one)
        found[place] = max(found.get(place, 0.0), one.duration_ms / 1000)
    return found


def lags(seen: Iterable[WatchedTransaction]) -> dict[TopicPartition, float]:
    """High watermark minus last stable offset of partitions with open transactions; that of others is 0.

    Kafka's kafka.cluster:type=Partition,name=LastStableOffsetLag (UnifiedLog.lastStableOffsetLag)."""
    found = {}
    for one in seen:
        high, stable = one.finding.high_watermark, one.finding.last_stable_offset
        if high is not None and stable is not None:
            found[_place(one)] = float(max(0, high - stable))
    return found


#: Name, help and value of the metrics of an impact, of which the largest of a partition counts.
_IMPACTS: tuple[tuple[str, str, Callable[[Impact], float | None]], ...] = (
    (
        "kafkawire_held_records",
        "Records held back from read_committed consumers by a hanging or stuck transaction, partly estimated.",
        lambda impact: impact.held.records,
    ),
    (
        "kafkawire_held_bytes",
        "Bytes held back from read_committed consumers by a hanging or stuck transaction, partly estimated.",
        lambda impact: impact.held.bytes,
    ),
    (
        "kafkawire_waiting_groups",
        "Consumer groups whose committed offset was the last stable offset when it was first read.",
        lambda impact: None if impact.groups is None else sum(one.waits for one in impact.groups),
    ),
)


def _measured(
    seen: Iterable[WatchedTransaction], value: Callable[[Impact], float | None]
) -> dict[TopicPartition, float]:
    found: dict[TopicPartition, float] = {}
    for one in seen:
        impact = one.finding.impact
        if impact is not None and impact.measured_at is not None and (number := value(impact)) is not None:
            found[_place(one)] = max(found.get(_place(one), 0.0), float(number))
    return found


#: Name, help and value of each metric of a lag that has a lower and an upper bound.
_LAGS: tuple[tuple[str, str, Callable[[Lag], LagCount | None]], ...] = (
    (
        "kafkawire_group_lag_records",
        "Records that a read_committed consumer of a group gets now: at least, and at most.",
        lambda lag: lag.read_committed,
    ),
    (
        "kafkawire_group_held_records",
        "Records behind the last stable offset that a consumer of a group gets later: at least, and at most.",
        lambda lag: lag.held,
    ),
)


def group_lags(state: WatchState) -> Iterator[Gauge]:
    """Metrics of the lag of groups, of the partitions with the largest; none where no group is watched."""
    if not state.lags and not state.unread_groups:
        return
    ordered = sorted(state.lags, key=lambda lag: (-(lag.read_committed.most if lag.read_committed else 0), lag.group))
    shown = [one for one in ordered if len(one.topic) <= _LONGEST_NAME][:MOST_PARTITIONS]
    labels = ("group", "topic", "partition")
    for name, text, counted in _LAGS:
        bounds: dict[Labels, float] = {}
        for one in shown:
            if (found := counted(one)) is not None:
                bounds[*_of_lag(one), "least"], bounds[*_of_lag(one), "most"] = float(found.least), float(found.most)
        yield name, text, (*labels, "bound"), bounds
    ages = {_of_lag(one): one.age_ms / 1000 for one in shown if one.age_ms is not None}
    yield "kafkawire_group_lag_age_seconds", "Age of the first record that a group has not read.", labels, ages
    lost = {_of_lag(one): float(one.lost_offsets) for one in shown if one.high_watermark is not None}
    yield "kafkawire_group_lost_offsets", "Offsets that were deleted before a group read them.", labels, lost
    left_out = float(len(state.lags) - len(shown))
    yield "kafkawire_group_lag_left_out_partitions", "Partitions of groups without series.", (), {(): left_out}
    problems: dict[Labels, float] = {(printable(group)[:_LONGEST_NAME],): 1.0 for group in state.unread_groups}
    for one in state.lags:
        if one.problems:
            problems[(printable(one.group)[:_LONGEST_NAME],)] = 1.0
    yield "kafkawire_group_lag_unread", "1 where a group's lag could not be read, or in part.", ("group",), problems


def _of_lag(one: Lag) -> Labels:
    return printable(one.group)[:_LONGEST_NAME], printable(one.topic)[:_LONGEST_NAME], str(one.partition)


def gauges(state: WatchState) -> Iterator[Gauge]:
    """Metrics of the cluster. A partition has all series or none; a value is that of its last reading."""
    chosen, left_out = _chosen(state, MOST_PARTITIONS)
    by_broker = late_by_broker(state)
    yield (
        _LATE,
        "Partitions with transactions open longer than transaction.max.timeout.ms and 5 minutes, by leader.",
        ("broker",),
        {_broker(broker): float(count) for broker, count in sorted(by_broker.items())[:MOST_PARTITIONS]},
    )
    for name, text, values in (
        (_DURATION, "Seconds that a partition's longest open transaction is open, at least.", durations),
        (_LAG, "High watermark minus last stable offset of a partition with open transactions.", lags),
    ):
        yield name, text, ("topic", "partition"), _by_partition(values(chosen))
    for name, text, figure in _IMPACTS:
        yield name, text, ("topic", "partition"), _by_partition(_measured(chosen, figure))
    verdicts: dict[Labels, float] = dict.fromkeys(REASONS, 0.0)
    for seen in state.seen.values():
        verdict = seen.finding.verdict, seen.finding.reason
        verdicts[verdict] = verdicts.get(verdict, 0.0) + 1
    yield "kafkawire_open_transactions", "Open transactions by verdict.", ("verdict", "reason"), verdicts
    hanging, left_out_hanging = _needing(state, (STUCK, HANGING), MOST_PARTITIONS)
    text = "Transactions that hang or are stuck, of a partition."
    yield "kafkawire_hanging", text, ("topic", "partition"), hanging
    text = "Partitions with transactions that hang or are stuck, without a series in kafkawire_hanging."
    yield "kafkawire_hanging_left_out_partitions", text, (), {(): left_out_hanging}
    blocked, left_out_blocked = _needing(state, (BLOCKED,), MOST_PARTITIONS)
    text = "Transactions that do not hang and have held the last stable offset of a partition for too long."
    yield "kafkawire_blocked", text, ("topic", "partition"), blocked
    text = "Partitions with transactions that have held their last stable offset for too long, without a series."
    yield "kafkawire_blocked_left_out_partitions", text, (), {(): left_out_blocked}
    yield "kafkawire_left_out_partitions", "Partitions with open transactions, without series.", (), {(): left_out}
    yield "kafkawire_partitions", "Partitions that were read.", (), {(): float(state.described)}
    yield (
        "kafkawire_unread_partitions",
        "Partitions that could not be read, by the broker of the request (-1: no leader).",
        ("broker",),
        _counted(state.failed.values(), state.brokers, MOST_PARTITIONS),
    )
    unread = dict.fromkeys(sorted(state.failed)[:MOST_PARTITIONS], 1.0)
    yield "kafkawire_partition_unread", "1 where it could not be read.", ("topic", "partition"), _by_partition(unread)
    yield "kafkawire_gaps", "What could not be read, or may be hidden.", (), {(): float(len(state.gaps))}


def stale(state: WatchState, now: int, interval_ms: int) -> bool:
    """Whether the last poll that was due failed or takes too long, so that older values are exposed.

    Too long: more than half an interval or, if longer, twice the time of the previous poll; at most an interval. `now`:
    epoch milliseconds. `interval_ms`: between the starts of two polls."""
    last = state.last
    if last is None or last.observation is None:
        return True
    patience = min(interval_ms, max(interval_ms // 2, 2 * (last.ended - last.began)))
    return now > max(last.ended, last.began + interval_ms) + patience


def polling(state: WatchState, now: int, since: int, limit_ms: int) -> bool:
    """Whether polls go on: one has ended, or the watch began, at most `limit_ms` ago. It says nothing of the cluster.
    `now`: epoch milliseconds. `since`: when the watch began. `limit_ms`: how long the next poll may take."""
    return now - max(since, state.last.ended if state.last else since) <= limit_ms


def health(state: WatchState, now: int, interval_ms: int) -> Iterator[Gauge]:
    """Metrics of the polls. `now`: epoch milliseconds. `interval_ms`: between the starts of two polls."""
    last = state.last
    text = "1 where the last poll that was due failed or has not ended."
    yield "kafkawire_stale", text, (), {(): float(stale(state, now, interval_ms))}
    if last is not None:
        seen = last.observation is not None
        yield "kafkawire_poll_success", "Whether the last poll could read any partition.", (), {(): float(seen)}
        took = (last.ended - last.began) / 1000
        yield "kafkawire_poll_duration_seconds", "How long the last poll took.", (), {(): took}
        ended = last.ended / 1000
        yield "kafkawire_last_poll_timestamp_seconds", "When the last poll ended.", (), {(): ended}
    if state.success is not None:
        text = "When the last poll ended that could read any partition."
        yield "kafkawire_last_success_timestamp_seconds", text, (), {(): state.success / 1000}
        text = "Brokers of the cluster, also those that are not there but have replicas."
        yield "kafkawire_brokers_expected", text, (), {(): float(len(state.expected))}
        text = "Brokers that answered all that the last poll asked; 0 where it failed."
        yield "kafkawire_brokers_answered", text, (), {(): float(len(state.answered))}
    if state.complete is not None:
        text = "When the last poll ended that saw everything."
        yield "kafkawire_last_complete_timestamp_seconds", text, (), {(): state.complete / 1000}


def counters(state: WatchState) -> Iterator[Gauge]:
    """Counters, without the suffix `_total`."""
    polls: dict[Labels, float] = {(outcome,): float(state.outcomes[outcome]) for outcome in OUTCOMES}
    yield "kafkawire_polls", "Polls by outcome.", ("outcome",), polls
    yield "kafkawire_missed_polls", "Polls that did not take place: one before took too long.", (), {(): state.missed}
    failures: dict[Labels, float] = {_broker(broker): float(n) for broker, n in sorted(state.failures.items())}
    yield "kafkawire_broker_failures", "Polls in which a broker did not answer something.", ("broker",), failures


def families(state: WatchState, now: int, *, interval_ms: int) -> Iterator[Metric]:
    """All metrics. `now`: epoch milliseconds. `interval_ms`: between polls. Values that were read more than three
    intervals ago are not exposed, except for the health of the polls."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    fresh = _fresh(state, now - _KEPT * interval_ms)
    shown = [*health(state, now, interval_ms)]
    if fresh is not None:
        shown += gauges(fresh)
        shown += group_lags(fresh)
    for kind, given in ((GaugeMetricFamily, shown), (CounterMetricFamily, counters(state))):
        for name, text, labels, values in given:
            family = kind(name, text, labels=labels)
            for label_values, value in values.items():
                family.add_metric(label_values, value)
            yield family


class Exporter:
    """A collector of prometheus-client. `state` is called at each scrape, from another thread; the state that it
    returns must not be modified."""

    def __init__(self, state: Callable[[], WatchState], clock: Callable[[], int], *, interval_ms: int) -> None:
        self._state = state
        self._clock = clock
        self._interval_ms = interval_ms

    def collect(self) -> Iterator[Metric]:
        return families(self._state(), self._clock(), interval_ms=self._interval_ms)

    def registry(self) -> CollectorRegistry:
        """A registry with this collector only. Raises ConfigError where prometheus-client is not installed."""
        try:
            from prometheus_client import CollectorRegistry
        except ImportError:
            raise ConfigError(f"metrics need prometheus-client: {install_command('net')}") from None
        registry = CollectorRegistry()
        registry.register(self)
        return registry


def _fresh(state: WatchState, since: int) -> WatchState | None:
    """The state without older transactions; None if no poll has succeeded since."""
    if state.success is None or state.success < since:
        return None
    from msgspec.structs import replace

    return replace(state, seen={key: seen for key, seen in state.seen.items() if seen.at >= since})


def _chosen(state: WatchState, most: int) -> tuple[list[WatchedTransaction], float]:
    """The open transactions of the partitions that have series, and the number of partitions that have none. Partitions
    with hanging or noteworthy transactions come first, then those with the longest open ones."""
    ranks: dict[TopicPartition, tuple[bool, bool, int]] = {}
    for seen in state.seen.values():
        rank = seen.finding.verdict == HANGING, noteworthy(seen.finding), seen.duration_ms
        place = _place(seen)
        ranks[place] = max(ranks.get(place, rank), rank)
    places = sorted((place for place in ranks if len(place.topic) <= _LONGEST_NAME), key=lambda p: (ranks[p], p))
    chosen = set(places[-most:])
    return [seen for seen in state.seen.values() if _place(seen) in chosen], float(len(ranks) - len(chosen))


def _needing(state: WatchState, attention: Collection[str], most: int) -> tuple[dict[Labels, float], float]:
    """The number of transactions of each partition that need attention for one of some reasons, for the partitions with
    the longest open ones; and the number of further partitions."""
    chosen: dict[TopicPartition, list[WatchedTransaction]] = {}
    for seen in state.seen.values():
        if needs_attention(seen.finding) in attention:
            chosen.setdefault(_place(seen), []).append(seen)
    nameable = [place for place in chosen if len(place.topic) <= _LONGEST_NAME]
    places = sorted(nameable, key=lambda place: (-max(one.duration_ms for one in chosen[place]), place))[:most]
    counts = {place: float(len(chosen[place])) for place in sorted(places)}
    return _by_partition(counts), float(len(chosen) - len(places))


def _earliest(seen: Iterable[WatchedTransaction]) -> dict[TopicPartition, WatchedTransaction]:
    found: dict[TopicPartition, WatchedTransaction] = {}
    for one in seen:
        place = _place(one)
        if place not in found or (one.finding.start_offset or 0) < (found[place].finding.start_offset or 0):
            found[place] = one
    return found


def _place(seen: WatchedTransaction) -> TopicPartition:
    return TopicPartition(seen.finding.topic, seen.finding.partition)


def _by_partition(values: dict[TopicPartition, float]) -> dict[Labels, float]:
    """Values by labels. Characters that are not printable are escaped, because metrics are read on terminals, too; of
    two topics with the same escaped name the larger value counts."""
    found: dict[Labels, float] = {}
    for place, value in values.items():
        labels = printable(place.topic)[:_LONGEST_NAME], str(place.partition)
        found[labels] = max(found.get(labels, value), value)
    return found


def _counted(brokers: Iterable[int], known: Iterable[int], most: int) -> dict[Labels, float]:
    counts = dict.fromkeys(known, 0)
    for broker in brokers:
        counts[broker] = counts.get(broker, 0) + 1
    return {_broker(broker): float(count) for broker, count in sorted(counts.items())[:most]}


def _broker(broker: int) -> Labels:
    return (str(broker),)
