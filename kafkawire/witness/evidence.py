"""Captures and log directories -> rows: the fates of all batches that were produced."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

from kafkawire.capture import CapturedExchange
from kafkawire.capture.kafka_fields import kafka_name
from kafkawire.capture.topic_names import TopicNames
from kafkawire.logdir import LogDirectory
from kafkawire.records.array_types import Int64
from kafkawire.rows import Premise, Row, WitnessSummary
from kafkawire.witness import batch_fates as fates
from kafkawire.witness.batch_fates import FATES
from kafkawire.witness.captured_decisions import DecidedTransactions
from kafkawire.witness.commits import CommittedOffsets
from kafkawire.witness.ended import EndedTransactions, RegisteredPartitions
from kafkawire.witness.exchange_rows import Place, Sources
from kafkawire.witness.fetched import FetchedBatches
from kafkawire.witness.group_log import GroupLogs
from kafkawire.witness.held_side import DirectoryCopies, HeldSide, Identity
from kafkawire.witness.partition_join import Captured, Context, join_partition, producer_ids_of, subjects_of
from kafkawire.witness.positions import FetchPositions
from kafkawire.witness.sent import SentBatches
from kafkawire.witness.totals import Totals, acknowledged

#: Anomalies that are listed unless another number is given; all are counted.
MOST_ANOMALIES = 1000


class Witness:
    """Joins what brokers answered with what copies hold.

    Args:
        held: the log directories, or a live cluster (`client.diagnosis.live_copies`). most: anomalies that are listed,
            at most.

    Attributes:
        sent, fetched, ended: what captures hold, by `add`.
    """

    def __init__(self, held: LogDirectory | HeldSide, *, most: int = MOST_ANOMALIES) -> None:
        self._held = held if isinstance(held, HeldSide) else DirectoryCopies(held)
        self._most = most
        self._learned = TopicNames()
        self.identity = Identity()
        ids = self._held.topic_names()

        def name_of(topic_id: UUID) -> str | None:
            return self._learned.name_of(topic_id) or ids.get(topic_id)

        sources = self.sources = Sources(name_of)
        self.sent = SentBatches(sources)
        self.fetched = FetchedBatches(sources)
        self.ended = EndedTransactions(sources)
        self.commits = CommittedOffsets(sources)
        self._registered = RegisteredPartitions(sources)
        self.positions = FetchPositions(sources)
        self.captures: Counter[str] = Counter()
        self.unmatched = 0

    def add(self, found: CapturedExchange) -> None:
        """Take the next exchange."""
        self.captures[found.row.file or "-"] += 1
        if found.row.api is None or found.row.packet is None:
            self.unmatched += 1
        self._learned.learn(found.response)
        self._identify(found.response)
        for collected in (self.sent, self.fetched, self.ended, self.commits, self._registered, self.positions):
            collected.add(found)

    def _identify(self, response: Any) -> None:
        """Takes the ids of the cluster and of topics from Metadata responses."""
        if response is None or kafka_name(response) != "MetadataResponse":
            return
        if response.cluster_id is not None:
            self.identity.clusters.add(response.cluster_id)
        for topic in response.topics:
            if topic.name and topic.topic_id.int:
                self.identity.topics.setdefault(topic.name, set()).add(topic.topic_id)

    def rows(self, progress: Callable[[Place], None] = lambda place: None) -> Iterator[Row]:
        """A `WitnessSummary`, `FateTotal`s, `ReadTotal`s, `TransactionTotal`s, `CommitTotal`s, `Premise`s, then the
        rows of anomalies and `DamageRow`s.

        Args:
            progress: is called with each partition before it is read.

        Raises:
            OSError: a file cannot be read.
        """
        captured = self.captured()
        context = self.context(captured)
        totals = Totals()
        for place, of_place in captured.items():
            progress(place)
            copies = self._held.copies(place, self.identity, only_newest=of_place.sent is None)
            totals.add(join_partition(place, of_place, copies, context), self._most)
        yield from self.result(totals)

    @property
    def problems(self) -> list[str]:
        """The places in groups' logs that cannot be read, once `rows` was called."""
        return self._held.problems

    def captured(self) -> dict[Place, Captured]:
        """What captures hold of each partition. It is taken out."""
        sent, fetched, commits, steps, registered = (
            dict(one.by_place()) for one in (self.sent, self.fetched, self.commits, self.positions, self._registered)
        )
        return {
            place: Captured(*(one.get(place) for one in (sent, fetched, commits, steps, registered)))
            for place in dict.fromkeys((*sent, *fetched, *commits))
        }

    def context(self, captured: dict[Place, Captured]) -> Context:
        """What all partitions have in common: reads the coordinators' logs.

        Raises:
            OSError: a file cannot be read.
        """
        return self.context_of(producer_ids_of(captured), subjects_of(captured, self.commits.groups))

    def context_of(self, producer_ids: Int64, subjects: set[tuple[str, str, int]]) -> Context:
        """The context of partitions, from ids and subjects instead of what this witness has captured.

        Args:
            producer_ids: of transactional batches. subjects: groups, and partitions for which they committed.
        """
        decided, logs = DecidedTransactions(producer_ids), GroupLogs(sorted(subjects))
        groups = self.commits.groups
        if len(producer_ids):
            self._held.read_decisions(decided, self.identity)
        if self.commits.commits:
            self._held.read_groups(logs, groups, self.identity)
        decided.finish()
        return Context(self.sources, self.ended.answers(), decided, groups, self.commits.members, logs, self._most)

    def result(self, totals: Totals) -> Iterator[Row]:
        """The rows of all partitions' totals: see `rows`."""
        yield self._summary(totals)
        yield from totals.rows()
        yield from self._premises(totals.without, totals.numbers["without"])
        yield from totals.listed
        yield from dict.fromkeys(self._held.damage)

    def _summary(self, totals: Totals) -> WitnessSummary:
        numbers = totals.numbers
        return WitnessSummary(
            captures=len(self.captures),
            requests=self.sent.requests,
            batches=totals.number(lambda key: True),
            records=totals.records.total(),
            acknowledged=totals.number(acknowledged),
            held=totals.number(lambda key: key[1] == fates.F_HELD),
            anomalies=totals.number(lambda key: FATES[key[1]].anomaly),
            unknown=totals.number(lambda key: key[1] == fates.F_UNKNOWN),
            undecoded=self.sent.undecoded + self.fetched.undecoded + self.commits.undecoded,
            old=self.sent.old + self.fetched.old,
            fetches=self.fetched.fetches,
            fetched=totals.reads.batches.total(),
            read_anomalies=totals.read_anomalies,
            read_unknown=totals.read_unknown,
            ended=self.ended.acknowledged,
            ended_shared=self.ended.shared,
            commits=self.commits.commits,
            commit_unknown=totals.commit_unknown,
            sendings=numbers["sendings"],
            unseen=numbers["unseen"],
            partitions=numbers["partitions"],
            copies=numbers["copies"],
            order_anomalies=numbers["order_anomalies"],
            transaction_anomalies=numbers["transaction_anomalies"],
            commit_anomalies=numbers["commit_anomalies"],
        )

    def _premises(self, without: list[Place], number: int) -> Iterator[Premise]:
        """What the fates rest on."""
        sent = self.sent
        unread = sent.undecoded + self.fetched.undecoded + self.commits.undecoded + self.unmatched
        left_out = self._held.left_out
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
            what=_reach(unread, sent.old, without, number),
            source=", ".join(list(self.captures)[:5]) or None,
            needs=None
            if not (unread or sent.old or without)
            else "captures from before the first connection on, without dropped packets, and a log of each partition",
        )
        harmful = [row for row in self._held.damage if not row.harmless]
        yield Premise(
            name="soundness",
            holds=not harmful,
            what="no log that was read is damaged" if not harmful else f"damaged places in logs: {len(harmful)}",
            source=harmful[0].file if harmful else None,
            needs="a copy of the damaged logs from another broker" if harmful else None,
        )


def _reach(unread: int, old: int, without: list[Place], number: int) -> str:
    if not (unread or old or without):
        return "every Produce request of the captures was read, and each partition has a log"
    parts = []
    if unread:
        parts.append(f"{unread} requests or answers cannot be read, or stand alone")
    if old:
        parts.append(f"{old} batches are of message format 0 or 1")
    if without:
        named = ", ".join(f"{topic}-{partition}" for topic, partition in without[:3])
        parts.append(f"{number} partitions have no log: {named}" + (", ..." if number > 3 else ""))
    return "; ".join(parts)
