"""The audit of a live cluster over the wire: what a client may read, judged by the rules for copied logs.

Data logs are read first, then the coordinators' logs; `hanging_search` gives the verdicts last. So each source is read
after those whose transactions it explains. A rule for which a client cannot see the data is *not checkable*, with the
reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from kafkawire import rows
from kafkawire.client.cluster.cluster import Cluster
from kafkawire.client.diagnosis.cluster_reading import clock_ms
from kafkawire.client.diagnosis.hanging_search import observe
from kafkawire.client.diagnosis.live_clocks import clocks_ahead
from kafkawire.client.diagnosis.log_reading import FetchRange, Load, LogReader, RangeReader, ReadWith
from kafkawire.client.diagnosis.reading_journal import Journal
from kafkawire.client.diagnosis.reading_plan import ReadingPlan, plan_reading, refreshed
from kafkawire.client.diagnosis.search import LogsRead, Search
from kafkawire.client.diagnosis.share_judging import live_share_answers
from kafkawire.client.diagnosis.unread_partitions import gaps_of, reason, rows_of
from kafkawire.client.errors import UNKNOWN_TOPIC_OR_PARTITION, BrokerError, ClientError
from kafkawire.client.results import Metadata, TopicPartition
from kafkawire.client.rpc.configs import broker_configs
from kafkawire.transactions.answers import REPLICAS_AGREE, SNAPSHOT_EQUALS_REPLAY, TXNINDEX_EQUALS_LOG, Placed
from kafkawire.transactions.auditing.audit_result import conclude
from kafkawire.transactions.auditing.replica_facts import ReplicaFacts
from kafkawire.transactions.checks.check_names import LOG_CHECKS, OF_IDS
from kafkawire.transactions.cluster.cluster_traits import ID_EXPIRATION, MAX_TIMEOUT, PRODUCER_EXPIRATION
from kafkawire.transactions.facts import CLUSTER_METADATA, TRANSACTION_STATE, ClusterMetadata, Place
from kafkawire.transactions.verdict.cluster_facts import ClusterFacts, Facts
from kafkawire.transactions.verdict.settings import Settings, resolve

#: What no client can read, by the rule that needs it.
BLIND = {
    TXNINDEX_EQUALS_LOG: "the .txnindex files are on the brokers' disks",
    SNAPSHOT_EQUALS_REPLAY: "the .snapshot files are on the brokers' disks",
    REPLICAS_AGREE: "clients read the leaders' replicas only",
}
_NOT_READ = "the log below the oldest open transaction, or below the time given, was not read (--since)"


class WireAudit(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of an audit of a live cluster.

    Attributes:
        search: the partitions, and how findings are confirmed.
        settings: as for copied logs; None: as brokers return it.
        since_ms: read logs from that time on (epoch milliseconds; 0: all); None: from the oldest open transaction of
            each partition. `__transaction_state` is read as a whole.
        journal: path of a file that makes the reading resumable. It is deleted when all was read.
    """

    search: Search = Search()
    settings: Settings = Settings()
    since_ms: int | None = None
    load: Load = Load()
    journal: str | None = None


async def audit(
    cluster: Cluster,
    wanted: WireAudit,
    *,
    announce: Callable[[ReadingPlan], None] = lambda plan: None,
    progress: Callable[[int], None] | None = None,
    reader: Callable[[ReadWith], RangeReader] | None = None,
) -> rows.Audit:
    """Finds and judges every open transaction of a live cluster, and checks its logs against the rules (`CHECKS`).

    Args:
        announce: called with what will be read, before the first byte of a log is fetched.
        progress: called with the number of bytes that were read since its last call.
        reader: makes what reads the logs in place of this process; it keeps no journal, and reports no progress.

    Raises:
        ClientError: nothing could be read, or the journal is of another reading.
    """
    search = wanted.search
    topics = None if search.topics is None else (*search.topics, TRANSACTION_STATE)
    metadata = await cluster.metadata(topics, deadline=cluster.deadline(search.timeout_s))
    address, cluster_id = search.address, metadata.cluster_id
    copied = await _metadata(cluster, address, metadata, search.timeout_s)
    resolved = resolve(wanted.settings, [copied])
    of_ids = resolved.transactional_id_expiration
    with Journal(wanted.journal, cluster_id or address, wanted.since_ms, metadata.partitions) as journal:
        plan = _continued(
            await plan_reading(cluster, metadata, wanted.load, since_ms=wanted.since_ms, timeout_s=search.timeout_s),
            journal,
        )
        announce(plan)
        using = ReadWith(
            address=address,
            load=wanted.load,
            producer_expiration_ms=resolved.producer_id_expiration.value,
            id_expiration_ms=None if of_ids.source == rows.Setting.DEFAULT else of_ids.value,
        )
        logs = LogReader(cluster, using, journal, progress) if reader is None else reader(using)
        ranges = [*plan.data]
        found = await logs.read(ranges)
        ranges += await refreshed(cluster, plan.of_ids, search.timeout_s)
        found += await logs.read(ranges[len(found) :])
    ahead = clocks_ahead((replica.partition for replica in found), metadata, clock_ms())
    errors = plan.errors | logs.errors
    if not plan.of_ids:
        hidden = await _hidden(cluster, search.timeout_s, any(replica.partition.transactional for replica in found))
        errors |= {TopicPartition(TRANSACTION_STATE, 0): hidden} if hidden is not None else {}
    errors = dict(sorted(errors.items()))
    opens = {
        (TopicPartition(one.place.topic, one.place.partition), one.producer_id): one
        for replica in found
        for one in replica.opens
    }
    whole = (
        asked
        for asked, replica in zip(ranges, found, strict=True)
        if asked.start <= asked.offsets.log_start and asked.place not in errors
        if replica.partition.gap is None and not replica.partition.damaged
    )
    read_to = {asked.place: asked.end for asked in whole}
    observed = await observe(cluster, search, {}, read_log=True, logs=LogsRead(opens, read_to))
    facts = Facts(
        paths=(address,),
        brokers=tuple(sorted(metadata.brokers)),
        partitions=[replace(replica.partition, segments=0) for replica in found],  # older offsets were not wanted
        first_starts={one.partition.place: one.first_start for one in found if one.first_start is not None},
        metadata={address: copied},
        histories={replica.partition.place: replica.ids for replica in found if replica.ids is not None},
        endings=[replica.endings for replica in found],
        producers=[replica.producers for replica in found],
        clusters={} if cluster_id is None else {address: cluster_id},
        gaps=tuple(dict.fromkeys((*observed.audit.read.gaps, *(gap.text for gap in gaps_of(errors))))),
        answers=list(_answers(address, zip(ranges, found, strict=True), errors)),
        decisions_last=True,
    )
    judged = list(zip(observed.cases, observed.audit.findings, strict=True))
    settings = replace(wanted.settings, as_of=observed.audit.as_of)
    left = await logs.outcomes(ClusterFacts(facts, settings, cluster_id))
    left += await live_share_answers(cluster, search)
    result = conclude(replace(facts, answers=[*facts.answers, *left]), settings, judged=judged)
    if not errors:
        journal.remove()
    return replace(
        result,
        read=replace(
            result.read,
            clock="; ".join(filter(None, (observed.audit.read.clock, ahead))),
            partitions_chosen=len(found) + len(plan.errors),
            scope=None if wanted.since_ms == 0 else _NOT_READ,
            premises=(*observed.audit.read.premises, *result.read.premises),
        ),
        unread=tuple(dict.fromkeys((*observed.audit.unread, *rows_of(errors, observed.leaders)))),
    )


async def _metadata(cluster: Cluster, address: str, metadata: Metadata, timeout_s: float | None) -> ClusterMetadata:
    """The settings from the brokers, in the form that copied logs have them in `__cluster_metadata`."""
    found = await broker_configs(
        cluster, metadata.brokers, (MAX_TIMEOUT, PRODUCER_EXPIRATION, ID_EXPIRATION), cluster.deadline(timeout_s)
    )
    return ClusterMetadata(
        place=Place(address, CLUSTER_METADATA, 0),
        path=address,
        transaction_state_partitions=sum(place.topic == TRANSACTION_STATE for place in metadata.partitions) or None,
        configs={
            (str(broker), name): one.value
            for broker, configs in found.values.items()
            for name, one in configs.items()
            if one.value is not None
        },
    )


async def _hidden(cluster: Cluster, timeout_s: float | None, needed: bool) -> ClientError | None:
    """Why `__transaction_state` is not visible; None where it does not exist, because no transaction was ever started.
    `needed`: there are transactions."""
    answer = await cluster.metadata([TRANSACTION_STATE], deadline=cluster.deadline(timeout_s))
    error = answer.errors.get(TRANSACTION_STATE)
    absent = isinstance(error, BrokerError) and error.code == UNKNOWN_TOPIC_OR_PARTITION
    return error if needed or not absent else None


def _continued(plan: ReadingPlan, journal: Journal) -> ReadingPlan:
    """The plan, from where an earlier reading began: its oldest open transactions may have ended."""
    return replace(
        plan,
        data=tuple(
            replace(one, start=min(one.start, journal.first(one.place, default=one.start))) for one in plan.data
        ),
    )


def _answers(
    address: str, found: Iterable[tuple[FetchRange, ReplicaFacts]], errors: dict[TopicPartition, ClientError]
) -> Iterator[Placed]:
    """The answers of logs, and what keeps others from being given."""
    for asked, replica in found:
        yield from (placed for placed in replica.answers if placed.answer.check not in BLIND)
        lacking = BLIND
        if asked.start > asked.offsets.log_start:
            lacking = dict.fromkeys(LOG_CHECKS, _NOT_READ) | BLIND
        for check, why in lacking.items():
            yield Placed.lacking(replica.partition.place, check, why, replica.path)
    for place, error in errors.items():
        for check in OF_IDS if place.topic == TRANSACTION_STATE else LOG_CHECKS:
            if check not in BLIND:
                why = f"{place.topic} could not be read: {reason(place, error)}"
                yield Placed.lacking(Place(address, *place), check, why)
