"""Memory is bounded for any content of a capture: the native engine drops data and reports it, pure Python stops."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from io import BytesIO

import pytest

from kafkawire import capture
from kafkawire.capture import Exchanges, ExchangeSelection, UnreadPart, memory_limits, read_packets, reader
from kafkawire.capture.exchange import ReadOptions
from kafkawire.errors import BackendError
from kafkawire.messages import MetadataRequest
from kafkawire.rows import Exchange
from kafkawire.wire.backend import native
from tests.capture.wiretap import (
    BROKER,
    FIN,
    RST,
    SYN,
    Conversation,
    answer,
    ask,
    asked,
    brief,
    ethernet,
    pcap,
    produce,
    question,
    tcp,
)

MOST, EVERY = 40_000, 5_000
LET_GO = "let go before its response came: too much was held in memory"

pytestmark = pytest.mark.skipif(native is None, reason="the native engine is not in use")


@pytest.fixture(autouse=True)
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_limits, "MOST_HELD", MOST)
    monkeypatch.setattr(memory_limits, "EVERY_BYTES", EVERY)
    monkeypatch.setattr(memory_limits, "MOST_OPEN", 50)


def most_held(packets: list[bytes], options: ReadOptions = ReadOptions()) -> tuple[int, int, list[Exchange]]:  # noqa: B008
    """The most memory of all connections after a packet, the most connections, and the rows."""
    data = BytesIO(pcap(map(ethernet, packets)))
    most = open_ = 0

    def watched(unread: Callable[[UnreadPart], None], _: object) -> Iterator[capture.Packet]:
        nonlocal most, open_
        for packet in read_packets(data, unread):
            yield packet
            most = max(most, reading.tracker.held)
            open_ = max(open_, reading.tracker.open)

    reading = Exchanges(watched, "-", options, ExchangeSelection(), engine=native)
    rows = list(reading)
    carried = sum(size + 4 for row in rows for size in (row.request_bytes, row.response_bytes) if size is not None)
    assert carried <= reading.summary.bytes["kafka"]
    return most, open_, rows


def test_memory_of_unanswered_requests_is_bounded() -> None:
    talk = Conversation()
    for number in range(300):
        talk.request(MetadataRequest(), version=9, correlation_id=number)
    most, _, rows = most_held(talk.packets)
    assert most <= MOST + EVERY * 40  # a row weighs more than its few bytes on the wire
    assert [row.correlation_id for row in rows] == list(range(300))
    assert LET_GO in {row.problem for row in rows}


@pytest.mark.parametrize("options", [ReadOptions(keep=True), ReadOptions(body=True)])
def test_memory_of_large_unanswered_requests_is_bounded(options: ReadOptions) -> None:
    packets = []
    for number in range(30):
        talk = ask(Conversation(client=("10.0.0.1", 40000 + number)), 1)
        packets += talk.request(produce(-1, bytes(3000)), version=9, correlation_id=2).packets
    most, _, rows = most_held(packets, options)
    assert most <= MOST + 12 * (EVERY + 3100)
    assert sum(row.problem == LET_GO for row in rows) > 10
    assert {row.request_bytes for row in rows if row.problem == LET_GO} >= {3036}


def test_memory_of_frames_without_an_end_is_bounded() -> None:
    packets = []
    for number in range(30):
        talk = ask(Conversation(client=("10.0.0.1", 40000 + number)), 1)
        packets += talk.send(0, b"\0\x10\0\0" + bytes(4000)).packets
    most, _, rows = most_held(packets)
    assert most <= MOST + EVERY + 4004
    reported = [str(row.problem) for row in rows]
    assert sum("too much is held in memory" in problem for problem in reported) > 5
    assert sum("4004 bytes" in problem for problem in reported) == 30


def test_memory_of_data_behind_holes_is_bounded() -> None:
    packets = []
    for number in range(30):
        talk = ask(Conversation(client=("10.0.0.1", 40000 + number), mss=1000), 1)
        talk.next[0] += 10
        packets += talk.send(0, random.Random(number).randbytes(4000)).packets
    most, _, rows = most_held(packets)
    assert most <= MOST + EVERY + 1000
    assert sum("10 bytes are missing in the capture" in str(row.problem) for row in rows) == 30


def test_finds_frames_after_memory_was_freed() -> None:
    talk = ask(Conversation(), 1).send(0, b"\0\x10\0\0" + bytes(MOST + 2 * EVERY))
    for number in range(2, 40):
        ask(talk, number)
    _, _, rows = most_held(talk.packets)
    assert [b for b in brief(rows) if b[3] is None][-30:] == asked(*range(10, 40))


@pytest.mark.slow
def test_number_of_open_connections_is_bounded() -> None:
    conversations = [question(Conversation(client=("10.0.0.1", 40000 + number)), number) for number in range(200)]
    packets = [packet for talk in conversations for packet in talk.packets]
    _, most, rows = most_held(packets)
    assert most <= 51
    assert [row.correlation_id for row in rows] == list(range(200))


@pytest.mark.parametrize("flags", [(FIN, FIN), (RST,)])
def test_connections_that_are_not_decoded_end(flags: tuple[int, ...]) -> None:
    packets = []
    for number in range(40):
        ends = (("10.0.0.1", 40000 + number), BROKER)
        packets.append(tcp(*ends, 1, 0, SYN, b""))
        packets.append(tcp(*ends, 2, 0, 0, b"\x16\x03\x01 a client's hello"))
        for side, flag in enumerate(flags):
            packets.append(tcp(ends[side], ends[1 - side], 99, 0, flag, b""))
    _, most, _ = most_held(packets)
    assert most == 1
    reading = capture.read(BytesIO(pcap(map(ethernet, packets))))
    list(reading)
    assert dict(reading.summary.connections) == {"tls": 40}


def test_undecided_connections_free_memory() -> None:
    packets = []
    for number in range(30):
        ends = (("10.0.0.1", 40000 + number), BROKER)
        packets.append(tcp(*ends, 1, 0, SYN, b""))
        packets.append(tcp(*ends, 2, 0, 0, b"\0\x10\0\0\0\x12\0\0" + bytes(2)))  # the beginning of a request
        packets.append(tcp(*ends, 100, 0, 0, bytes(3000)))  # behind a hole
    most, _, rows = most_held(packets)
    assert most <= MOST + EVERY + 3010
    assert rows == []


def read_in_python(packets: list[bytes]) -> tuple[list[int | None], str]:
    """By pure Python: the correlation ids of the rows until it stops, and why it does."""
    data = BytesIO(pcap(map(ethernet, packets)))
    reading = Exchanges(lambda unread, _: read_packets(data, unread), "-", ReadOptions(), ExchangeSelection())
    rows = []
    with pytest.raises(BackendError) as stopped:
        rows.extend(row.correlation_id for row in reading)  # `extend` keeps what came before the error
    return rows, str(stopped.value)


def test_pure_python_stops_where_too_much_is_held() -> None:
    talk = ask(ask(Conversation(), 1), 2)
    for number in range(3, 300):
        talk.request(MetadataRequest(), version=9, correlation_id=number)
    rows, why = read_in_python(talk.packets)
    assert rows == [1, 2]
    assert re.fullmatch(r"packet \d+: data that waits takes more than 40,000 bytes: pure Python .*", why)


def test_pure_python_stops_where_exchanges_wait_for_an_open_one() -> None:
    """Many complete exchanges, too, are memory."""
    talk = question(Conversation(("10.0.0.3", 1024)), 1)
    other = Conversation()
    for number in range(2, 300):
        ask(other, number)
    rows, why = read_in_python([*talk.packets, *other.packets])
    assert rows == []
    assert "takes more than 40,000 bytes" in why


def test_pure_python_stops_where_too_many_connections_are_open() -> None:
    talks = [ask(Conversation(client=("10.0.0.1", 40000 + number)), number) for number in range(52)]
    rows, why = read_in_python([packet for talk in talks for packet in talk.packets])
    assert rows == [*range(50)]
    assert "more than 50 connections are open" in why


@pytest.mark.parametrize(("limit", "most"), [("MOST_PLACES", 20), ("MOST_WAITING", 20_000)])
def test_an_open_exchange_holds_back_a_limited_number_of_others(
    limit: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then it comes late."""
    monkeypatch.setattr(memory_limits, "MOST_HELD", 1 << 30)
    monkeypatch.setattr(memory_limits, limit, most)
    slow, other = question(Conversation(("10.0.0.3", 1024)), 1), Conversation()
    for number in range(2, 30):
        ask(other, number)
    before = len(slow.packets)
    packets = [*slow.packets, *other.packets, *answer(slow, 1).packets[before:]]
    rows = [row.correlation_id for row in capture.read(BytesIO(pcap(map(ethernet, packets))))]
    assert rows == [*range(2, 30), 1]
    monkeypatch.undo()
    rows = [row.correlation_id for row in capture.read(BytesIO(pcap(map(ethernet, packets))))]
    assert rows == [*range(1, 30)]


@pytest.mark.parametrize("how", [{"live": True}, {"follow": True}])
def test_pure_python_refuses_live_captures(how: dict[str, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "native", None)
    data = pcap(map(ethernet, ask(Conversation(), 1).packets))
    with pytest.raises(BackendError, match="live captures need the native engine"):
        capture.read(BytesIO(data), **how)  # type: ignore[arg-type]
    assert [row.correlation_id for row in capture.read(BytesIO(data))] == [1]
