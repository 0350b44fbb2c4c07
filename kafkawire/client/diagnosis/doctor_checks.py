"""The checks of `txn doctor`, as data: what each looks for (`cluster_symptoms`), the reason, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkawire import rows
from kafkawire.client.diagnosis.census import LONG_DIGITS
from kafkawire.client.diagnosis.cluster_symptoms import (
    OFFSETS,
    UNCLEAN,
    ClusterState,
    Symptom,
    above,
    below,
    broker_setting,
    deleting_cleanup,
    different_settings,
    equals,
    few_voters,
    hot_coordinators,
    id_leak,
    insync_replicas,
    low_level,
    never_eligible,
    none_eligible,
    offline_dirs,
    other_partition_count,
    producer_leak,
    single_replicas,
    too_few_replicas,
    unclean_despite_eligible,
    unclean_topics,
    under_replicated,
    voters_behind,
    waits_for_eligible,
    without_eligible_replicas,
    without_leader,
)
from kafkawire.transactions.cluster.cluster_traits import ID_EXPIRATION, MAX_TIMEOUT, PRODUCER_EXPIRATION, VERIFICATION
from kafkawire.transactions.facts import TRANSACTION_STATE
from kafkawire.transactions.formatting import duration
from kafkawire.transactions.log.replay import PRODUCER_ID_EXPIRATION_MS
from kafkawire.transactions.verdict.case import MAX_TIMEOUT_MS
from kafkawire.transactions.verdict.settings import TRANSACTIONAL_ID_EXPIRATION_MS

_HOUR_MS = 3_600_000
_SLOW_MS = 60_000


class SymptomCheck(NamedTuple):
    """A check. `needs`: what of `ClusterState` has to be read for it. `find`: yields what invites trouble. `why`,
    `action`: sentences of the risk. `source`: a KIP or an issue."""

    name: str
    needs: str
    find: Callable[[ClusterState], Iterator[Symptom]]
    why: str
    action: str
    source: str | None = None


def risks(state: ClusterState) -> tuple[rows.Risk, ...]:
    """The risks that the checks find, in the order of the checks."""
    return tuple(
        rows.Risk(check=check.name, why=check.why, source=check.source, action=check.action, **symptom._asdict())
        for check in CHECKS
        for symptom in check.find(state)
    )


def checks_made(state: ClusterState) -> tuple[str, ...]:
    """The names of the checks whose facts were read."""
    return tuple(check.name for check in CHECKS if _was_read(check.needs, getattr(state, check.needs)))


def _was_read(name: str, found: object) -> bool:
    return found is not None and (found != {} or name == "eligible")  # a sound cluster has none that waits


_ISR_WHY = "acks=all is answered as soon as so few replicas have a record"
_UNCLEAN_WHY = (
    "an unclean election drops records that were acknowledged: of data, of markers, or of what the coordinator "
    "decided, after which transactions hang or lose records"
)

CHECKS = (
    SymptomCheck(
        "transaction_version",
        "features",
        low_level,
        "below level 2 a delayed batch that arrives after its transaction's marker opens a transaction that nothing "
        "ends",
        "upgrade brokers and producers to 4.0 or later, then raise the feature: kafka-features.sh upgrade --feature "
        "transaction.version=2",
        "KIP-890",
    ),
    SymptomCheck(
        "eligible_replicas_off",
        "features",
        without_eligible_replicas,
        "where the last in-sync replica dies, the partition waits for that one broker, or loses records in an unclean "
        "election: replicas that have all that was committed are not known to be eligible",
        "raise the feature: kafka-features.sh upgrade --feature eligible.leader.replicas.version=1; storage that Kafka "
        "4.4 formats has it on",
        "KIP-966",
    ),
    SymptomCheck(
        "eligible_replicas_never",
        "features",
        never_eligible,
        "eligible leader replicas are on, and never are any: a replica becomes eligible when it leaves the in-sync set "
        "while that has fewer than min.insync.replicas, so that with 1 the last replica in sync alone may lead",
        "set it to 2",
        "KIP-966",
    ),
    SymptomCheck(
        "unclean_election_despite_eligible",
        "features",
        unclean_despite_eligible,
        "where no replica in sync and no eligible one is online, another is elected at once, and drops records that an "
        "eligible one has when it is back",
        "set it to false, the default, and bring eligible replicas back",
        "KIP-966",
    ),
    SymptomCheck(
        "waits_for_eligible_replica",
        "eligible",
        waits_for_eligible,
        "no replica in sync is left, and these brokers have all that was committed: the first that is back leads",
        "start one of these brokers; no unclean election is needed",
        "KIP-966",
    ),
    SymptomCheck(
        "no_eligible_replica",
        "eligible",
        none_eligible,
        "no replica in sync is left, and none is eligible: an election without loss is not possible but for the last "
        "leader, and an unclean one may drop records that were acknowledged",
        "bring the last leader back with its disk; before kafka-leader-election.sh --election-type unclean, compare "
        "copies (kafkawire explain --partition-history)",
        "KIP-966",
    ),
    SymptomCheck(
        "verification_off",
        "brokers",
        broker_setting(VERIFICATION, equals("false")),
        "leaders append transactional batches to partitions that are not in the transaction, and no marker ends those",
        "set it to true, the default; it can be changed while brokers run",
        "KIP-890",
    ),
    SymptomCheck(
        "long_transaction_timeout",
        "brokers",
        broker_setting(MAX_TIMEOUT, above(_HOUR_MS)),
        "a producer that dies holds read_committed consumers and compaction up for as long as its "
        f"transaction.timeout.ms, which may be so long; the default is {duration(MAX_TIMEOUT_MS)}",
        "lower it to what the slowest producer needs",
        "KIP-98",
    ),
    SymptomCheck(
        "ids_expire_during_pauses",
        "brokers",
        broker_setting(ID_EXPIRATION, below(lambda state: state.pause_ms)),
        "a producer that pauses for longer than that, and keeps running, gets InvalidPidMappingException at its next "
        f"transaction; the default is {duration(TRANSACTIONAL_ID_EXPIRATION_MS)}",
        "raise it above the longest pause of clients (--client-pause)",
        "KAFKA-18673",
    ),
    SymptomCheck(
        "ids_expire_before_transactions",
        "brokers",
        broker_setting(ID_EXPIRATION, below(lambda state: state.number(MAX_TIMEOUT, 0))),
        "an id can expire sooner than the longest transaction may last: its owner comes back to an unknown id",
        "raise it above transaction.max.timeout.ms",
        "KIP-98",
    ),
    SymptomCheck(
        "producers_forgotten_early",
        "brokers",
        broker_setting(PRODUCER_EXPIRATION, below(lambda state: state.delivery_timeout_ms)),
        "a leader forgets a producer while that one still retries a batch, and appends the batch a second time; the "
        f"default is {duration(PRODUCER_ID_EXPIRATION_MS)}",
        "raise it to delivery.timeout.ms of the producers or more (--delivery-timeout)",
        "KIP-854",
    ),
    SymptomCheck(
        "late_timeouts",
        "brokers",
        broker_setting("transaction.abort.timed.out.transaction.cleanup.interval.ms", above(_SLOW_MS)),
        "coordinators look so seldom for transactions that are over their time: readers wait longer than the timeout",
        "lower it; the default is 10 s",
    ),
    SymptomCheck(
        "two_phase_commit",
        "brokers",
        broker_setting("transaction.two.phase.commit.enable", equals("true")),
        "producers may begin transactions without a timeout; one whose owner is lost blocks readers until it is "
        "ended by hand",
        "grant TwoPhaseCommit only to ids whose owner recovers its transactions, and watch for them (txn watch)",
        "KIP-939",
    ),
    SymptomCheck(
        "unclean_election",
        "brokers",
        broker_setting(UNCLEAN, equals("true")),
        _UNCLEAN_WHY,
        "set it to false, the default",
        "KIP-106",
    ),
    SymptomCheck(
        "unclean_election_of_topics",
        "topics",
        unclean_topics,
        _UNCLEAN_WHY,
        "delete the setting from the topics: kafka-configs.sh --alter --delete-config unclean.leader.election.enable",
        "KIP-106",
    ),
    SymptomCheck(
        "cleaner_off",
        "brokers",
        broker_setting("log.cleaner.enable", equals("false")),
        f"{TRANSACTION_STATE} and {OFFSETS} are never compacted: they grow, and coordinators load for longer after "
        "each election",
        "set it to true, the default",
    ),
    SymptomCheck(
        "settings_differ",
        "brokers",
        different_settings,
        "what a transaction may do, and when it is forgotten, depends on the broker that leads or coordinates it",
        "set it alike on all brokers",
    ),
    SymptomCheck(
        "coordinator_cleanup_policy",
        "topics",
        deleting_cleanup,
        "records of ids and offsets that are still valid are deleted by retention: coordinators forget transactions",
        "set it to compact: kafka-configs.sh --alter --add-config cleanup.policy=compact",
        "KIP-98",
    ),
    SymptomCheck(
        "coordinator_partitions",
        "brokers",
        other_partition_count,
        "an id belongs to a partition by the number of partitions: a topic that was given another number moves ids "
        "to other coordinators, which do not know them",
        "set it to the number that the topic has, and never add partitions to it",
        "KIP-98",
    ),
    SymptomCheck(
        "coordinator_replicas",
        "partitions",
        too_few_replicas,
        "the loss of one or two brokers makes the coordinator's log unavailable, or loses what it decided",
        "add replicas (kafka-reassign-partitions.sh), and set transaction.state.log.replication.factor and "
        "offsets.topic.replication.factor to 3",
        "KIP-98",
    ),
    SymptomCheck(
        "isr_out_of_reach",
        "topics",
        insync_replicas(lambda least, replicas: least > replicas, lambda topic: True),
        "there are fewer replicas than must be in sync: every write with acks=all is refused, markers and states of "
        "coordinators among them",
        "lower it, or add replicas",
    ),
    SymptomCheck(
        "isr_equals_replicas",
        "topics",
        insync_replicas(lambda least, replicas: least == replicas > 1, lambda topic: True),
        "the restart of any broker with a replica stops all writes with acks=all, those of coordinators and markers "
        "among them",
        "lower it to one less than the replicas, or add a replica",
    ),
    SymptomCheck(
        "coordinator_isr",
        "topics",
        insync_replicas(
            lambda least, replicas: least == 1 < replicas, lambda topic: topic in (TRANSACTION_STATE, OFFSETS)
        ),
        f"{_ISR_WHY}: the coordinator's decisions and offsets are lost with one broker",
        "set it to 2",
        "KIP-98",
    ),
    SymptomCheck(
        "isr_of_topics",
        "topics",
        insync_replicas(
            lambda least, replicas: least == 1 < replicas, lambda topic: topic not in (TRANSACTION_STATE, OFFSETS)
        ),
        f"{_ISR_WHY}: committed records are lost with one broker",
        "set it to 2 where records must not be lost",
    ),
    SymptomCheck(
        "single_replicas",
        "partitions",
        single_replicas,
        "the loss of one broker loses the records, and the markers of transactions that span other topics",
        "add replicas (kafka-reassign-partitions.sh)",
    ),
    SymptomCheck(
        "no_leader",
        "partitions",
        without_leader,
        "markers cannot be written there: transactions with these partitions stay in Prepare",
        "bring their brokers back",
    ),
    SymptomCheck(
        "not_in_sync",
        "partitions",
        under_replicated,
        "one more lost broker stops writes or loses records",
        "bring the other replicas' brokers back, or see why they are slow",
    ),
    SymptomCheck(
        "hot_coordinator",
        "partitions",
        hot_coordinators,
        "one broker coordinates far more than its share: its failure, and its loading, concern most transactions",
        "elect the preferred leaders: kafka-leader-election.sh --election-type preferred --topic __transaction_state",
    ),
    SymptomCheck(
        "offline_log_dirs",
        "log_dirs",
        offline_dirs,
        "the replicas in that directory are gone until the disk is back",
        "replace the disk and restart the broker",
        "KIP-112",
    ),
    SymptomCheck(
        "few_voters",
        "quorum",
        few_voters,
        "the loss of one controller stops elections and new producer ids",
        "run three controllers or five",
        "KIP-595",
    ),
    SymptomCheck(
        "voter_behind",
        "quorum",
        voters_behind,
        "a controller that does not follow the metadata log does not count for a majority",
        "see its log, and its connection to the leader",
        "KIP-836",
    ),
    SymptomCheck(
        "producer_id_leak",
        "producers",
        producer_leak,
        "each producer id costs memory on every replica until it expires: usually a producer for each run, task or "
        "request",
        "reuse producers, or lower producer.id.expiration.ms (not below delivery.timeout.ms)",
        "KIP-854",
    ),
    SymptomCheck(
        "transactional_id_leak",
        "ids",
        id_leak,
        "an id that is used once stays in its coordinator's memory until it expires, and cannot fence the run "
        f"before: the variable part is a number of {LONG_DIGITS} digits or more, random, or there are very many",
        "give each instance of an application an id that its next run has, too",
        "KIP-98",
    ),
)

#: The settings of brokers that are read.
BROKER_SETTINGS = (
    MAX_TIMEOUT,
    ID_EXPIRATION,
    PRODUCER_EXPIRATION,
    VERIFICATION,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
    "transaction.two.phase.commit.enable",
    "transaction.state.log.num.partitions",
    UNCLEAN,
    "log.cleaner.enable",
)
