"""Markers that are missing, data after its marker or outside of its transaction; the order of producers' batches."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from kafkawire import capture, logdir
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic
from kafkawire.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnTopicResult,
)
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kafkawire.records import Batch, Record, build, read
from kafkawire.rows import OrderAnomaly, TransactionAnomaly, WitnessSummary
from kafkawire.witness import Witness
from tests.audit_logs import LogDirectory
from tests.capture.wiretap import Conversation, ethernet, pcap

PRODUCER, EPOCH = 1000, 4
_IDS = {"transactional_id": "id", "producer_id": PRODUCER}


class Scene:
    """One producer, one partition: what is sent, and what the log has."""

    def __init__(self, root: Path) -> None:
        self.logs = LogDirectory(root, ids=1, compacted=False)
        self.log = self.logs.partition("t")
        self.talk = Conversation()
        self.number = self.sequence = 0
        self.sent: list[bytes] = []

    def _correlation(self) -> int:
        self.number += 1
        return self.number

    def send(self, epoch: int = EPOCH, *, transactional: bool = True, answered: bool = True) -> int:
        """Send a batch; its number for `append`. Answered with the offset that it then gets."""
        data = build(
            [Record(b"k", b"%d" % len(self.sent))],
            producer_id=PRODUCER,
            producer_epoch=epoch,
            base_sequence=self.sequence,
            transactional=transactional,
        )
        self.sequence += 1
        self.sent.append(data)
        part = TopicProduceData(name="t", partition_data=(PartitionProduceData(index=0, records=data),))
        number = self._correlation()
        self.talk.request(ProduceRequest(acks=-1, topic_data=(part,)), version=9, correlation_id=number)
        if answered:
            answer = PartitionProduceResponse(index=0, base_offset=self.log.end)
            response = ProduceResponse(responses=(TopicProduceResponse(name="t", partition_responses=(answer,)),))
            self.talk.response(response, version=9, correlation_id=number)
        return len(self.sent) - 1

    def append(self, number: int) -> None:
        (batch,) = read(self.sent[number])
        assert isinstance(batch, Batch)
        self.log._append(batch.rebased(self.log.end, 0), 1)

    def write(self, epoch: int = EPOCH, *, transactional: bool = True) -> None:
        self.append(self.send(epoch, transactional=transactional))

    def add_partition(self) -> None:
        number = self._correlation()
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="id",
            v3_and_below_producer_id=PRODUCER,
            v3_and_below_producer_epoch=EPOCH,
            v3_and_below_topics=(AddPartitionsToTxnTopic(name="t", partitions=(0,)),),
        )
        result = AddPartitionsToTxnTopicResult(
            name="t", results_by_partition=(AddPartitionsToTxnPartitionResult(partition_index=0),)
        )
        self.talk.request(request, version=3, correlation_id=number)
        response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=(result,))
        self.talk.response(response, version=3, correlation_id=number)

    def end(self, epoch: int = EPOCH, *, committed: bool = True, version: int = 5, seen: bool = True) -> None:
        number, kept = self._correlation(), len(self.talk.packets)
        request = EndTxnRequest(producer_epoch=epoch, committed=committed, **_IDS)
        self.talk.request(request, version=version, correlation_id=number)
        self.talk.response(EndTxnResponse(), version=version, correlation_id=number)
        if not seen:
            del self.talk.packets[kept:]

    def judged(self) -> tuple[WitnessSummary, list[TransactionAnomaly], list[OrderAnomaly]]:
        self.logs.high_watermark("t", 0, self.log.end)
        witness = Witness(logdir.open(self.logs.write()))
        for exchange in capture.read(BytesIO(pcap(map(ethernet, self.talk.packets))), keep=True).matched():
            witness.add(exchange)
        summary, *others = witness.rows()
        assert isinstance(summary, WitnessSummary)
        found = [row for row in others if isinstance(row, TransactionAnomaly)]
        late = [row for row in others if isinstance(row, OrderAnomaly)]
        assert (summary.transaction_anomalies, summary.order_anomalies) == (len(found), len(late))
        return summary, found, late


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "logs")


def own_epochs(scene: Scene, *, first_marker: bool, late: bool = False) -> None:
    """Two transactions of version 2, and a batch behind them."""
    number = scene.send()
    if not late:
        scene.append(number)
    scene.end(EPOCH)
    if first_marker:
        scene.log.marker("COMMIT", PRODUCER, EPOCH + 1)
    if late:
        scene.append(number)
    scene.sequence = 0
    scene.write(EPOCH + 1)
    scene.end(EPOCH + 1)
    scene.log.marker("COMMIT", PRODUCER, EPOCH + 2)
    scene.write(EPOCH + 2)


def test_transactions_with_their_markers(scene: Scene) -> None:
    own_epochs(scene, first_marker=True)
    assert scene.judged()[1:] == ([], [])


def test_a_marker_that_is_missing_before_the_next_transaction(scene: Scene) -> None:
    own_epochs(scene, first_marker=False)
    _, (found,), _ = scene.judged()
    assert (found.name, found.offset, found.marker_offset, found.end_txn) == ("missing_marker", 0, 2, "COMMIT")


def test_data_after_a_marker_of_a_later_epoch(scene: Scene) -> None:
    own_epochs(scene, first_marker=True, late=True)
    _, (found,), _ = scene.judged()
    assert (found.name, found.offset, found.marker_offset) == ("late_data", 1, 0)


def test_a_transaction_that_stays_open_once_the_next_one_has_ended(scene: Scene) -> None:
    """The next transaction is in other partitions; a batch of another producer shows that the copy is newer."""
    scene.write()
    scene.end(EPOCH)
    scene.end(EPOCH + 1)
    scene.sequence = 0
    scene.write(EPOCH, transactional=False)
    _, (found,), _ = scene.judged()
    assert (found.name, found.offset, found.transaction) == ("missing_marker", 0, "open")


def shared_epochs(scene: Scene, *, late: bool, seen: bool = True) -> None:
    """Two transactions of one epoch, and a batch behind them."""
    for number in range(2):
        scene.add_partition()
        scene.write()
        last = scene.send(answered=number == 0)
        if number == 0 or not late:
            scene.append(last)
        scene.end(committed=number == 0, version=3, seen=seen or number == 1)
        scene.log.marker("COMMIT" if number == 0 else "ABORT", PRODUCER, EPOCH)
    if late:
        scene.append(last)
    scene.add_partition()
    scene.write()


def test_transactions_that_share_an_epoch(scene: Scene) -> None:
    shared_epochs(scene, late=False)
    assert scene.judged()[1:] == ([], [])


def test_data_after_the_marker_of_its_transaction(scene: Scene) -> None:
    shared_epochs(scene, late=True)
    summary, (found,), _ = scene.judged()
    assert (found.name, found.offset, found.marker_offset, found.end_txn) == ("late_data", 5, 4, "ABORT")
    assert found.packet is not None
    assert summary.ended_shared == 2


def test_without_all_ends_of_transactions_nothing_is_said(scene: Scene) -> None:
    shared_epochs(scene, late=True, seen=False)
    assert scene.judged()[1:] == ([], [])


@pytest.mark.parametrize("inside", [True, False])
def test_data_in_a_partition_that_the_coordinator_does_not_know_of(scene: Scene, inside: bool) -> None:
    scene.write()
    place = ("t", 0) if inside else ("t", 1)
    scene.logs.id("id", "Ongoing", PRODUCER, EPOCH, place)
    scene.logs.id("id", "PrepareCommit", PRODUCER, EPOCH + 1, place)
    scene.logs.id("id", "CompleteCommit", PRODUCER, EPOCH + 1)
    log = scene.logs.id_log("id")
    scene.logs.high_watermark("__transaction_state", 0, log.end)
    _, found, _ = scene.judged()
    assert [row.name for row in found] == ([] if inside else ["unregistered"])
    assert inside or "__transaction_state-0: offset 1" in str(found[0].log)


def test_batches_that_are_held_in_another_order(scene: Scene) -> None:
    scene.sequence = 5
    first, second = (scene.send(transactional=False, answered=False) for _ in range(2))
    scene.append(second)
    scene.append(first)
    _, _, (found,) = scene.judged()
    assert (found.name, found.sequence, found.offset) == ("out_of_order", 5, 1)
    assert (found.later_sequence, found.later_offset) == (6, 0)


def test_sequence_numbers_that_begin_anew_are_in_order(scene: Scene) -> None:
    for sequence in (2**31 - 1, 0, 1, 0):
        scene.sequence = sequence
        scene.write(transactional=False)
        scene.sent[-1] = b""
    assert scene.judged()[2] == []
