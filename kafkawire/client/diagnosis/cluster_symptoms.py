"""What `txn doctor` looks for in what was read of a cluster: settings and states that invite trouble. Pure functions;
`doctor_checks` has the reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from kafkawire import rows
from kafkawire._java_numbers import INT64, whole_number
from kafkawire.client.results import PartitionInfo, TopicPartition
from kafkawire.client.rpc.cluster_state import Features, Quorum
from kafkawire.client.rpc.configs import Configs, ConfigValue
from kafkawire.client.rpc.eligible_replicas import EligibleReplicas
from kafkawire.client.rpc.log_dirs import LogDirs
from kafkawire.transactions.cluster.cluster_traits import ID_EXPIRATION, MAX_TIMEOUT, PRODUCER_EXPIRATION, VERIFICATION
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import count, duration, named

OFFSETS = "__consumer_offsets"
FEATURE, WANTED_LEVEL = "transaction.version", 2
#: With it, replicas that left the in-sync set with all that was committed may lead (KIP-966).
ELIGIBLE_REPLICAS = "eligible.leader.replicas.version"
_MIN_ISR, UNCLEAN, _CLEANUP = "min.insync.replicas", "unclean.leader.election.enable", "cleanup.policy"
TOPIC_SETTINGS = (_MIN_ISR, UNCLEAN, _CLEANUP)
_DAY_MS = 86_400_000
_REPLICAS = 3
_HOT, _FEW = 2.0, 4
_LAG_MS = 30_000
_PRODUCERS, _IDS, _RANDOM_IDS = 10_000, 10_000, 100


class ClusterState(msgspec.Struct, frozen=True, kw_only=True):
    """The data that was read of a cluster; fields that could not be read are empty or None.

    Attributes:
        brokers: settings by broker id. `topics`: settings by name.
        eligible: who may lead, of partitions of the topics that have too few replicas in sync, or no leader.
        delivery_timeout_ms: delivery.timeout.ms of producers. `pause_ms`: how long a client may pause.
    """

    partitions: Mapping[TopicPartition, PartitionInfo]
    broker_ids: tuple[int, ...]
    brokers: Mapping[int, Configs] = {}
    topics: Mapping[str, Configs] = {}
    features: Features | None = None
    log_dirs: Mapping[int, LogDirs] = {}
    quorum: Quorum | None = None
    producers: tuple[rows.ProducerCensus, ...] = ()
    ids: tuple[rows.IdCensus, ...] = ()
    eligible: Mapping[TopicPartition, EligibleReplicas] | None = None
    delivery_timeout_ms: int = 120_000
    pause_ms: int = _DAY_MS

    def of_topic(self, topic: str) -> list[PartitionInfo]:
        return [info for place, info in self.partitions.items() if place.topic == topic]

    @property
    def keeps_eligible(self) -> bool:
        """Whether eligible leader replicas are on (KIP-966)."""
        return self.features is not None and self.features.finalized.get(ELIGIBLE_REPLICAS, 0) > 0

    def number(self, name: str, default: int) -> int:
        """A setting, the greatest where brokers differ; the default where none has it."""
        found = (_number(configs.get(name)) for configs in self.brokers.values())
        return max((value for value in found if value is not None), default=default)


class Symptom(NamedTuple):
    """A finding of a check: whose setting or state, its name, its value."""

    subject: str
    setting: str
    value: str


def _number(value: ConfigValue | None) -> int | None:
    return None if value is None else whole_number(value.value or "", INT64)


# Settings of brokers -------------------------------------------------------------------------------------------------


def broker_setting(name: str, bad: Callable[[ClusterState, str], bool]) -> Callable[[ClusterState], Iterator[Symptom]]:
    """The brokers whose value of a setting is bad; those with one value are named together."""

    def find(state: ClusterState) -> Iterator[Symptom]:
        values: dict[str, list[int]] = {}
        for broker, configs in sorted(state.brokers.items()):
            one = configs.get(name)
            if one is not None and one.value is not None and bad(state, one.value):
                values.setdefault(one.value, []).append(broker)
        for value, brokers in values.items():
            yield Symptom(named("broker", list(map(str, brokers))), name, _readable(name, value))

    return find


def equals(wanted: str) -> Callable[[ClusterState, str], bool]:
    return lambda state, value: value == wanted


def above(most: int) -> Callable[[ClusterState, str], bool]:
    return lambda state, value: (number := whole_number(value, INT64)) is not None and number > most


def below(least: Callable[[ClusterState], int]) -> Callable[[ClusterState, str], bool]:
    return lambda state, value: (number := whole_number(value, INT64)) is not None and number < least(state)


def _readable(name: str, value: str) -> str:
    number = whole_number(value, INT64) if name.endswith(".ms") else None
    return value if number is None else f"{value} ({duration(number)})"


_ALIKE = (MAX_TIMEOUT, ID_EXPIRATION, PRODUCER_EXPIRATION, VERIFICATION, UNCLEAN)


def different_settings(state: ClusterState) -> Iterator[Symptom]:
    for name in _ALIKE:
        values: dict[str, list[str]] = {}
        for broker, configs in sorted(state.brokers.items()):
            if name in configs and configs[name].value is not None:
                values.setdefault(configs[name].value or "", []).append(str(broker))
        if len(values) > 1:
            text = "; ".join(f"{named('broker', brokers)}: {value}" for value, brokers in values.items())
            yield Symptom("the cluster", name, text)


# The feature, topics, replicas ---------------------------------------------------------------------------------------


def low_level(state: ClusterState) -> Iterator[Symptom]:
    if state.features is None:
        return
    level = state.features.finalized.get(FEATURE, 0)
    if level < WANTED_LEVEL:
        most = state.features.supported.get(FEATURE, 0)
        supported = f"the brokers support {most}" if most else "the brokers' release does not have it"
        yield Symptom("the cluster", FEATURE, f"{level} ({supported})")


def without_eligible_replicas(state: ClusterState) -> Iterator[Symptom]:
    """Several brokers, whose release has eligible leader replicas, and the feature is off."""
    if state.features is None or len(state.broker_ids) < 2:
        return
    most = state.features.supported.get(ELIGIBLE_REPLICAS, 0)
    level = state.features.finalized.get(ELIGIBLE_REPLICAS, 0)
    if most and not level:
        yield Symptom("the cluster", ELIGIBLE_REPLICAS, f"{level} (the brokers support {most})")


def never_eligible(state: ClusterState) -> Iterator[Symptom]:
    """Topics whose replicas never become eligible: they do while fewer than min.insync.replicas are in sync."""
    if state.keeps_eligible:
        yield from insync_replicas(lambda least, replicas: least == 1 < replicas, lambda topic: True)(state)


def unclean_despite_eligible(state: ClusterState) -> Iterator[Symptom]:
    """Brokers or topics with unclean elections, where eligible replicas are kept."""
    if state.keeps_eligible:
        yield from broker_setting(UNCLEAN, equals("true"))(state)
        yield from unclean_topics(state)


def below_min_isr(state: ClusterState) -> list[TopicPartition]:
    """The partitions that have too few replicas in sync for acks=all, or no leader: those with eligible replicas are
    among them."""
    least = {topic: _number(configs.get(_MIN_ISR)) or 1 for topic, configs in state.topics.items()}
    return [
        place
        for place, info in sorted(state.partitions.items())
        if info.leader is None or len(info.in_sync) < least.get(place.topic, 1)
    ]


def _waiting(state: ClusterState, *, eligible: bool) -> Iterator[Symptom]:
    """Partitions without a leader that eligible replicas may lead, or that none may."""
    for place, one in sorted((state.eligible or {}).items()):
        info = state.partitions.get(place)
        if info is None or info.leader is not None or one.eligible is None or one.in_sync:
            continue
        if one.eligible and eligible:
            yield Symptom(f"partition {place}", "eligible leader replicas", ", ".join(map(str, one.eligible)))
        elif not one.eligible and not eligible:
            last = f"none; last known: {', '.join(map(str, one.last_known))}" if one.last_known else "none"
            yield Symptom(f"partition {place}", "eligible leader replicas", last)


def waits_for_eligible(state: ClusterState) -> Iterator[Symptom]:
    yield from _waiting(state, eligible=True)


def none_eligible(state: ClusterState) -> Iterator[Symptom]:
    yield from _waiting(state, eligible=False)


def too_few_replicas(state: ClusterState) -> Iterator[Symptom]:
    wanted = min(_REPLICAS, len(state.broker_ids))
    for topic in (TRANSACTION_STATE, OFFSETS):
        least = min((len(info.replicas) for info in state.of_topic(topic)), default=None)
        if least is not None and least < wanted:
            yield Symptom(f"topic {topic}", "replication factor", str(least))


def single_replicas(state: ClusterState) -> Iterator[Symptom]:
    if len(state.broker_ids) < _REPLICAS:
        return
    single = sorted({place.topic for place, info in state.partitions.items() if len(info.replicas) == 1})
    single = [topic for topic in single if topic not in (TRANSACTION_STATE, OFFSETS)]
    if single:
        yield Symptom(named("topic", single), "replication factor", "1")


def insync_replicas(
    bad: Callable[[int, int], bool], wanted: Callable[[str], bool]
) -> Callable[[ClusterState], Iterator[Symptom]]:
    """Topics whose min.insync.replicas is bad, as a function of it and of the number of replicas."""

    def find(state: ClusterState) -> Iterator[Symptom]:
        found: dict[str, list[str]] = {}
        for topic, configs in sorted(state.topics.items()):
            least = _number(configs.get(_MIN_ISR))
            replicas = max((len(info.replicas) for info in state.of_topic(topic)), default=0)
            if wanted(topic) and least is not None and replicas and bad(least, replicas):
                found.setdefault(f"{least} of {count(replicas, 'replica')}", []).append(topic)
        for value, topics in found.items():
            yield Symptom(named("topic", topics), _MIN_ISR, value)

    return find


def unclean_topics(state: ClusterState) -> Iterator[Symptom]:
    of_brokers = any((one := configs.get(UNCLEAN)) and one.value == "true" for configs in state.brokers.values())
    topics = [
        topic
        for topic, configs in sorted(state.topics.items())
        if (one := configs.get(UNCLEAN)) and one.value == "true"
    ]
    if topics and not of_brokers:
        yield Symptom(named("topic", topics), UNCLEAN, "true")


def deleting_cleanup(state: ClusterState) -> Iterator[Symptom]:
    for topic in (TRANSACTION_STATE, OFFSETS):
        policy = state.topics.get(topic, {}).get(_CLEANUP)
        if policy is not None and policy.value not in (None, "compact"):
            yield Symptom(f"topic {topic}", _CLEANUP, policy.value or "")


def other_partition_count(state: ClusterState) -> Iterator[Symptom]:
    there = len(state.of_topic(TRANSACTION_STATE))
    setting = "transaction.state.log.num.partitions"
    configured = {_number(configs.get(setting)) for configs in state.brokers.values()} - {None, there}
    for number in sorted(one for one in configured if one is not None and there):
        yield Symptom("brokers", setting, f"{number}, and the topic has {there}")


def _places(state: ClusterState, bad: Callable[[PartitionInfo], bool], setting: str) -> Iterator[Symptom]:
    found = [str(place) for place, info in sorted(state.partitions.items()) if bad(info)]
    if found:
        yield Symptom(named("partition", found), setting, str(len(found)))


def without_leader(state: ClusterState) -> Iterator[Symptom]:
    return _places(state, lambda info: info.leader is None, "partitions without a leader")


def under_replicated(state: ClusterState) -> Iterator[Symptom]:
    return _places(
        state,
        lambda info: info.leader is not None and len(info.in_sync) < len(info.replicas),
        "partitions with replicas that are not in sync",
    )


def hot_coordinators(state: ClusterState) -> Iterator[Symptom]:
    leaders = Counter(info.leader for info in state.of_topic(TRANSACTION_STATE) if info.leader is not None)
    total, brokers = sum(leaders.values()), len(state.broker_ids)
    for broker, led in leaders.items():
        if brokers > 1 and led >= _FEW and led > _HOT * total / brokers:
            yield Symptom(f"broker {broker}", f"partitions of {TRANSACTION_STATE} that it leads", f"{led} of {total}")


def offline_dirs(state: ClusterState) -> Iterator[Symptom]:
    for broker, dirs in sorted(state.log_dirs.items()):
        for path, error in sorted(dirs.failed.items()):
            yield Symptom(f"broker {broker}", "log.dirs", f"{path}: {error.name}")


def few_voters(state: ClusterState) -> Iterator[Symptom]:
    if state.quorum is not None and len(state.quorum.voters) < _REPLICAS <= len(state.broker_ids):
        yield Symptom("the controllers", "voters of the quorum", str(len(state.quorum.voters)))


def voters_behind(state: ClusterState) -> Iterator[Symptom]:
    voters = () if state.quorum is None else state.quorum.voters
    newest = max((voter.caught_up for voter in voters), default=-1)
    for voter in voters:
        if newest >= 0 and newest - voter.caught_up > _LAG_MS:
            since = "never" if voter.caught_up < 0 else f"{duration(newest - voter.caught_up)} ago"
            yield Symptom(f"controller {voter.node_id}", "last caught up", since)


# Leaks ---------------------------------------------------------------------------------------------------------------


def producer_leak(state: ClusterState) -> Iterator[Symptom]:
    for row in state.producers:
        if row.producer_ids > _PRODUCERS:
            yield Symptom(f"partition {row.topic}-{row.partition}", "producer ids", f"{row.producer_ids:,}")


def id_leak(state: ClusterState) -> Iterator[Symptom]:
    for row in state.ids:
        random = any(part in row.pattern for part in ("<uuid>", "<hex>", "<n+>"))
        if row.ids > (_RANDOM_IDS if random else _IDS):
            yield Symptom(f"transactional ids {row.pattern}", "ids", f"{row.ids:,}, such as {row.example}")
