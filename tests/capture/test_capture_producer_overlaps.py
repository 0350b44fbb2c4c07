"""Producer ids and epochs that two connections use at the same time."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from msgspec.structs import replace

from kafkawire import capture, records
from kafkawire.capture import CapturedExchange, StatisticsOfExchanges, producer_overlaps
from kafkawire.capture.producer_overlaps import APIS, ProducerOverlaps
from kafkawire.capture.reader import read_with
from kafkawire.messages import AddPartitionsToTxnRequest, EndTxnRequest
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from kafkawire.wire.message import Message
from tests.capture.wiretap import Conversation, ethernet, pcap, produce

HERE, THERE = ("10.0.0.1", 40000), ("10.0.0.3", 40000)
BROKERS = [("10.0.0.2", 9092), ("10.0.0.4", 9092)]


def data(producer_id: int = 7, epoch: int = 1) -> Message:
    batch = records.build([records.Record(b"k", b"v")], producer_id=producer_id, producer_epoch=epoch, base_sequence=0)
    return replace(produce(-1, batch), transactional_id="orders")


END = EndTxnRequest(transactional_id="orders", producer_id=7, producer_epoch=1)
ADD = AddPartitionsToTxnRequest(
    v3_and_below_transactional_id="orders", v3_and_below_producer_id=7, v3_and_below_producer_epoch=1
)
VERIFY = AddPartitionsToTxnRequest(
    transactions=(AddPartitionsToTxnTransaction(transactional_id="orders", producer_id=7, producer_epoch=1),)
)


def traffic(*turns: tuple[int, Message, int], ends: list[tuple[tuple[str, int], int]]) -> bytes:
    """A capture of requests, one after the other: the connection, the message and its version.

    Args:
        ends: client and index of the broker, of each connection.
    """
    conversations = [Conversation(client, BROKERS[broker]) for client, broker in ends]
    packets = [packet for talk in conversations for packet in talk.packets]
    for number, (index, message, version) in enumerate(turns):
        before = len(conversations[index].packets)
        conversations[index].request(message, version=version, correlation_id=number)
        packets += conversations[index].packets[before:]
    return pcap(map(ethernet, packets))


def overlaps(file: bytes, **options: Any) -> tuple[ProducerOverlaps, list[str]]:
    found = ProducerOverlaps()
    options = options or {"keep_requests": APIS}
    sentences = [found.add(matched) for matched in read_with(BytesIO(file), **options).matched()]
    counted = ProducerOverlaps()  # as `capture --stats` reads it
    for each in read_with(BytesIO(file), keep_requests=APIS, statistics=True).found():
        if isinstance(each, StatisticsOfExchanges):
            counted.add_uses(each.uses)
        elif isinstance(each, CapturedExchange):
            counted.add(each)
    assert counted.found == found.found
    return found, [sentence for sentence in sentences if sentence]


PRODUCE_9 = (data(), 9)


@pytest.mark.parametrize("options", [{"keep_requests": APIS}, {"keep": True}, {"keep_requests": APIS, "body": True}])
def test_two_hosts_with_one_id_and_epoch_are_reported(options: dict[str, Any]) -> None:
    turns = [(0, *PRODUCE_9), (1, *PRODUCE_9), (0, *PRODUCE_9), (1, *PRODUCE_9)]
    found, sentences = overlaps(traffic(*turns, ends=[(HERE, 0), (THERE, 0)]), **options)
    (overlap,) = found.found.values()
    first, second = overlap.connections
    assert (overlap.producer_id, overlap.epoch, overlap.turns) == (7, 1, 2)
    assert (first, second) == (
        "connection 1 (10.0.0.1:40000 - 10.0.0.2:9092)",
        "connection 2 (10.0.0.3:40000 - 10.0.0.2:9092)",
    )
    assert overlap.last_ns - overlap.first_ns == 3_000_000
    assert sentences == [f"producer id 7 epoch 1 is used at the same time by {other}" for other in (second, first)]


@pytest.mark.parametrize(
    ("second", "message", "version", "reported"),
    [
        ((("10.0.0.1", 40001), 0), data(), 9, True),  # another process of the same host
        ((("10.0.0.1", 40001), 1), data(), 9, False),  # the producer's connection to another broker
        ((("10.0.0.1", 40001), 0), END, 3, False),  # librdkafka has one for transactions
        ((THERE, 1), END, 3, True),
        ((THERE, 1), ADD, 3, True),
        ((THERE, 1), VERIFY, 4, False),  # a broker verifies
        ((THERE, 0), data(epoch=2), 9, False),
        ((THERE, 0), data(producer_id=8), 9, False),
        ((THERE, 0), data(producer_id=-1), 9, False),
    ],
)
def test_second_connection_counts_if_it_cannot_be_the_producers_own(
    second: tuple[tuple[str, int], int], message: Message, version: int, reported: bool
) -> None:
    turns = [(0, *PRODUCE_9), (1, message, version), (0, *PRODUCE_9)]
    found, _ = overlaps(traffic(*turns, ends=[(HERE, 0), second]))
    assert bool(found.found) is reported


def test_reconnect_is_no_overlap() -> None:
    turns = [(0, *PRODUCE_9), (0, *PRODUCE_9), (1, *PRODUCE_9), (1, *PRODUCE_9)]
    found, sentences = overlaps(traffic(*turns, ends=[(HERE, 0), (("10.0.0.1", 40001), 0)]))
    assert (found.found, sentences) == ({}, [])


@pytest.mark.parametrize(("others", "remembered"), [(9, True), (10, False)])
def test_producers_used_least_recently_are_forgotten(
    monkeypatch: pytest.MonkeyPatch, others: int, remembered: bool
) -> None:
    monkeypatch.setattr(producer_overlaps, "MOST_PRODUCERS", 10)
    turns = [(0, *PRODUCE_9), (1, *PRODUCE_9)]
    turns += [(0, data(producer_id=100 + number), 9) for number in range(others)]
    turns += [(0, *PRODUCE_9)]
    found, _ = overlaps(traffic(*turns, ends=[(("10.0.0.1", 40000 + number), 0) for number in range(2)]))
    assert bool(found.found) is remembered


@pytest.mark.parametrize(("others", "remembered"), [(63, True), (64, False)])
def test_connections_of_a_producer_used_least_recently_are_forgotten(others: int, remembered: bool) -> None:
    turns = [(number, *PRODUCE_9) for number in (*range(1 + others), 0)]
    found, _ = overlaps(traffic(*turns, ends=[(("10.0.0.1", 40000 + number), 0) for number in range(1 + others)]))
    assert bool(found.found) is remembered


def test_timeline_names_the_other_connection() -> None:
    turns = [(0, *PRODUCE_9), (1, *PRODUCE_9), (0, END, 3), (0, *PRODUCE_9)]
    file = traffic(*turns, ends=[(HERE, 0), (THERE, 0)])
    found = list(capture.steps(capture.read(BytesIO(file), keep=True).matched(), "orders"))
    other = "producer id 7 epoch 1 is used at the same time by connection 2 (10.0.0.3:40000 - 10.0.0.2:9092)"
    assert [other in (step.problem or "") for step in found] == [False, False, False, True]
