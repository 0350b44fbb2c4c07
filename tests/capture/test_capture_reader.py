"""From a file to exchanges: rows, their order, other protocols, and connections that are over."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

from kafkawire import capture, records
from kafkawire.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ProduceResponse,
)
from kafkawire.messages.describe_producers_request import TopicRequest
from kafkawire.messages.describe_producers_response import PartitionResponse, TopicResponse
from kafkawire.rows import to_dict
from tests.capture.wiretap import (
    BROKER,
    START_NS,
    Conversation,
    answer,
    ask,
    asked,
    brief,
    ethernet,
    exchanges,
    pcap,
    pcapng,
    produce,
    question,
)

# Whole conversations -------------------------------------------------------------------------------------------------


def test_yields_an_exchange_with_all_fields() -> None:
    missing = PartitionResponse(partition_index=0, error_code=3), PartitionResponse(partition_index=1, error_code=3)
    response = DescribeProducersResponse(topics=(TopicResponse(name="t", partitions=missing),))
    request = DescribeProducersRequest(topics=(TopicRequest(name="t", partition_indexes=(0, 1)),))
    talk = Conversation().request(request, version=0, correlation_id=7).response(response, version=0, correlation_id=7)
    (exchange,) = exchanges(talk)
    assert to_dict(exchange) == {
        "time": "2023-11-14T22:13:20.003000Z",
        "time_ns": START_NS + 3_000_000,
        "response_time_ns": START_NS + 4_000_000,
        "file": "-",
        "connection": 1,
        "client": "10.0.0.1:40000",
        "broker": "10.0.0.2:9092",
        "api": "DescribeProducers",
        "api_key": 61,
        "version": 0,
        "correlation_id": 7,
        "client_id": "tests",
        "latency_ms": 1.0,
        "request_bytes": 30,
        "response_bytes": 33,
        "packet": 4,
        "response_packet": 5,
        "errors": {"UNKNOWN_TOPIC_OR_PARTITION": 2},
        "problem": None,
        "note": None,
    }
    (with_bodies,) = exchanges(talk, body=True)
    assert with_bodies.request == {"topics": [{"name": "t", "partitionIndexes": [0, 1]}]}
    assert with_bodies.response["topics"][0]["partitions"][1]["errorCode"] == 3  # type: ignore[index]


def test_reads_a_file_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(map(ethernet, ask(Conversation(), 1).packets)))
    found = capture.read(path)
    (exchange,) = found
    assert exchange.file == str(path)
    assert found.summary.packets == 5
    assert dict(found.summary.connections) == {"kafka": 1}
    assert (found.summary.exchanges, found.summary.problems.total()) == (1, 0)


def test_formats_and_link_types_give_the_same_exchanges() -> None:
    packets = ask(ask(Conversation(), 1), 2).packets
    wanted = exchanges(packets)
    assert list(capture.read(BytesIO(pcapng(map(ethernet, packets))))) == wanted
    cooked = [bytes(14) + b"\x08\x00" + packet for packet in packets]
    for data in (
        pcap(packets, link_type=101),
        pcap(cooked, link_type=113, order=">", nanoseconds=True),
        pcap([b"\x08\x00" + bytes(18) + p for p in packets], link_type=276),
        pcap([b"\x02\0\0\0" + p for p in packets], link_type=0),
    ):
        assert list(capture.read(BytesIO(data))) == wanted


def test_reads_frames_over_many_segments_and_many_in_one() -> None:
    for mss in (1, 7, 40, 100_000):
        talk = Conversation(mss=mss)
        talk.request(produce(-1, records.build([records.Record(b"x" * 500)])), version=9, correlation_id=1)
        talk.response(ProduceResponse(), version=9, correlation_id=1)
        ask(talk, 2)
        found = exchanges(talk)
        assert [(e.api, e.correlation_id, e.problem) for e in found] == [("Produce", 1, None), ("ApiVersions", 2, None)]
        assert found[0].packet == 4


def test_yields_exchanges_in_the_order_of_first_packets() -> None:
    slow, fast = Conversation(("10.0.0.8", 1), BROKER), Conversation(("10.0.0.9", 2), BROKER)
    question(slow, 1)
    packets = slow.packets[:]
    packets += ask(ask(fast, 5), 6).packets
    del slow.packets[:]
    packets += answer(slow, 1).packets
    found = exchanges(packets)
    assert [e.correlation_id for e in found] == [1, 5, 6]
    assert [e.connection for e in found] == [1, 2, 2]
    # A request that takes many segments begins where its first byte is.
    large = Conversation(("10.0.0.8", 1), BROKER, mss=50).request(produce(-1), version=9, correlation_id=9)
    mixed = large.packets[:5] + ask(Conversation(("10.0.0.9", 2), BROKER), 5).packets + large.packets[5:]
    assert [(e.api, e.packet) for e in exchanges(mixed)] == [("Produce", 4), ("ApiVersions", 9)]


def test_live_output_does_not_wait_for_a_long_poll() -> None:
    poll, other = question(Conversation(), 1), Conversation(client=("10.0.0.3", 1))
    for number in range(2, 6):
        ask(other, number)
    packets = [*poll.packets, *other.packets, *answer(poll, 1).packets[-1:]]
    file = pcap(map(ethernet, packets), step_ns=400_000_000)
    assert [e.correlation_id for e in capture.read(BytesIO(file))] == [1, 2, 3, 4, 5]
    assert [e.correlation_id for e in capture.read(BytesIO(file), live=True)] == [2, 3, 4, 5, 1]


def test_reused_ports_are_another_connection() -> None:
    first = ask(Conversation(), 1).close()
    again = ask(Conversation(client_seq=90_000, broker_seq=70), 1)
    found = exchanges(first.packets + again.packets)
    assert brief(found) == asked(1, 1)
    assert [e.connection for e in found] == [1, 2]
    repeated_syn = exchanges([first.packets[0], *first.packets])
    assert brief(repeated_syn) == asked(1)


# Not Kafka -----------------------------------------------------------------------------------------------------------


def test_forgets_a_connection_that_is_over_and_accepts_its_ports_again() -> None:
    conversations = []
    for number in range(5):
        talk = Conversation(client_seq=1000 * number)
        ask(talk, number)
        conversations += talk.close().packets
        talk.acknowledge(0)
        conversations += talk.packets[-1:]  # the last acknowledgment, after both ends have closed
    reading = capture.read(BytesIO(pcap(map(ethernet, conversations))))
    found = []
    most = 0
    for exchange in reading:
        found.append(exchange)
        most = max(most, reading.tracker.open)
    assert brief(found) == asked(*range(5))
    assert [e.connection for e in found] == [1, 2, 3, 4, 5]
    assert dict(reading.summary.connections) == {"kafka": 5}
    assert most <= 1


def test_keeps_data_after_the_end_of_a_connection() -> None:
    talk = Conversation()
    ask(talk, 1)
    talk.close()
    talk.next = [talk.next[0] - 1, talk.next[1] - 1]
    for number in range(2, 5):
        ask(talk, number)
    found = capture.read(BytesIO(pcap(map(ethernet, talk.packets))))
    assert [number for _, number, whole, _ in brief(found) if whole] == [1, 2, 3, 4]
