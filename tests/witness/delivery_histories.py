"""Histories of transactions, consumers and groups whose truth is known; the captures and log directories they leave.

Two partitions, the log of a group's offsets, transactional producers of both versions of the protocol, consumers of
both isolation levels. Steps happen at random; each leaves what clients and the broker say to each other, of which
packets may be dropped, and what logs hold, of which a copy may be of an earlier step.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    FetchRequest,
    FetchResponse,
    OffsetCommitKey,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitValue,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    offset_commit_request,
    offset_commit_response,
    offset_fetch_request,
    offset_fetch_response,
    txn_offset_commit_request,
    txn_offset_commit_response,
)
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kafkawire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)
from kafkawire.messages.fetch_request import FetchPartition, FetchTopic
from kafkawire.messages.fetch_response import AbortedTransaction, FetchableTopicResponse, PartitionData
from kafkawire.messages.metadata_request import MetadataRequest
from kafkawire.messages.metadata_response import MetadataResponse
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kafkawire.records import Batch, Record, build, build_marker, read
from tests.audit_logs import NOON
from tests.capture.wiretap import Conversation, ethernet, pcap

TOPIC, OFFSETS = "t", "__consumer_offsets"
PARTITIONS = (0, 1)
GROUP_LOG = 2  # the number of the log of groups' offsets


@dataclass
class Transaction:
    """`first`: the offset of its first batch in each log. `ended`: its marker in each log, COMMIT or ABORT; not there:
    it is open. `told`: what EndTxn was answered for. `faulty`: the faults that were planted in it."""

    producer: Producer
    epoch: int
    first: dict[int, int] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)
    told: str | None = None
    faulty: set[str] = field(default_factory=set)


@dataclass
class Producer:
    number: int
    producer_id: int
    own_epochs: bool
    epoch: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    open: Transaction | None = None


@dataclass
class Entry:
    """A batch in a log. `transaction`: of data, and of a marker. `late`: it arrived after the marker."""

    base: int
    last: int
    data: bytes
    transaction: Transaction | None = None
    marker: bool = False
    state: str = "none"
    late: bool = False


@dataclass
class Given:
    """A batch in a Fetch response. `committed`: to a read_committed consumer. `delivered`: a client passes it on.
    `open`: its transaction was open then."""

    partition: int
    entry: Entry
    committed: bool
    delivered: bool
    open: bool
    exchange: int


@dataclass
class Commit:
    """An offset that a group committed. `missing`: batches below it that it was not given, those above the former
    offset first, which are `new`. `entry`: in the group's log; None: it was lost."""

    group: str
    partition: int
    offset: int
    exchange: int
    missing: list[Entry]
    new: int
    transaction: Transaction | None = None
    entry: Entry | None = None

    @property
    def delivered(self) -> bool:
        """Whether the group was given all committed data above the former offset."""
        return all(entry.state in ("open", "aborted") for entry in self.missing[: self.new])

    @property
    def open(self) -> bool:
        """Whether data above the former offset that the group was not given is undecided."""
        return any(entry.state == "open" for entry in self.missing[: self.new])

    @property
    def past(self) -> bool:
        """Whether there is committed data below the offset that the group was not given."""
        return any(entry.state in ("none", "committed") for entry in self.missing)


@dataclass
class Consumer:
    group: str
    committed: bool
    talk: int
    position: dict[int, int] = field(default_factory=lambda: dict.fromkeys(PARTITIONS, 0))
    given: dict[int, set[int]] = field(default_factory=lambda: {number: set() for number in PARTITIONS})
    last: dict[int, int] = field(default_factory=dict)


class DeliveryHistory:
    """See the module.

    Args:
        random_: decides. faults: whether promises are broken.
    """

    def __init__(self, random_: random.Random, *, faults: bool) -> None:
        self.random = random_
        self.faults = faults
        self.logs: list[list[Entry]] = [[], [], []]
        self.ends = [0, 0, 0]
        self.sizes: list[tuple[int, int, int]] = []
        self.exchanges: list[tuple[int, Any, Any, int]] = []
        self.given: list[Given] = []
        self.commits: list[Commit] = []
        self.transactions: list[Transaction] = []
        self.produced = 0
        self.producers = [Producer(number, 1000 + number, own_epochs=number != 1) for number in range(3)]
        self.consumers = [Consumer(f"g{number}", committed=number != 1, talk=10 + number) for number in range(3)]
        self._say(0, MetadataRequest(), MetadataResponse(cluster_id="test"), 9)
        for one in self.consumers:
            self._starts(one)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            producer, consumer = self.random.choice(self.producers), self.random.choice(self.consumers)
            kind = self.random.randrange(12)
            if kind < 4:
                self._write(producer)
            elif kind == 4:
                self._plain()
            elif kind < 7:
                self._end(producer)
            elif kind < 10:
                self._fetch(consumer)
            elif kind == 10:
                self._commit(consumer)
            elif producer.open is not None:
                self._commit(consumer, producer)
            self.sizes.append((len(self.logs[0]), len(self.logs[1]), len(self.logs[2])))

    def _planted(self, share: float) -> bool:
        return self.faults and self.random.random() < share

    def _say(self, talk: int, request: Any, response: Any, version: int) -> int:
        self.exchanges.append((talk, request, response, version))
        return len(self.exchanges) - 1

    def _append(self, log: int, data: bytes, offsets: int, **about: Any) -> Entry:
        (item,) = read(data)
        assert isinstance(item, Batch)
        entry = Entry(self.ends[log], self.ends[log] + offsets - 1, item.rebased(self.ends[log], 0), **about)
        self.ends[log] += offsets
        self.logs[log].append(entry)
        return entry

    # Producers -----------------------------------------------------------------------------------------------------

    def _batch(self, producer: Producer | None, partition: int, count: int) -> bytes:
        self.produced += 1
        listed = [Record(b"k%d" % self.produced, b"%d" % at, timestamp=NOON + self.produced) for at in range(count)]
        if producer is None:
            return build(listed)
        sequence = producer.sequences.get(partition, 0)
        producer.sequences[partition] = sequence + count
        ids = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        return build(listed, base_sequence=sequence, transactional=True, **ids)  # type: ignore[arg-type]

    def _send(self, talk: int, partition: int, data: bytes, offset: int) -> None:
        part = TopicProduceData(name=TOPIC, partition_data=(PartitionProduceData(index=partition, records=data),))
        answer = PartitionProduceResponse(index=partition, base_offset=offset)
        response = ProduceResponse(responses=(TopicProduceResponse(name=TOPIC, partition_responses=(answer,)),))
        self._say(talk, ProduceRequest(acks=-1, topic_data=(part,)), response, 9)

    def _plain(self) -> None:
        partition, count = self.random.choice(PARTITIONS), self.random.randint(1, 3)
        data = self._batch(None, partition, count)
        self._send(9, partition, data, self._append(partition, data, count).base)

    def _write(self, producer: Producer) -> None:
        partition, count = self.random.choice(PARTITIONS), self.random.randint(1, 3)
        if producer.open is None:
            producer.open = Transaction(producer, producer.epoch)
            self.transactions.append(producer.open)
        transaction = producer.open
        if partition not in transaction.first and not producer.own_epochs:
            self._register(producer, partition)
        data = self._batch(producer, partition, count)
        entry = self._append(partition, data, count, transaction=transaction, state="open")
        transaction.first.setdefault(partition, entry.base)
        self._send(producer.number, partition, data, entry.base)

    def _register(self, producer: Producer, partition: int) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=f"id{producer.number}",
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name=TOPIC, partitions=(partition,)),),
        )
        result = AddPartitionsToTxnPartitionResult(partition_index=partition)
        topic = AddPartitionsToTxnTopicResult(name=TOPIC, results_by_partition=(result,))
        response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(topic,))
        self._say(producer.number, request, response, 3)

    def _end(self, producer: Producer) -> None:
        transaction, producer.open = producer.open, None
        if transaction is None:
            return
        name = transaction.told = self.random.choice(["COMMIT", "COMMIT", "ABORT"])
        late: tuple[int, bytes] | None = None
        if self._planted(0.15) and transaction.first.keys() & set(PARTITIONS):
            partition = min(transaction.first.keys() & set(PARTITIONS))
            late = partition, self._batch(producer, partition, 1)
            transaction.faulty.add("late")
        ids = {"transactional_id": f"id{producer.number}", "producer_id": producer.producer_id}
        request = EndTxnRequest(committed=name == "COMMIT", producer_epoch=producer.epoch, **ids)
        if late is not None:  # the request is on its way, and arrives after the marker
            at = self.ends[late[0]] + 1
            self._send(5 + producer.number, *late, at)
        self._say(producer.number, request, EndTxnResponse(), 5 if producer.own_epochs else 3)
        if producer.own_epochs:
            producer.epoch += 1
            producer.sequences.clear()
        for log in sorted(transaction.first):
            # The markers of a partition to which something arrives late are as they should be.
            marker = name
            if (late is None or log != late[0]) and self._planted(0.15):
                fault = self.random.choice(["torn", "missing"]) if producer.own_epochs else "torn"
                transaction.faulty.add(fault)
                if fault == "missing":
                    continue
                marker = "ABORT" if name == "COMMIT" else "COMMIT"
            self._mark(log, transaction, marker, producer.epoch)
            if late is not None and late[0] == log:
                self._append(log, late[1], 1, transaction=transaction, state="open", late=True)

    def _mark(self, log: int, transaction: Transaction, name: str, epoch: int) -> None:
        """A marker ends what is open of the producer."""
        producer_id = transaction.producer.producer_id
        for entry in self.logs[log]:
            mine = entry.transaction is not None and entry.transaction.producer.producer_id == producer_id
            if mine and entry.state == "open":
                entry.state = "committed" if name == "COMMIT" else "aborted"
        ids = {"producer_id": producer_id, "producer_epoch": epoch, "coordinator_epoch": 0}
        data = build_marker(name, offset=0, timestamp=NOON, **ids)
        self._append(log, data, 1, marker=True, transaction=transaction)
        transaction.ended[log] = name

    # Consumers -----------------------------------------------------------------------------------------------------

    def stable(self, log: int) -> int:
        """The last stable offset."""
        return min((entry.base for entry in self.logs[log] if entry.state == "open"), default=self.ends[log])

    def _starts(self, one: Consumer) -> None:
        asked = offset_fetch_request.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=PARTITIONS)
        parts = tuple(
            offset_fetch_response.OffsetFetchResponsePartition(partition_index=number, committed_offset=-1)
            for number in PARTITIONS
        )
        topic = offset_fetch_response.OffsetFetchResponseTopic(name=TOPIC, partitions=parts)
        request = OffsetFetchRequest(group_id=one.group, topics=(asked,))
        self._say(one.talk, request, OffsetFetchResponse(topics=(topic,)), 5)

    def _fetch(self, one: Consumer) -> None:
        parts, number = [], len(self.exchanges)
        asked = tuple(FetchPartition(partition=at, fetch_offset=one.position[at]) for at in PARTITIONS)
        for log in PARTITIONS:
            stable, position = self.stable(log), one.position[log]
            end = stable if one.committed else self.ends[log]
            if one.committed and self._planted(0.1):
                end = self.ends[log]
            found = [entry for entry in self.logs[log] if position <= entry.base < end]
            found = found[: self.random.randint(0, 6)]
            aborted = self._aborted(log, found) if one.committed else []
            if aborted and self._planted(0.3):
                aborted.remove(self.random.choice(aborted))
            if one.committed and self._planted(0.1):
                wrong = [entry for entry in found if entry.state == "committed" and not entry.marker]
                aborted += [(e.transaction.producer.producer_id, e.base) for e in wrong[:1] if e.transaction]
            aborted.sort(key=lambda pair: pair[1])
            self._give(one, log, found, aborted, number)
            listed = tuple(AbortedTransaction(producer_id, first) for producer_id, first in aborted)
            parts.append(
                PartitionData(
                    partition_index=log,
                    high_watermark=self.ends[log],
                    last_stable_offset=stable,
                    aborted_transactions=listed,
                    records=b"".join(entry.data for entry in found),
                )
            )
            if found:
                one.position[log] = found[-1].last + 1
            if found and self._planted(0.08):  # the application seeks
                later = [entry.base for entry in self.logs[log] if entry.base > one.position[log]]
                one.position[log] = later[0] if later else one.position[log]
        request = FetchRequest(
            session_epoch=-1, isolation_level=int(one.committed), topics=(FetchTopic(topic=TOPIC, partitions=asked),)
        )
        response = FetchResponse(responses=(FetchableTopicResponse(topic=TOPIC, partitions=tuple(parts)),))
        self._say(one.talk, request, response, 11)

    def _aborted(self, log: int, found: list[Entry]) -> list[tuple[int, int]]:
        """Producer ids and first offsets of the aborted transactions that a response names, as a transaction index has
        them: from the first batch after the producer's last marker."""
        listed: dict[tuple[int, int], None] = {}
        first: dict[int, int] = {}
        wanted = {entry.base for entry in found}
        for entry in self.logs[log]:
            if entry.transaction is None:
                continue
            producer_id = entry.transaction.producer.producer_id
            if entry.marker:
                first.pop(producer_id, None)
                continue
            first.setdefault(producer_id, entry.base)
            if entry.base in wanted and entry.state == "aborted":
                listed[producer_id, first[producer_id]] = None
        return list(listed)

    def _give(self, one: Consumer, log: int, found: list[Entry], aborted: list[tuple[int, int]], exchange: int) -> None:
        """As a client passes batches on: a producer is left out from its first offset up to its ABORT marker."""
        waiting, out = list(aborted), set[int]()
        for entry in found:
            while waiting and waiting[0][1] <= entry.last:
                out.add(waiting.pop(0)[0])
            producer_id = entry.transaction.producer.producer_id if entry.transaction else -1
            if entry.marker:
                assert entry.transaction is not None
                if entry.transaction.ended.get(log) == "ABORT":
                    out.discard(producer_id)
                continue
            delivered = not (one.committed and producer_id in out)
            self.given.append(Given(log, entry, one.committed, delivered, entry.state == "open", exchange))
            one.given[log].add(entry.base)

    def _commit(self, one: Consumer, producer: Producer | None = None) -> None:
        log = self.random.choice(PARTITIONS)
        offset, fault = one.position[log], None
        if offset <= one.last.get(log, 0):
            return
        if self._planted(0.3):
            data = [entry for entry in self.logs[log] if entry.base >= offset and not entry.marker]
            later = [entry.last + 1 for entry in data if entry.last < self.stable(log)]
            offset, fault = (later[0], "ahead") if later else (offset, None)
        if fault is None and producer is None and self._planted(0.1):
            fault = "lost"
        missing = [
            entry
            for entry in self.logs[log]
            if entry.last < offset and not entry.marker and entry.base not in one.given[log]
        ]
        missing.sort(key=lambda entry: entry.base < one.last.get(log, 0))
        new = sum(entry.base >= one.last.get(log, 0) for entry in missing)
        one.last[log] = offset
        transaction = None if producer is None else producer.open
        made = Commit(one.group, log, offset, len(self.exchanges), missing, new, transaction)
        self.commits.append(made)
        if producer is None:
            self._plain_commit(one, made)
        else:
            self._transactional_commit(one, made, producer)
        if fault != "lost":
            self._record(one.group, made, producer)

    def _plain_commit(self, one: Consumer, made: Commit) -> None:
        part = offset_commit_request.OffsetCommitRequestPartition(
            partition_index=made.partition, committed_offset=made.offset
        )
        topic = offset_commit_request.OffsetCommitRequestTopic(name=TOPIC, partitions=(part,))
        answer = offset_commit_response.OffsetCommitResponsePartition(partition_index=made.partition)
        answered = offset_commit_response.OffsetCommitResponseTopic(name=TOPIC, partitions=(answer,))
        request = OffsetCommitRequest(group_id=one.group, topics=(topic,))
        self._say(one.talk, request, OffsetCommitResponse(topics=(answered,)), 7)

    def _transactional_commit(self, one: Consumer, made: Commit, producer: Producer) -> None:
        part = txn_offset_commit_request.TxnOffsetCommitRequestPartition(
            partition_index=made.partition, committed_offset=made.offset
        )
        topic = txn_offset_commit_request.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=(part,))
        answer = txn_offset_commit_response.TxnOffsetCommitResponsePartition(partition_index=made.partition)
        answered = txn_offset_commit_response.TxnOffsetCommitResponseTopic(name=TOPIC, partitions=(answer,))
        ids = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        request = TxnOffsetCommitRequest(
            transactional_id=f"id{producer.number}", group_id=one.group, topics=(topic,), **ids
        )
        self._say(producer.number, request, TxnOffsetCommitResponse(topics=(answered,)), 3)

    def _record(self, group: str, made: Commit, producer: Producer | None) -> None:
        key = b"\0\1" + OffsetCommitKey(group=group, topic=TOPIC, partition=made.partition).encode(version=0)
        value = OffsetCommitValue(offset=made.offset, metadata="", commit_timestamp=0).encode_prefixed(version=3)
        if producer is None:
            made.entry = self._append(GROUP_LOG, build([Record(key, value)]), 1)
            return
        transaction = producer.open
        assert transaction is not None
        sequence = producer.sequences.get(GROUP_LOG, 0)
        producer.sequences[GROUP_LOG] = sequence + 1
        ids = {"producer_id": producer.producer_id, "producer_epoch": producer.epoch, "base_sequence": sequence}
        data = build([Record(key, value)], transactional=True, **ids)  # type: ignore[arg-type]
        made.entry = self._append(GROUP_LOG, data, 1, transaction=transaction, state="open")
        transaction.first.setdefault(GROUP_LOG, made.entry.base)

    # What they leave -----------------------------------------------------------------------------------------------

    def capture(self, *, drops: float, begins: int = 0) -> tuple[bytes, dict[tuple[str, int], int]]:
        """The capture; and the number of each exchange by its client's address and correlation id.

        Args:
            drops: the share of packets that are not in it. begins: the first exchange that is.
        """
        talks: dict[int, Conversation] = {}
        order: list[bytes] = []
        numbers: dict[tuple[str, int], int] = {}
        sent: dict[int, int] = {}
        for number, (talk_number, request, response, version) in enumerate(self.exchanges):
            address = f"10.0.1.{talk_number + 1}", 40000 + talk_number
            talk = talks.setdefault(talk_number, Conversation(address))
            sent[talk_number] = correlation = sent.get(talk_number, 0) + 1
            numbers[f"{address[0]}:{address[1]}", correlation] = number
            for body, speak in ((request, talk.request), (response, talk.response)):
                speak(body, version=version, correlation_id=correlation)
                order.extend(talk.packets if self.random.random() >= drops and number >= begins else ())
                talk.packets.clear()
        return pcap(map(ethernet, order)), numbers

    def write(self, root: Path, *, step: int | None = None) -> tuple[int, int, int]:
        """The log directory, as it was after a step; the end of each log."""
        sizes = (len(self.logs[0]), len(self.logs[1]), len(self.logs[2])) if step is None else self.sizes[step]
        ends = []
        for (topic, number), entries, size in zip(
            ((TOPIC, 0), (TOPIC, 1), (OFFSETS, 0)), self.logs, sizes, strict=True
        ):
            folder = root / f"{topic}-{number}"
            folder.mkdir(parents=True)
            (folder / f"{0:020}.log").write_bytes(b"".join(entry.data for entry in entries[:size]))
            (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
            ends.append(entries[size - 1].last + 1 if size else 0)
        lines = [f"{TOPIC} 0 {ends[0]}", f"{TOPIC} 1 {ends[1]}", f"{OFFSETS} 0 {ends[2]}"]
        (root / "replication-offset-checkpoint").write_text(f"0\n{len(lines)}\n" + "\n".join(lines) + "\n")
        (root / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=test\n")
        return ends[0], ends[1], ends[2]
