"""Which exchanges are asked for, what one producer did, and statistics."""

from __future__ import annotations

import json
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from wiretap import Talk, ask, ethernet, pcap, produce

from kafkawire import capture, records
from kafkawire.capture import Selection, Statistics, Stream, Subjects, steps
from kafkawire.capture.matcher import NO_RESPONSE
from kafkawire.messages import (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    WriteTxnMarkersRequest,
)
from kafkawire.messages.add_partitions_to_txn_request import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from kafkawire.messages.fetch_request import FetchTopic
from kafkawire.messages.metadata_response import MetadataResponseTopic
from kafkawire.messages.write_txn_markers_request import WritableTxnMarker
from kafkawire.rows import Exchange

EXAMPLES = Path(__file__).parents[2] / "examples"
PCAP = EXAMPLES / "capture" / "transactions.pcap"
EXPECTED = json.loads((EXAMPLES / "expected.json").read_text())["capture"]["transactions.pcap"]


@pytest.fixture(scope="module")
def whole() -> list[Exchange]:
    return list(capture.read(PCAP))


def selected(**criteria: Any) -> list[Exchange]:
    return list(capture.read(PCAP, selection=Selection(**criteria)))


def test_what_headers_tell(whole: list[Exchange]) -> None:
    for criteria, wanted in (
        ({"apis": ("produce", "27")}, lambda e: e.api in ("Produce", "WriteTxnMarkers")),
        ({"client_ids": ("orders-service",)}, lambda e: e.client_id == "orders-service"),
        ({"errors": True}, lambda e: e.errors or e.problem),
        ({"slow_ms": 5.0}, lambda e: e.latency_ms is None or e.latency_ms >= 5),
        ({"connections": (4, 9)}, lambda e: e.connection in (4, 9)),
        ({"ports": (9092,)}, lambda e: True),
        ({"ports": (1,)}, lambda e: False),
    ):
        found = selected(**criteria)
        assert found == [e for e in whole if wanted(e)]
        assert found or criteria == {"ports": (1,)}


def test_times_are_half_open(whole: list[Exchange]) -> None:
    first, last = ((whole[place].time_ns or 0) // 1_000_000 for place in (50, 100))
    found = selected(times=(first, last))
    assert found == [e for e in whole if first <= (e.time_ns or 0) / 1e6 < last]
    assert selected(times=(None, first)) + selected(times=(first, None)) == whole


def test_criteria_narrow_each_other_and_what_is_left_out_is_counted(whole: list[Exchange]) -> None:
    reading = capture.read(PCAP, selection=Selection(apis=("Produce",), client_ids=("orders-service",)))
    found = list(reading)
    assert found == [e for e in whole if (e.api, e.client_id) == ("Produce", "orders-service")]
    assert (reading.summary.exchanges, reading.summary.selected) == (len(whole), len(found))
    assert list(reading.summary.first) == list(reading.summary.problems)
    assert reading.summary.problems.total() == 1


def test_what_messages_name() -> None:
    # Each abort that was made: DescribeProducers, the data, the marker and the question for it name the producer id.
    abort = EXPECTED["aborts"][1]
    apis = Counter(e.api for e in selected(producer_ids=(abort["producer_id"],), topics=(abort["topic"],)))
    assert {"Produce", "WriteTxnMarkers", "DescribeProducers"} <= set(apis)
    assert apis["WriteTxnMarkers"] == 1
    assert {e.api for e in selected(transactional_ids=("payments-archiver",))} >= {"InitProducerId", "EndTxn"}
    assert selected(transactional_ids=("no-such-id",)) == []


def test_a_topic_that_is_named_by_its_id_is_found_once_its_id_was_told() -> None:
    topic_id = UUID(int=7)
    talk = Talk()
    fetch = FetchRequest(topics=(FetchTopic(topic_id=topic_id),))
    topics = (MetadataResponseTopic(name="orders", topic_id=topic_id), MetadataResponseTopic(name="other"))
    for number, (request, version, response) in enumerate(
        (
            (fetch, 13, FetchResponse()),
            (MetadataRequest(), 12, MetadataResponse(topics=topics)),
            (fetch, 13, FetchResponse()),
            (FetchRequest(topics=(FetchTopic(topic_id=UUID(int=8)),)), 13, FetchResponse()),
        )
    ):
        talk.request(request, version=version, correlation_id=number)
        talk.response(response, version=version, correlation_id=number)
    data = BytesIO(pcap(map(ethernet, talk.packets)))
    found = capture.read(data, selection=Selection(topics=("orders",)))
    assert [e.correlation_id for e in found] == [1, 2]


def test_subjects_are_those_of_the_version() -> None:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id="t", producer_id=5, topics=(AddPartitionsToTxnTopic(name="orders", partitions=(0,)),)
    )
    found = Subjects().add(AddPartitionsToTxnRequest(transactions=(transaction,)), 5)
    # Producer id 0 is what V3AndBelowProducerId holds when nobody has set it.
    assert (found.topics, found.transactional_ids, found.producer_ids) == ({"orders"}, {"t"}, {5})
    batch = records.build([records.Record(b"k", b"v")], producer_id=9, producer_epoch=0, base_sequence=0)
    assert Subjects().add(produce(-1, batch + b"garbage"), 9).producer_ids == {9}
    assert Subjects().add(WriteTxnMarkersRequest(markers=(WritableTxnMarker(producer_id=3),)), 1).producer_ids == {3}
    assert Subjects().add(ApiVersionsRequest(), 3) == Subjects()


# --- timelines


def timeline(who: str) -> list[tuple[str | None, str | None]]:
    return [(step.api, step.what) for step in steps(capture.read(PCAP, keep=True).matched(), who)]


def test_what_a_producer_did_in_order_and_over_all_connections() -> None:
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


def test_a_group_that_commits_offsets_in_a_transaction() -> None:
    said = dict(timeline("shipments-service"))
    assert said["AddOffsetsToTxn"] == "group shipments"
    assert str(said["TxnOffsetCommit"]).startswith("group shipments: orders-0 @ ")


def test_nobody() -> None:
    assert timeline("nobody") == []
    assert timeline("9" * 30) == []


# --- statistics


def test_statistics_of_the_example(whole: list[Exchange]) -> None:
    statistics = Statistics()
    for row in whole:
        statistics.add(row)
    found = list(statistics.rows())
    assert sum(row.count for row in found) == len(whole)
    assert sum(row.request_bytes for row in found) == sum(e.request_bytes or 0 for e in whole)
    assert sum((Counter(row.errors) for row in found), Counter()) == sum((Counter(e.errors) for e in whole), Counter())
    assert [row.count for row in found] == sorted((row.count for row in found), reverse=True)
    for row in found:
        mine = sorted(
            e.latency_ms for e in whole if e.latency_ms is not None
            and (e.api, e.version, e.client_id) == (row.api, row.version, row.client_id)
        )  # fmt: skip
        assert row.latency_max_ms == (mine[-1] if mine else None)
        for share, told in ((0.5, row.latency_p50_ms), (0.95, row.latency_p95_ms), (0.99, row.latency_p99_ms)):
            if mine:
                exact = mine[max(0, -(-len(mine) * share // 1).__int__() - 1)]
                assert told == pytest.approx(exact, rel=0.011, abs=1e-3)


def test_unanswered_and_undecoded_exchanges_are_told_apart() -> None:
    statistics = Statistics()
    statistics.add(Exchange(api="Fetch", version=12, problem=NO_RESPONSE))
    statistics.add(Exchange(api="Fetch", version=12, problem="response: torn", latency_ms=1.0))
    statistics.add(Exchange(api="Fetch", version=12, latency_ms=0.0))
    (row,) = statistics.rows()
    assert (row.count, row.unanswered, row.problems, row.latency_p50_ms, row.latency_max_ms) == (3, 1, 1, 0.001, 1.0)


def test_a_packet_costs_the_same_however_many_connections_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = 0
    tick = Stream.tick

    def counted(stream: Stream) -> Any:
        nonlocal ticks
        ticks += 1
        return tick(stream)

    monkeypatch.setattr(Stream, "tick", counted)
    packets = [p for n in range(300) for p in ask(Talk(("10.1.0.1", 1000 + n), ("10.0.0.2", 9092)), n).packets]
    reading = capture.read(BytesIO(pcap(map(ethernet, packets))))
    assert len(list(reading)) == 300
    assert dict(reading.summary.connections) == {"kafka": 300}
    assert 0 < ticks <= 2 * len(packets)  # both directions of its own connection, unless it is in a lane
