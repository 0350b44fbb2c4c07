"""Captures that are damaged at one layer, and the properties that reading them must have.

    python -m tests.capture.mutations 50000      # number of mutations; prints the outcomes

For any damage: no exception but `CaptureError`; every byte of the file is in a packet or an unread part; every packet
is a segment or is counted; every byte of a Kafka connection is in a frame or in a problem; and exchanges of connections
without damaged packets are unchanged.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from io import BytesIO
from itertools import accumulate
from typing import NamedTuple

from kafkawire import capture, records
from kafkawire.capture import TcpSegment, parse, read_packets
from kafkawire.capture.network import FIN, RST, SYN
from kafkawire.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceResponse,
)
from kafkawire.messages.fetch_response import FetchableTopicResponse, PartitionData
from kafkawire.rows import Exchange
from tests.capture.wiretap import ACK, Conversation, ethernet, pcap, produce, tcp

LAYERS = ("file", "packet", "tcp", "frame", "message")
_HEADER, _ETHERNET, _IP, _TCP = 16, 14, 20, 20
CONNECTIONS, ROUNDS = 4, 12


#: What of a row does not change when packets before it are lost or doubled.
_LASTING = ("api", "version", "correlation_id", "client_id", "request_bytes", "response_bytes", "errors", "problem",
            "request", "response")  # fmt: skip
Lasting = tuple[object, ...]


class Undamaged(NamedTuple):
    """A capture without damage: its packets, their offsets in the file, their clients, and the rows of each client."""

    packets: list[bytes]
    starts: list[int]
    clients: list[str]
    rows: dict[str, list[Lasting]]

    @property
    def file(self) -> bytes:
        return pcap(self.packets)


def whole() -> Undamaged:
    """Several interleaved connections, each with small and large messages in both directions."""
    conversations = []
    batch = records.build([records.Record(b"key", bytes(range(256)))])
    for number in range(CONNECTIONS):
        talk = Conversation(client=("10.0.0.1", 40001 + number), mss=300)
        for i in range(ROUNDS):
            match i % 4:
                case 0:
                    talk.request(ApiVersionsRequest(), version=0, correlation_id=i)
                    talk.response(ApiVersionsResponse(), version=0, correlation_id=i)
                case 1:
                    talk.request(MetadataRequest(), version=9, correlation_id=i)
                    talk.response(MetadataResponse(cluster_id="c" * 100), version=9, correlation_id=i)
                case 2:
                    talk.request(produce(-1, batch), version=9, correlation_id=i)
                    talk.response(ProduceResponse(), version=9, correlation_id=i)
                case 3:
                    data = PartitionData(partition_index=0, high_watermark=9, records=batch)
                    answer = FetchResponse(responses=(FetchableTopicResponse(topic="t", partitions=(data,)),))
                    talk.request(FetchRequest(max_wait_ms=1, min_bytes=1), version=11, correlation_id=i)
                    talk.response(answer, version=11, correlation_id=i)
        conversations.append(talk.packets)
    order = [
        (i, number) for i in range(max(map(len, conversations))) for number, t in enumerate(conversations) if i < len(t)
    ]
    packets = [ethernet(conversations[number][i]) for i, number in order]
    starts = list(accumulate((_HEADER + len(packet) for packet in packets), initial=24))[:-1]
    rows = by_client(capture.read(BytesIO(pcap(packets)), body=True, records=True))
    return Undamaged(packets, starts, [_client(number) for _, number in order], rows)


def _client(number: int) -> str:
    return f"10.0.0.1:{40001 + number}"


def by_client(rows: Iterable[Exchange]) -> dict[str, list[Lasting]]:
    found = defaultdict(list)
    for row in rows:
        found[str(row.client)].append(tuple(getattr(row, name) for name in _LASTING))
    return dict(found)


class Damaged(NamedTuple):
    """A file, the damaged layer, and the clients whose connections contain damaged packets."""

    file: bytes
    layer: str
    touched: set[str]


def damaged(good: Undamaged, seed: int) -> Damaged:
    """One mutation of 1 to 3 bytes, or of one packet, at a layer that the seed chooses."""
    generator = random.Random(seed)
    layer = LAYERS[seed % len(LAYERS)]
    number = generator.randrange(len(good.packets))
    packets = list(good.packets)
    if layer == "tcp":
        return _tcp_fault(good, packets, number, generator)
    file = bytearray(good.file)
    start = good.starts[number]
    size = len(packets[number])
    header = _HEADER + _ETHERNET + _IP + _TCP
    first, last = {
        "file": (0, _HEADER),
        "packet": (_HEADER, header),
        "frame": (header, header + 14),
        "message": (header, _HEADER + size),
    }[layer]
    last = min(last, _HEADER + size)
    first = min(first, last - 1)
    for _ in range(generator.randint(1, 3)):
        file[start + generator.randrange(first, last)] = generator.choice((0, 1, 0x7F, 0xFF, generator.randrange(256)))
    # A header that cannot be right costs the packet before (which may take in its bytes) or those behind it.
    near = range(number - 2, number + 4) if layer == "file" else (number,)
    return Damaged(bytes(file), layer, {good.clients[i] for i in near if 0 <= i < len(packets)})


def _tcp_fault(good: Undamaged, packets: list[bytes], number: int, generator: random.Random) -> Damaged:
    """Packets lost, duplicated, moved, truncated, or forged."""
    touched = {good.clients[number]}
    packet = packets[number]
    match generator.randrange(6):
        case 0:
            del packets[number]
        case 1:
            packets.insert(generator.randrange(len(packets)), packet)
        case 2:
            packets.insert(generator.randrange(len(packets)), packets.pop(number))
        case 3:
            packets[number] = packet[: generator.randrange(_ETHERNET + _IP + _TCP, len(packet) + 1)]
        case 4:
            of = good.clients[number]
            packets = [p for i, p in enumerate(packets) if good.clients[i] != of or i < number]
        case 5:
            ends = [("10.0.0.1", int(good.clients[number].rpartition(":")[2])), ("10.0.0.2", 9092)]
            generator.shuffle(ends)
            flags = generator.choice((ACK, ACK, SYN, FIN | ACK, RST, SYN | FIN))
            sequence = generator.choice((1001, 5001, 6000, generator.randrange(1 << 32)))
            forged = tcp(ends[0], ends[1], sequence, generator.randrange(1 << 32), flags, generator.randbytes(50))
            packets.insert(number, ethernet(forged))
    return Damaged(pcap(packets), "tcp", touched)


_REPORTED = re.compile(
    r"from the (?:client|broker): (\d+) bytes? (?:that belong to no known frame|of a frame that is not whole"
    r"|from before the first ones captured)"
)


#: Of a frame.
_MISSING = re.compile(r"(\d+) of its \d+ bytes are missing in the capture")


def account(rows: Iterable[Exchange], summary: capture.Summary) -> None:
    """Every byte of a Kafka connection is in a frame, in the problem of a row, or counted: as retransmitted, as
    truncated, or as preceding the first frame of a connection from before the capture."""
    in_frames = in_problems = 0
    for row in rows:
        in_frames += sum(size + 4 for size in (row.request_bytes, row.response_bytes) if size is not None)
        in_frames -= sum(map(int, _MISSING.findall(row.problem or "")))
        reported = _REPORTED.match(row.problem or "")
        in_problems += int(reported[1]) if reported else 0
    assert in_frames + in_problems + summary.repeated + summary.cut + summary.joined_bytes == summary.bytes["kafka"]


def check(good: Undamaged, bad: Damaged) -> str:
    """Asserts the properties; returns a description of the outcome."""
    reading = capture.read(BytesIO(bad.file), body=True, records=True)
    rows = list(reading)
    summary = reading.summary

    unread = []
    packets = list(read_packets(BytesIO(bad.file), unread.append))
    assert 24 + sum(16 + len(p.data) for p in packets) + sum(u.bytes for u in unread) == len(bad.file)
    assert summary.unread == sum(u.bytes for u in unread)
    assert summary.packets == len(packets)

    found = [parse(packet.link_type, packet.data) for packet in packets]
    segments = [
        (packet, segment) for packet, segment in zip(packets, found, strict=True) if isinstance(segment, TcpSegment)
    ]
    assert len(packets) == len(segments) + summary.skipped.total()
    carried = sum(len(segment.payload) + segment.missing for _, segment in segments)
    assert carried == summary.bytes.total()

    account(rows, summary)

    after = by_client(rows)
    for client, wanted in good.rows.items():
        if client not in bad.touched:
            assert after.get(client) == wanted, client
    lost = sum(
        len(wanted) - len([row for row in after.get(client, ()) if row in wanted])
        for client, wanted in good.rows.items()
    )
    if any(row.problem for row in rows) or unread or summary.skipped:
        return f"{min(lost, 3)}{'+' if lost > 3 else ''} exchanges lost, reported"
    return "other content" if lost else "no exchange lost"


def main(count: int) -> None:
    good = whole()
    for layer in range(len(LAYERS)):
        became = Counter(check(good, damaged(good, seed)) for seed in range(layer, count, len(LAYERS)))
        print(LAYERS[layer], became.total(), dict(became.most_common()))


if __name__ == "__main__":
    main(int(sys.argv[1]))
