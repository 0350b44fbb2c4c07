"""The steps of one transactional producer."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from uuid import UUID

import pytest
from msgspec.structs import replace

from kafkawire import capture
from kafkawire.capture import Exchanges, ExchangeSelection, read_packets, steps
from kafkawire.capture.exchange import ReadOptions
from kafkawire.capture.reader import read_with
from kafkawire.capture.timeline import APIS
from kafkawire.messages import MetadataRequest, MetadataResponse, TxnOffsetCommitRequest
from kafkawire.messages.metadata_response import MetadataResponseTopic
from kafkawire.messages.produce_request import TopicProduceData
from kafkawire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.capture.wiretap import Conversation, ethernet, pcap, produce

EXAMPLES = Path(__file__).parents[2] / "examples"


PCAP = EXAMPLES / "capture" / "transactions.pcap"
NO_SELECTION = ExchangeSelection()


EXPECTED = json.loads((EXAMPLES / "expected.json").read_text())["capture"]["transactions.pcap"]


def timeline(who: str) -> list[tuple[str | None, str | None]]:
    return [(step.api, step.what) for step in steps(capture.read(PCAP, keep=True).matched(), who)]


def test_yields_the_steps_of_a_producer_over_all_connections() -> None:
    abort = EXPECTED["aborts"][1]
    place = f"{abort['topic']}-{abort['partition']}"
    assert timeline("payments-archiver") == [
        ("InitProducerId", f"timeout 900000 ms: producer id {abort['producer_id']} epoch {abort['producer_epoch']}"),
        ("Produce", f"{place}: 3 records from sequence 0 epoch 0"),
        ("EndTxn", "commit"),
        ("WriteTxnMarkers", f"abort {place}, producer epoch 0, coordinator epoch 0"),
    ]
    assert timeline(str(abort["producer_id"])) == timeline("payments-archiver")
    found = list(steps(capture.read(PCAP, keep=True).matched(), "orders-service"))
    assert len({step.connection for step in found}) == 3  # its transactions, its data, the coordinator's markers
    assert {step.producer_id for step in found} <= {None, 0}


def test_describes_offsets_committed_in_a_transaction() -> None:
    described = dict(timeline("shipments-service"))
    assert described["AddOffsetsToTxn"] == "group shipments"
    assert str(described["TxnOffsetCommit"]).startswith("group shipments: orders-0 @ ")


def test_an_unknown_producer_has_no_steps() -> None:
    assert timeline("nobody") == []
    assert timeline("9" * 30) == []


def test_describes_records_without_sequence_numbers() -> None:
    request = replace(produce(-1), transactional_id="me")
    talk = Conversation().request(request, version=9, correlation_id=1)
    matched = capture.read(BytesIO(pcap(map(ethernet, talk.packets))), keep=True).matched()
    (step,) = steps(matched, "me")
    assert step.what == "t-0: 1 record"


def test_topics_that_requests_name_by_id_have_the_names_that_responses_gave() -> None:
    known, unknown = UUID(int=7), UUID(int=8)
    data = TopicProduceData(topic_id=known, partition_data=produce(-1).topic_data[0].partition_data)
    offsets = TxnOffsetCommitRequest(
        transactional_id="me",
        group_id="g",
        topics=tuple(
            TxnOffsetCommitRequestTopic(
                topic_id=topic_id,
                partitions=(TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=42),),
            )
            for topic_id in (known, unknown)
        ),
    )
    talk = Conversation().request(MetadataRequest(topics=None), version=13, correlation_id=1)
    talk.response(
        MetadataResponse(topics=(MetadataResponseTopic(name="orders", topic_id=known),)), version=13, correlation_id=1
    )
    talk.request(replace(produce(-1), transactional_id="me", topic_data=(data,)), version=13, correlation_id=2)
    talk.request(offsets, version=6, correlation_id=3)
    matched = capture.read(BytesIO(pcap(map(ethernet, talk.packets))), keep=True).matched()
    assert [step.what for step in steps(matched, "me")] == [
        "orders-0: 1 record",
        "group g: orders-0 @ 42, AAAAAAAAAAAAAAAAAAAACA-0 @ 42",
    ]


@pytest.mark.parametrize("who", ["orders-service", "payments-archiver", "0"])
def test_messages_of_some_apis_suffice(who: str) -> None:
    """The command keeps those alone; both trackers do."""
    whole = list(steps(capture.read(PCAP, keep=True).matched(), who))
    assert whole
    options = ReadOptions(keep_messages=APIS)
    for found in (
        read_with(PCAP, keep_messages=APIS),
        Exchanges(lambda unread, _: read_packets(BytesIO(PCAP.read_bytes()), unread), str(PCAP), options, NO_SELECTION),
    ):
        kept = list(found.matched())
        assert list(steps(kept, who)) == whole
        for each in kept:
            wanted = each.row.api_key in APIS and each.row.response_bytes is not None
            assert (each.response is not None, each.request_frame) == (wanted, None)
