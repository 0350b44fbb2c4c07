"""Answers to producers about their transactions, compared with the markers in the logs."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from kafkawire import capture, logdir
from kafkawire.messages import EndTxnRequest, EndTxnResponse, ProduceRequest, ProduceResponse
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.messages.produce_response import PartitionProduceResponse, TopicProduceResponse
from kafkawire.records import Batch, Record, build, read
from kafkawire.rows import FateTotal, TransactionAnomaly, TransactionTotal, WitnessSummary
from kafkawire.witness import Witness
from tests.audit_logs import LogDirectory
from tests.capture.wiretap import Conversation, ethernet, pcap

PRODUCER, EPOCH = 1000, 4


def judged(
    tmp_path: Path,
    *,
    told: bool,
    markers: dict[str, str | None],
    version: int = 5,
    error: int = 0,
    most: int = 10,
) -> tuple[WitnessSummary, list[Any]]:
    """One transaction in several topics.

    Args:
        told: whether it is committed, by EndTxn. markers: of each topic; None: it is open there.
    """
    logs = LogDirectory(tmp_path / "logs", ids=1)
    talk = Conversation()
    for number, (topic, marker) in enumerate(markers.items()):
        data = build(
            [Record(b"k", topic.encode())],
            producer_id=PRODUCER,
            producer_epoch=EPOCH,
            base_sequence=0,
            transactional=True,
        )
        part = TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=0, records=data),))
        talk.request(ProduceRequest(acks=-1, topic_data=(part,)), version=9, correlation_id=number)
        answer = TopicProduceResponse(name=topic, partition_responses=(PartitionProduceResponse(index=0),))
        talk.response(ProduceResponse(responses=(answer,)), version=9, correlation_id=number)
        log = logs.partition(topic)
        (batch,) = read(data)
        assert isinstance(batch, Batch)
        log._append(batch.rebased(0, 0), 1)
        if marker is not None:
            log.marker(marker, PRODUCER, EPOCH + 1)
        logs.high_watermark(topic, 0, log.end)
    request = EndTxnRequest(transactional_id="id", producer_id=PRODUCER, producer_epoch=EPOCH, committed=told)
    talk.request(request, version=version, correlation_id=99)
    talk.response(EndTxnResponse(error_code=error), version=version, correlation_id=99)
    witness = Witness(logdir.open(logs.write()), most=most)
    for exchange in capture.read(BytesIO(pcap(map(ethernet, talk.packets))), keep=True).matched():
        witness.add(exchange)
    summary, *others = witness.rows()
    assert isinstance(summary, WitnessSummary)
    assert sum(row.batches for row in others if isinstance(row, FateTotal)) == len(markers) == summary.held
    return summary, others


def test_a_transaction_that_ended_as_it_was_told(tmp_path: Path) -> None:
    summary, others = judged(tmp_path, told=True, markers={"a": "COMMIT", "b": "COMMIT"})
    totals = [(row.end_txn, row.transaction, row.batches) for row in others if isinstance(row, TransactionTotal)]
    assert totals == [("COMMIT", "committed", 2)]
    assert (summary.ended, summary.transaction_anomalies) == (1, 0)


@pytest.mark.parametrize(("told", "name"), [(True, "aborted_though_committed"), (False, "committed_though_aborted")])
def test_a_partition_that_got_the_other_marker_is_named(tmp_path: Path, told: bool, name: str) -> None:
    markers = ("COMMIT", "ABORT") if told else ("ABORT", "COMMIT")
    summary, others = judged(tmp_path, told=told, markers=dict(zip("ab", markers, strict=True)))
    (found,) = (row for row in others if isinstance(row, TransactionAnomaly))
    assert (found.name, found.topic, found.offset, found.producer_id) == (name, "b", 0, PRODUCER)
    assert found.packet is not None
    assert summary.transaction_anomalies == 1


def test_anomalies_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    summary, others = judged(tmp_path, told=True, markers={"a": "ABORT", "b": "ABORT"}, most=1)
    assert summary.transaction_anomalies == 2
    assert len([row for row in others if isinstance(row, TransactionAnomaly)]) == 1


def test_a_marker_that_is_missing_proves_nothing(tmp_path: Path) -> None:
    summary, others = judged(tmp_path, told=True, markers={"a": "COMMIT", "b": None})
    totals = {row.transaction: row.batches for row in others if isinstance(row, TransactionTotal)}
    assert totals == {"committed": 1, "open": 1}
    assert not summary.transaction_anomalies


def test_transactions_that_share_epochs_are_not_compared(tmp_path: Path) -> None:
    summary, others = judged(tmp_path, told=True, markers={"a": "ABORT"}, version=3)
    assert (summary.ended, summary.ended_shared, summary.transaction_anomalies) == (1, 1, 0)
    assert not [row for row in others if isinstance(row, TransactionTotal)]


def test_an_answer_with_an_error_promises_nothing(tmp_path: Path) -> None:
    summary, _ = judged(tmp_path, told=True, markers={"a": "ABORT"}, error=47)
    assert (summary.ended, summary.transaction_anomalies) == (0, 0)
