"""Captures with lost, duplicated or swapped packets, and damaged or crafted captures."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from contextlib import suppress
from io import BytesIO
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kafkawire import capture, records
from kafkawire.capture import memory_limits
from kafkawire.capture.matcher import NO_REQUEST, NO_RESPONSE
from kafkawire.capture.tcp_stream import PATIENCE
from kafkawire.errors import CaptureError
from kafkawire.frames import encode_request
from kafkawire.messages import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkawire.rows import Exchange
from tests.capture.wiretap import (
    ACK,
    BROKER,
    CLIENT,
    SYN,
    Conversation,
    ask,
    asked,
    brief,
    ethernet,
    exchanges,
    pcap,
    produce,
    question,
    tcp,
)

# Packets lost, doubled, swapped --------------------------------------------------------------------------------------


def conversation() -> Conversation:
    talk = Conversation(mss=60)
    for number in range(30):
        ask(talk, number) if number % 3 else talk.request(MetadataRequest(), version=9, correlation_id=number).response(
            MetadataResponse(cluster_id="c" * 100), version=9, correlation_id=number
        )
    return talk


WHOLE = conversation()
WANTED = brief(exchanges(WHOLE))


@pytest.mark.slow
def test_duplicated_and_swapped_packets_change_no_exchange() -> None:
    packets = WHOLE.packets
    doubled = [packet for packet in packets for _ in range(2)]
    assert brief(exchanges(doubled)) == WANTED
    for i in range(3, len(packets) - 1):
        swapped = [*packets[:i], packets[i + 1], packets[i], *packets[i + 2 :]]
        assert sorted(brief(exchanges(swapped)), key=lambda b: b[1]) == sorted(WANTED, key=lambda b: b[1])


@pytest.mark.parametrize("before", [1, 2, 3, 49, 50, 51, 52, 100, 517, 1000])
def test_sequence_numbers_may_wrap(before: int) -> None:
    first = 2**32 - before
    talk = Conversation(client_seq=first, broker_seq=first + 17, mss=50)
    for number in range(20):
        ask(talk, number)
    assert brief(exchanges(talk)) == asked(*range(20))


@pytest.mark.slow
@pytest.mark.parametrize("lost", range(3, len(WHOLE.packets)))
def test_a_lost_packet_is_reported_and_costs_three_exchanges_at_most(lost: int) -> None:
    found = exchanges([*WHOLE.packets[:lost], *WHOLE.packets[lost + 1 :]])
    problems = [e for e in found if e.problem]
    assert problems
    whole = [b for b in brief(found) if b[3] is None]
    assert set(whole) <= set(WANTED)
    # The patience with a hole does not hide what follows.
    assert len(whole) >= len(WANTED) - 3
    if lost < len(WHOLE.packets) - 4:
        assert any("missing in the capture" in str(e.problem) for e in problems)


@pytest.mark.parametrize("start", range(3, 60))
def test_counts_bytes_before_the_first_frame_of_a_connection_from_before_the_capture(start: int) -> None:
    reading = capture.read(BytesIO(pcap(map(ethernet, WHOLE.packets[start:]))))
    found = list(reading)
    assert [row.problem for row in found if row.problem] == []
    assert set(brief(found)) <= set(WANTED)
    assert len(found) >= len(WANTED) - start // 2 - 2
    in_frames = sum((row.request_bytes or 0) + (row.response_bytes or 0) + 8 for row in found)
    assert reading.summary.joined_bytes == reading.summary.bytes["kafka"] - in_frames
    assert reading.summary.joined == bool(reading.summary.joined_bytes)


@pytest.mark.parametrize("lost", [5, 6, *range(8, 34)])
def test_reports_a_hole_in_a_connection_from_before_the_capture(lost: int) -> None:
    """The capture begins within a response. Any packet but the client's first one is lost."""
    found = exchanges([*WHOLE.packets[4:lost], *WHOLE.packets[lost + 1 :]])
    assert any("missing in the capture" in str(row.problem) for row in found)


def test_a_response_before_its_request_counts_where_the_capture_begins_with_them() -> None:
    request, response, *others = ask(ask(Conversation(handshake=False), 1), 2).packets
    assert brief(exchanges([response, request, *others])) == asked(1, 2)


def test_reports_requests_before_the_first_packet_of_their_direction_in_a_joined_connection() -> None:
    """The packets of two requests are swapped where the capture begins."""
    first, second, *others = question(question(Conversation(handshake=False), 1), 2).packets
    found = exchanges([second, first, *others])
    assert [row.problem for row in found] == [
        NO_RESPONSE,
        "from the client: 19 bytes from before the first ones captured",
    ]


def test_finds_frames_of_several_packets_after_a_hole_that_shows_at_the_end() -> None:
    talk = Conversation(mss=100)
    for number in range(4):
        talk.request(MetadataRequest(), version=9, correlation_id=number)
        talk.response(MetadataResponse(cluster_id="c" * 250), version=9, correlation_id=number)
    assert brief(exchanges([*talk.packets[:4], *talk.packets[5:]])) == [
        ("Metadata", 0, False, NO_RESPONSE),
        (None, None, False, "from the broker: 100 bytes are missing in the capture"),
        (None, None, False, "from the broker: 176 bytes that belong to no known frame"),
        *(("Metadata", number, True, None) for number in (1, 2, 3)),
    ]


def test_reports_bytes_that_are_no_frame_in_a_connection_from_before_the_capture() -> None:
    talk = ask(Conversation(handshake=False).send(0, bytes(7)), 1).send(0, b"\xff\xff\xff\xf0garbage that is no frame")
    reading = capture.read(BytesIO(pcap(map(ethernet, ask(talk, 2).packets))))
    problems = [row.problem for row in reading if row.problem]
    assert problems[1] == "from the client: 28 bytes that belong to no known frame"
    assert (reading.summary.joined, reading.summary.joined_bytes) == (1, 7)


def test_a_connection_that_continues_after_its_end_does_not_count_as_joined() -> None:
    talk = ask(Conversation(), 1).close().send(0, b"the end of a frame")
    reading = capture.read(BytesIO(pcap(map(ethernet, ask(talk, 2).packets))))
    assert [row.problem for row in reading if row.problem] == [
        "from the client: 18 bytes that belong to no known frame"
    ]
    assert reading.summary.joined == 0


def test_a_dropped_connection_that_continues_does_not_count_as_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "MOST_OPEN", 1)
    frame = encode_request(ApiVersionsRequest(), version=0, correlation_id=2, client_id="tests")
    talk = ask(Conversation(), 1).send(0, frame[:9])
    others = [ask(Conversation(("10.0.0.3", 1000 + number)), 1).packets for number in range(3)]
    packets = [*talk.packets, *(packet for other in others for packet in other)]
    before = len(talk.packets)
    talk.send(0, frame[9:])
    reading = capture.read(BytesIO(pcap(map(ethernet, [*packets, *ask(talk, 3).packets[before:]]))))
    problems = [row.problem for row in reading if row.problem]
    assert f"from the client: {len(frame) - 9} bytes that belong to no known frame" in problems
    assert reading.summary.joined == 0


def test_finds_requests_in_a_frame_without_an_end_in_a_limited_number_of_searches() -> None:
    """Each follows a frame with a wrong size. The bytes of those not found are reported."""
    wrong = bytearray(encode_request(MetadataRequest(), version=9, correlation_id=99, client_id="wrong"))
    wrong[1] = 1  # 64 KiB more
    asked = [encode_request(ApiVersionsRequest(), version=0, correlation_id=i, client_id="right") for i in range(20)]
    hidden = b"".join(bytes(wrong) + request for request in asked)
    found = exchanges(Conversation().send(0, hidden))
    requests = [row for row in found if row.api is not None]
    assert [row.correlation_id for row in requests] == list(range(16))
    reported = [
        re.search(r"from the client: (\d+) bytes that belong to no known frame", row.problem or "") for row in found
    ]
    lost = [int(one[1]) for one in reported if one]
    assert lost == [len(wrong)] * 16 + [len(hidden) - 16 * len(wrong) - sum(map(len, asked[:16]))]


def test_reads_the_complete_exchanges_of_a_shortened_capture() -> None:
    for end in range(4, 60):
        found = exchanges(WHOLE.packets[:end])
        whole = [b for b in brief(found) if b[3] is None]
        assert whole == WANTED[: len(whole)]
        if len(whole) * 2 < end - 3 and end < 12:
            assert any(e.problem for e in found) or len(found) == len(whole)


def test_reads_captures_of_one_direction() -> None:
    client_only = [p for i, p in enumerate(WHOLE.packets) if p[12:16] == b"\x0a\0\0\x01"]
    found = exchanges(client_only)
    assert [e.correlation_id for e in found] == list(range(30))
    assert {e.problem for e in found} == {NO_RESPONSE}
    broker_only = [p for p in WHOLE.packets if p[12:16] == b"\x0a\0\0\x02"]
    found = exchanges(broker_only)
    assert [(e.correlation_id, e.request_bytes, e.api) for e in found] == [(number, None, None) for number in range(30)]
    assert {e.problem for e in found} == {NO_REQUEST}


def test_a_hole_within_a_large_request_costs_that_request_only() -> None:
    talk = Conversation(mss=100)
    ask(talk, 1)
    start = len(talk.packets)
    talk.request(produce(-1, records.build([records.Record(bytes(3000))])), version=9, correlation_id=2)
    talk.acknowledge(1)
    talk.response(ProduceResponse(), version=9, correlation_id=2)
    for number in range(3, 3 + PATIENCE):
        ask(talk, number)
    found = exchanges([*talk.packets[: start + 5], *talk.packets[start + 6 :]])
    whole = [b for b in brief(found) if b[3] is None]
    assert whole == asked(1, *range(3, 3 + PATIENCE))
    (cut,) = (e for e in found if e.problem)
    size = cut.request_bytes
    assert cut.problem == f"request: 100 of its {size} bytes are missing in the capture"
    assert size is not None
    assert size > 3000
    assert (cut.api, cut.version, cut.correlation_id, cut.client_id) == ("Produce", 9, 2, "tests")
    assert cut.response_bytes is not None
    assert cut.latency_ms is not None


def test_reads_request_headers_from_truncated_packets() -> None:
    """`tcpdump -s 128`: rows have the header fields, and a problem about the missing bytes."""
    talk = Conversation(mss=1000)
    data = records.build([records.Record(bytes(3000))])
    for number in range(1, 8):
        talk.request(produce(-1, data), version=9, correlation_id=number)
        talk.acknowledge(1)
        talk.response(ProduceResponse(), version=9, correlation_id=number)
    whole = exchanges(talk)
    for kept in (20 + 20 + 30, 200):
        found = exchanges([packet[:kept] for packet in talk.packets])
        assert [replace(row, problem=None) for row in found] == whole
        for row in found:
            assert re.fullmatch(r"request: \d+ of its 31\d\d bytes are missing in the capture", str(row.problem))


@pytest.mark.parametrize("version", ProduceRequest.spec.valid_versions)
def test_a_truncated_produce_shows_whether_it_has_a_response(version: int) -> None:
    """The acks precede the records. If they were cut off too, a response is waited for."""
    data = records.build([records.Record(bytes(1000))])
    reported = []
    for acks in (0, 1):
        request = ProduceRequest(acks=acks, topic_data=produce(acks, data).topic_data)
        for kept in (4 + 14, 4 + 30):
            talk = ask(Conversation(), 0)
            start = len(talk.packets)
            talk.request(request, version=version, correlation_id=1)
            cut = [*talk.packets[:start], talk.packets[start][: 40 + kept]]
            talk.packets.clear()
            for number in (2, 3):
                ask(talk, number)
            (row,) = (row for row in exchanges([*cut, *talk.packets]) if row.correlation_id == 1)
            assert (row.api, row.version) == ("Produce", version)
            assert "are missing in the capture" in str(row.problem)
            reported.append(NO_RESPONSE in str(row.problem))
    assert reported == [True, False, True, True]


def test_counts_both_holes_of_a_frame() -> None:
    talk = Conversation(mss=100)
    start = len(talk.packets)
    talk.request(produce(-1, records.build([records.Record(bytes(3000))])), version=9, correlation_id=2)
    talk.acknowledge(1)
    talk.response(ProduceResponse(), version=9, correlation_id=2)
    for number in range(3, 3 + 2 * PATIENCE):
        ask(talk, number)
    lost = {start + 5, start + 9, start + 10}
    found = exchanges([packet for place, packet in enumerate(talk.packets) if place not in lost])
    assert [e.problem and e.problem[:29] for e in found if e.problem] == ["request: 300 of its 3106 bytes"[:29]]
    assert [e.correlation_id for e in found] == [2, *range(3, 3 + 2 * PATIENCE)]


def test_reports_a_frame_with_a_hole_and_without_an_end() -> None:
    talk = ask(Conversation(mss=100), 1)
    start = len(talk.packets)
    talk.request(produce(-1, records.build([records.Record(bytes(3000))])), version=9, correlation_id=2)
    found = exchanges([*talk.packets[: start + 5], *talk.packets[start + 6 : start + 20]])
    assert [b for b in brief(found) if b[3] is None] == asked(1)
    assert [e.problem for e in found if e.problem] == [
        "from the client: 100 bytes are missing in the capture",
        "from the client: 1900 bytes of a frame that is not whole",
    ]


def test_finds_frames_behind_a_hole_across_the_end_of_a_frame() -> None:
    """The next frame's beginning is not known, and is searched for."""
    talk = ask(Conversation(mss=100), 1)
    start = len(talk.packets)
    talk.request(produce(-1, records.build([records.Record(bytes(500))])), version=9, correlation_id=2)
    end = len(talk.packets)
    talk.acknowledge(1)
    for number in range(3, 3 + PATIENCE + 2):
        ask(talk, number)
    found = exchanges([p for place, p in enumerate(talk.packets) if place not in (start + 2, end - 1, end + 1)])
    assert sum("are missing in the capture" in str(e.problem) for e in found) == 1
    assert [b for b in brief(found) if b[3] is None][-PATIENCE:] == asked(*range(5, 5 + PATIENCE))


def test_reports_and_skips_bytes_that_are_no_frame() -> None:
    talk = ask(Conversation(), 1).send(0, b"\xff\xff\xff\xf0garbage that is no frame")
    ask(talk, 2)
    found = exchanges(talk)
    assert [b for b in brief(found) if b[3] is None] == asked(1, 2)
    problems = [e.problem for e in found if e.problem]
    assert len(problems) == 2
    assert "bytes that are no frame (the size of a frame" in str(problems[0])
    assert problems[1] == "from the client: 28 bytes that belong to no known frame"


def test_finds_frames_behind_a_size_that_is_too_large() -> None:
    talk = ask(Conversation(), 1)
    start = len(talk.packets)
    for number in range(2, 6):
        ask(talk, number)
    for place in (start, start + 1):  # a request, a response
        packets = list(talk.packets)
        packets[place] = packets[place][:40] + b"\0\x02\0\0" + packets[place][44:]
        found = exchanges(packets)
        assert [b for b in brief(found) if b[3] is None] == asked(1, 3, 4, 5)
        assert sum("that belong to no known frame" in str(e.problem) for e in found) == 1


def test_counts_bytes_that_precede_the_first_captured_ones() -> None:
    packets = WHOLE.packets[3:]
    reading = capture.read(BytesIO(pcap(map(ethernet, [packets[0], packets[2], packets[1], *packets[3:]]))))
    early = "from the broker: 60 bytes from before the first ones captured"
    assert {row.problem for row in reading} <= {None, NO_RESPONSE, early}
    assert reading.summary.joined_bytes == 65  # the rest of the first response


def test_reports_truncated_packets() -> None:
    cut = [packet[:90] for packet in WHOLE.packets]
    found = exchanges([*WHOLE.packets[:5], *cut[5:7], *WHOLE.packets[7:]])
    assert any("missing in the capture" in str(e.problem) for e in found)
    assert len([b for b in brief(found) if b[3] is None]) >= len(WANTED) - 3


# Damaged files -------------------------------------------------------------------------------------------------------


def test_reads_a_truncated_file_up_to_its_end() -> None:
    data = pcap(map(ethernet, ask(ask(Conversation(), 1), 2).packets))
    found = capture.read(BytesIO(data[:-5]))
    listed = list(found)
    assert brief(listed)[0] == asked(1)[0]
    assert listed[-1].problem is not None
    assert listed[-1].problem.startswith("the file is damaged after packet 6: at byte ")
    assert found.summary.damage is not None


def test_rejects_a_file_that_is_no_capture() -> None:
    with pytest.raises(CaptureError, match="expected a pcap or pcapng file, found an empty file"):
        list(capture.read(BytesIO(b"")))
    assert list(capture.read(BytesIO(pcap([])))) == []


@pytest.mark.slow
@given(st.data())
def test_mutated_captures_raise_capture_errors_only(data: st.DataObject) -> None:
    """Bytes changed at any layer: no other exception, and exchanges before the damage are unchanged."""
    whole = bytearray(pcap(map(ethernet, WHOLE.packets)))
    first = data.draw(st.integers(24, len(whole) - 1))
    for place in [first, *data.draw(st.lists(st.integers(first, len(whole) - 1), max_size=5))]:
        whole[place] = data.draw(st.integers(0, 255))
    found: list[Exchange] = []
    with suppress(CaptureError):  # when the first packet is damaged already
        found.extend(capture.read(BytesIO(bytes(whole)), body=True, records=True))
    ends = accumulate((16 + 14 + len(packet) for packet in WHOLE.packets), initial=24)
    untouched = bisect_right(list(ends), first) - 1  # packets before the first changed one
    most = 3  # packets of one response
    before = [e for e in exchanges(WHOLE, body=True, records=True) if (e.response_packet or 0) + most <= untouched]
    assert [e for e in found if e in before] == before


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2**32 - 1), st.integers(0, 31), st.binary(max_size=30))))
def test_arbitrary_segments_raise_nothing(segments: list[tuple[int, int, int, bytes]]) -> None:
    ends = (CLIENT, BROKER)
    packets = [tcp(ends[side], ends[1 - side], seq, 0, flags, data) for side, seq, flags, data in segments]
    exchanges(packets)


@pytest.mark.slow
def test_cost_of_a_crafted_connection_does_not_grow_with_their_number() -> None:
    def calls(connections: int) -> int:
        """Calls of functions, in Python and in C, that reading takes: work, whatever the machine is doing."""
        packets = [
            tcp((f"10.1.{i >> 8}.{i & 255}", 1000), BROKER, 5, 0, flags, data)
            for i in range(connections)
            for flags, data in ((SYN, b""), (ACK, b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff\0"))
        ]
        seen = 0

        def count(frame: object, event: str, argument: object) -> None:
            nonlocal seen
            seen += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            found = exchanges(packets)
        finally:
            sys.setprofile(None)
        # The data begins a byte ahead of the SYN's next one: that byte is dropped, the rest is no request.
        assert found == []
        return seen

    few, many = calls(300), calls(3000)
    assert few > 300
    assert many < 11 * few


def test_recognizes_tls_in_swapped_packets() -> None:
    """Held segments after it are not examined either."""
    talk = Conversation(mss=30).send(0, b"\x16\x03\x01\0\xc8\1" + bytes(90))
    *handshake, first, second, third, fourth = talk.packets
    reading = capture.read(BytesIO(pcap(map(ethernet, [*handshake, second, third, first, fourth]))))
    assert list(reading) == []
    assert reading.summary.connections == {"tls": 1}


def test_the_search_for_frames_in_remaining_bytes_ends() -> None:
    """Many wrong sizes, each of which covers the next."""
    talk = ask(Conversation(), 1)
    start = len(talk.packets)
    for number in range(2, 60):
        question(talk, number)
    packets = [p if place < start else p[:40] + b"\0\x02\0\0" + p[44:] for place, p in enumerate(talk.packets)]
    found = exchanges(packets)
    assert brief(found)[0] == asked(1)[0]
    assert sum(row.request_bytes or 0 for row in found) == found[0].request_bytes
    reported = [int(number) for row in found[1:] for number in re.findall(r"(\d+) bytes", str(row.problem))]
    assert sum(reported) == sum(len(packet) - 40 for packet in packets[start:])
