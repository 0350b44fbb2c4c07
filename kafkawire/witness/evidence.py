"""Captures and log directories -> rows: the fates of all batches that were produced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any
from uuid import UUID

from kafkawire import offsets
from kafkawire.capture import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.capture.topic_names import TopicNames
from kafkawire.kafka_errors import error_name
from kafkawire.logdir import LogDirectory, Partition
from kafkawire.logdir.transaction_states import STATES
from kafkawire.rows import (
    DamageRow,
    DeliveryAnomaly,
    FateTotal,
    Premise,
    ReadAnomaly,
    Row,
    TransactionAnomaly,
    WitnessSummary,
)
from kafkawire.witness import fates
from kafkawire.witness.ended import EndedTransactions, TransactionCounts
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.fates import FATES, REASONS, RESPONSES
from kafkawire.witness.fetched import READINGS, FetchedBatches, ReadCounts, read_anomalies, readings
from kafkawire.witness.held import CopyOfPartition, copy_of, newest_first
from kafkawire.witness.judgement import Counts, Judgement, Key, added
from kafkawire.witness.packed_rows import PackedRows
from kafkawire.witness.sent import SentBatches

#: Anomalies that are listed unless another number is given; all are counted.
MOST_ANOMALIES = 1000


class Witness:
    """Joins what brokers answered with what copies hold.

    Args:
        directory: the log directories. most: anomalies that are listed, at most.

    Attributes:
        sent, fetched, ended: what captures hold, by `add`.
        damage: what of the logs cannot be read, once `rows` was called.
    """

    def __init__(self, directory: LogDirectory, *, most: int = MOST_ANOMALIES) -> None:
        self._directory = directory
        self._most = most
        self._learned = TopicNames()
        ids = {one.topic_id: one.topic for one in directory.partitions if one.topic_id is not None}

        def name_of(topic_id: UUID) -> str | None:
            return self._learned.name_of(topic_id) or ids.get(topic_id)

        self.sent = SentBatches(name_of)
        self.fetched = FetchedBatches(name_of)
        self.ended = EndedTransactions()
        self._clusters: set[str] = set()
        self._topic_ids: dict[str, set[UUID]] = {}
        self._left_out: list[str] = []
        self._captures: Counter[str] = Counter()
        self._unmatched = 0
        self.damage: list[DamageRow] = []

    def add(self, found: CapturedExchange) -> None:
        """Take the next exchange."""
        self._captures[found.row.file or "-"] += 1
        if found.row.api is None or found.row.packet is None:
            self._unmatched += 1
        self._learned.learn(found.response)
        self._identify(found.response)
        self.sent.add(found)
        self.fetched.add(found)
        self.ended.add(found)

    def _identify(self, response: Any) -> None:
        """Takes the ids of the cluster and of topics from Metadata responses."""
        if response is None or kafka_name(response) != "MetadataResponse":
            return
        if response.cluster_id is not None:
            self._clusters.add(response.cluster_id)
        for topic in response.topics:
            if topic.name and topic.topic_id.int:
                self._topic_ids.setdefault(topic.name, set()).add(topic.topic_id)

    def rows(self, progress: Callable[[Place], None] = lambda place: None) -> Iterator[Row]:
        """A `WitnessSummary`, `FateTotal`s, `ReadTotal`s, `TransactionTotal`s, `Premise`s, then `DeliveryAnomaly`s,
        `TransactionAnomaly`s, `ReadAnomaly`s and `DamageRow`s.

        Args:
            progress: is called with each partition before it is read.

        Raises:
            OSError: a file cannot be read.
        """
        counts: list[Counts] = []
        listed: list[DeliveryAnomaly | ReadAnomaly | TransactionAnomaly] = []
        ended = TransactionCounts(self.ended.answers(), self.ended.files)
        partitions = copies = unseen = sendings = 0
        without: list[Place] = []
        all_sent, all_fetched = dict(self.sent.by_place()), dict(self.fetched.by_place())
        reads = ReadCounts()
        for place in dict.fromkeys((*all_sent, *all_fetched)):
            progress(place)
            sent, fetched = all_sent.get(place), all_fetched.get(place)
            judgement = None if sent is None else Judgement(place, sent)
            newest: CopyOfPartition | None = None
            read = 0
            for copy in self._copies(place, only_newest=judgement is None):
                newest = newest or copy
                read += 1
                if judgement is not None:
                    judgement.add(copy)
            copies += read
            if judgement is not None:
                partitions, sendings = partitions + 1, sendings + len(judgement)
                unseen += judgement.unseen or 0
                if not read:
                    without.append(place)
                counts.append(judgement.counts())
                found = judgement.anomalies(self.sent.files, self.sent.clients)
                listed += islice(found, max(self._most - len(listed), 0))
                torn = ended.add(place, judgement.first_sendings, judgement.states, judgement.held_at)
                listed += islice(torn, max(self._most - len(listed), 0))
            if fetched is not None:
                rows = PackedRows.of(fetched)
                judged = readings(rows, newest)
                reads.add(rows, judged)
                broken = read_anomalies(place, rows, judged, newest, self.fetched.files, self.fetched.clients)
                listed += islice(broken, max(self._most - len(listed), 0))
        total = added(counts)
        yield self._summary(total, reads, ended, partitions, copies, unseen, sendings)
        yield from _totals(total)
        yield from reads.rows()
        yield from ended.rows()
        yield from self._premises(without)
        yield from listed
        yield from dict.fromkeys(self.damage)

    def _copies(self, place: Place, *, only_newest: bool = False) -> Iterator[CopyOfPartition]:
        try:
            found = newest_first(offsets.replicas(self._directory, *place))
        except LookupError:
            return
        for one in found:
            same = self._is_same(one.partition)
            if same is False:
                self._left_out.append(one.partition.path)
            elif one.partition.segments:
                yield copy_of(one, same=same is True)
                self.damage += (*one.damage, *one.support_damage)
                if only_newest:
                    return

    def _is_same(self, partition: Partition) -> bool | None:
        """Whether a copy is of the cluster and the topic that the captures show; None: that is not known."""
        cluster, topic_ids = partition.broker.cluster_id, self._topic_ids.get(partition.topic or "")
        if cluster is not None and self._clusters and cluster not in self._clusters:
            return False
        if partition.topic_id is not None and topic_ids:
            return partition.topic_id in topic_ids
        return True if cluster is not None and self._clusters else None

    def _summary(
        self,
        total: Counts,
        reads: ReadCounts,
        ended: TransactionCounts,
        partitions: int,
        copies: int,
        unseen: int,
        sendings: int,
    ) -> WitnessSummary:
        def number(chosen: Callable[[Key], bool]) -> int:
            return sum(batches for key, (batches, _) in total.items() if chosen(key))

        return WitnessSummary(
            captures=len(self._captures),
            requests=self.sent.requests,
            sendings=sendings,
            batches=number(lambda key: True),
            records=sum(records for _, records in total.values()),
            acknowledged=number(lambda key: key[0] == fates.ACKED),
            held=number(lambda key: key[1] == fates.F_HELD),
            anomalies=number(lambda key: FATES[key[1]].anomaly),
            unknown=number(lambda key: key[1] == fates.F_UNKNOWN),
            undecoded=self.sent.undecoded + self.fetched.undecoded,
            old=self.sent.old + self.fetched.old,
            partitions=partitions,
            copies=copies,
            unseen=unseen,
            fetches=self.fetched.fetches,
            fetched=reads.batches.total(),
            read_anomalies=sum(number for (_, kind), number in reads.batches.items() if READINGS[kind].rule),
            ended=self.ended.acknowledged,
            ended_shared=self.ended.shared,
            transaction_anomalies=ended.anomalies,
            read_unknown=sum(number for (_, kind), number in reads.batches.items() if READINGS[kind].reason),
        )

    def _premises(self, without: list[Place]) -> Iterator[Premise]:
        """What the fates rest on."""
        sent = self.sent
        unread = sent.undecoded + self.fetched.undecoded + self._unmatched
        left_out = self._left_out
        yield Premise(
            name="place",
            holds=not left_out,
            what=f"copies of another cluster, or of another topic of the same name, were left out: {len(left_out)}"
            if left_out
            else "no copy is of a cluster or a topic with another id than the captures show",
            source=left_out[0] if left_out else None,
            needs="logs of the brokers that the captures are of" if left_out else None,
        )
        yield Premise(
            name="reach",
            holds=not (unread or sent.old or without),
            what=_reach(unread, sent.old, without),
            source=", ".join(list(self._captures)[:5]) or None,
            needs=None
            if not (unread or sent.old or without)
            else "captures from before the first connection on, without dropped packets, and a log of each partition",
        )
        harmful = [row for row in self.damage if not row.harmless]
        yield Premise(
            name="soundness",
            holds=not harmful,
            what="no log that was read is damaged" if not harmful else f"damaged places in logs: {len(harmful)}",
            source=harmful[0].file if harmful else None,
            needs="a copy of the damaged logs from another broker" if harmful else None,
        )


def _reach(unread: int, old: int, without: list[Place]) -> str:
    if not (unread or old or without):
        return "every Produce request of the captures was read, and each partition has a log"
    parts = []
    if unread:
        parts.append(f"{unread} requests or answers cannot be read, or stand alone")
    if old:
        parts.append(f"{old} batches are of message format 0 or 1")
    if without:
        named = ", ".join(f"{topic}-{partition}" for topic, partition in without[:3])
        parts.append(f"{len(without)} partitions have no log: {named}" + (", ..." if len(without) > 3 else ""))
    return "; ".join(parts)


def _totals(total: Counts) -> Iterable[FateTotal]:
    ordered = sorted(total.items(), key=lambda item: (-item[0][0], item[0]))
    for (response, fate, state, reason, error), (batches, records) in ordered:
        name, detail = REASONS.get(reason, (None, None))
        yield FateTotal(
            response=RESPONSES[response],
            fate=FATES[fate].name,
            transaction=STATES[state] if state >= 0 else None,
            reason=name,
            error=error_name(error) if error else None,
            detail=detail,
            batches=batches,
            records=records,
        )
