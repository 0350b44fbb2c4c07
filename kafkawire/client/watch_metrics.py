"""What a watch knows, as Prometheus metrics: Kafka's names in Prometheus' spelling, and the health of the polls.

Pure: `families` makes them from a `State`; `Exporter` hands them to prometheus-client. Names that the cluster chose are
label values and nothing else. How many series there are is bounded: partitions beyond a limit are left out, those that
matter least first, and counted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from kafkawire.client.errors import ConfigError
from kafkawire.client.results import TopicPartition
from kafkawire.client.watch_state import OUTCOMES, Seen, State, noteworthy
from kafkawire.printable import printable
from kafkawire.rows import Finding
from kafkawire.transactions.verdicts import GRACE_MS, HANGING, REASONS

if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.registry import CollectorRegistry

#: Partitions with series of their own.
MOST_PARTITIONS = 1000
#: Kafka's longest name of a topic (Topic.MAX_NAME_LENGTH); what is longer never came from Kafka.
_LONGEST_NAME = 249

_LATE = "kafka_server_replica_manager_partitions_with_late_transactions_count"
_DURATION = "kafka_cluster_partition_max_active_transaction_duration_seconds"
_LAG = "kafka_cluster_partition_last_stable_offset_lag"

Labels = tuple[str, ...]
#: Name, help, names of the labels, and the values by those labels.
Gauge = tuple[str, str, tuple[str, ...], dict[Labels, float]]


def late(finding: Finding, as_of: int, max_timeout_ms: int) -> bool:
    """Whether the earliest open transaction of a partition makes it count as late.

    As ProducerStateManager.hasLateTransaction: its producer's last batch is older than transaction.max.timeout.ms and
    5 minutes (LATE_TRANSACTION_BUFFER_MS). A partition without a time of 1 or above never is.
    """
    last = finding.last_timestamp or 0
    return last > 0 and as_of - last > max_timeout_ms + GRACE_MS


def late_by_broker(state: State, max_timeout_ms: int) -> dict[int, int]:
    """How many of the partitions that each broker leads have late transactions.

    Kafka's kafka.server:type=ReplicaManager,name=PartitionsWithLateTransactionsCount (KIP-664)."""
    counts = dict.fromkeys(state.brokers, 0)
    for seen in _earliest(state.seen.values()).values():
        if late(seen.finding, seen.at, max_timeout_ms):
            counts[seen.leader] = counts.get(seen.leader, 0) + 1
    return counts


def durations(seen: Iterable[Seen]) -> dict[TopicPartition, float]:
    """Seconds that the longest open transaction of each partition is open, at least (`Seen.duration_ms`).

    MaxActiveTransactionDuration of KIP-664's draft, at the level of partitions; brokers never got it."""
    found: dict[TopicPartition, float] = {}
    for one in seen:
        place = _place(one)
        found[place] = max(found.get(place, 0.0), one.duration_ms / 1000)
    return found


def lags(seen: Iterable[Seen]) -> dict[TopicPartition, float]:
    """High watermark minus last stable offset of partitions with open transactions; that of others is 0.

    Kafka's kafka.cluster:type=Partition,name=LastStableOffsetLag (UnifiedLog.lastStableOffsetLag)."""
    found = {}
    for one in seen:
        high, stable = one.finding.high_watermark, one.finding.last_stable_offset
        if high is not None and stable is not None:
            found[_place(one)] = float(max(0, high - stable))
    return found


def gauges(state: State, max_timeout_ms: int) -> Iterator[Gauge]:
    """Of the cluster. Each partition that has a series has all of them; each value is as of its reading."""
    chosen, left_out = _chosen(state, MOST_PARTITIONS)
    by_broker = late_by_broker(state, max_timeout_ms)
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
    verdicts: dict[Labels, float] = dict.fromkeys(REASONS, 0.0)
    for seen in state.seen.values():
        said = seen.finding.verdict, seen.finding.reason
        verdicts[said] = verdicts.get(said, 0.0) + 1
    yield "kafkawire_open_transactions", "Open transactions by verdict.", ("verdict", "reason"), verdicts
    yield "kafkawire_left_out_partitions", "Partitions with open transactions, without series.", (), {(): left_out}
    yield "kafkawire_partitions", "Partitions that were read.", (), {(): float(state.described)}
    yield (
        "kafkawire_unread_partitions",
        "Partitions that could not be read, by the broker that was asked (-1: none leads them).",
        ("broker",),
        _counted(state.failed.values(), state.brokers, MOST_PARTITIONS),
    )
    unread = dict.fromkeys(sorted(state.failed)[:MOST_PARTITIONS], 1.0)
    yield "kafkawire_partition_unread", "1 where it could not be read.", ("topic", "partition"), _by_partition(unread)
    yield "kafkawire_gaps", "What could not be read, or may be hidden.", (), {(): float(len(state.gaps))}


def health(state: State) -> Iterator[Gauge]:
    """Of the polls."""
    last = state.last
    if last is not None:
        seen = last.observation is not None
        yield "kafkawire_poll_success", "Whether the last poll saw something.", (), {(): float(seen)}
        took = (last.ended - last.began) / 1000
        yield "kafkawire_poll_duration_seconds", "How long the last poll took.", (), {(): took}
        ended = last.ended / 1000
        yield "kafkawire_last_poll_timestamp_seconds", "When the last poll ended.", (), {(): ended}
    if state.success is not None:
        text = "When the last poll ended that saw something."
        yield "kafkawire_last_success_timestamp_seconds", text, (), {(): state.success / 1000}


def counters(state: State) -> Iterator[Gauge]:
    """What only grows; names without their `_total`."""
    polls: dict[Labels, float] = {(outcome,): float(state.outcomes[outcome]) for outcome in OUTCOMES}
    yield "kafkawire_polls", "Polls by outcome.", ("outcome",), polls
    yield "kafkawire_missed_polls", "Polls that did not take place: one before took too long.", (), {(): state.missed}
    failures: dict[Labels, float] = {_broker(broker): float(n) for broker, n in sorted(state.failures.items())}
    yield "kafkawire_broker_failures", "Polls in which a broker did not answer something.", ("broker",), failures


def families(state: State, now: int, *, max_timeout_ms: int, stale_ms: int) -> Iterator[Metric]:
    """All of it.

    Args:
        now: the clock, epoch milliseconds.
        stale_ms: what was read longer ago is not exposed any more, but for the health of the polls.
    """
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    fresh = _fresh(state, now - stale_ms)
    shown = [*health(state)]
    if fresh is not None:
        shown += gauges(fresh, max_timeout_ms)
    for kind, given in ((GaugeMetricFamily, shown), (CounterMetricFamily, counters(state))):
        for name, text, labels, values in given:
            family = kind(name, text, labels=labels)
            for label_values, value in values.items():
                family.add_metric(label_values, value)
            yield family


class Exporter:
    """A collector of prometheus-client. `state` is called at each scrape, from another thread: it gives a state that
    nobody changes any more."""

    def __init__(
        self, state: Callable[[], State], clock: Callable[[], int], *, max_timeout_ms: int, stale_ms: int
    ) -> None:
        self._state = state
        self._clock = clock
        self._max_timeout_ms = max_timeout_ms
        self._stale_ms = stale_ms

    def collect(self) -> Iterator[Metric]:
        return families(self._state(), self._clock(), max_timeout_ms=self._max_timeout_ms, stale_ms=self._stale_ms)

    def registry(self) -> CollectorRegistry:
        """A registry with nothing else in it. Raises ConfigError where prometheus-client is not installed."""
        try:
            from prometheus_client import CollectorRegistry
        except ImportError:
            raise ConfigError("metrics need prometheus-client: pip install 'kafkawire[net]'") from None
        registry = CollectorRegistry()
        registry.register(self)
        return registry


def _fresh(state: State, since: int) -> State | None:
    """What was read since then, or None."""
    if state.success is None or state.success < since:
        return None
    from msgspec.structs import replace

    return replace(state, seen={key: seen for key, seen in state.seen.items() if seen.at >= since})


def _chosen(state: State, most: int) -> tuple[list[Seen], float]:
    """The open transactions of the partitions that have series, and how many partitions have none: those that hang or
    need a look come first, then those that are open longest."""
    ranks: dict[TopicPartition, tuple[bool, bool, int]] = {}
    for seen in state.seen.values():
        rank = seen.finding.verdict == HANGING, noteworthy(seen.finding), seen.duration_ms
        place = _place(seen)
        ranks[place] = max(ranks.get(place, rank), rank)
    places = sorted((place for place in ranks if len(place.topic) <= _LONGEST_NAME), key=lambda p: (ranks[p], p))
    chosen = set(places[-most:])
    return [seen for seen in state.seen.values() if _place(seen) in chosen], float(len(ranks) - len(chosen))


def _earliest(seen: Iterable[Seen]) -> dict[TopicPartition, Seen]:
    found: dict[TopicPartition, Seen] = {}
    for one in seen:
        place = _place(one)
        if place not in found or (one.finding.start_offset or 0) < (found[place].finding.start_offset or 0):
            found[place] = one
    return found


def _place(seen: Seen) -> TopicPartition:
    return TopicPartition(seen.finding.topic, seen.finding.partition)


def _by_partition(values: dict[TopicPartition, float]) -> dict[Labels, float]:
    """By labels. What does not print is escaped, for metrics are read on terminals, too; where two names become one,
    the larger value counts."""
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
