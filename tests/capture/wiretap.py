"""Builders of captures: TCP conversations as packets, packets as pcap and pcapng files."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from io import BytesIO
from ipaddress import ip_address
from typing import Any

from kafkawire import capture, records
from kafkawire.capture.reader import read_with
from kafkawire.errors import CaptureError
from kafkawire.frames import encode_request, encode_response
from kafkawire.messages import ApiVersionsRequest, ApiVersionsResponse, ProduceRequest
from kafkawire.messages.produce_request import PartitionProduceData, TopicProduceData
from kafkawire.rows import Exchange
from kafkawire.wire.message import Message

FIN, SYN, RST, ACK = 1, 2, 4, 16
CLIENT, BROKER = ("10.0.0.1", 40000), ("10.0.0.2", 9092)
START_NS = 1_700_000_000_000_000_000


def tcp(source: tuple[str, int], destination: tuple[str, int], seq: int, ack: int, flags: int, data: bytes) -> bytes:
    """An IP packet with a TCP segment: IPv4 or IPv6, like the addresses."""
    segment = struct.pack(">HHIIBBHHH", source[1], destination[1], seq % 2**32, ack % 2**32, 0x50, flags, 1024, 0, 0)
    segment += data
    a, b = ip_address(source[0]).packed, ip_address(destination[0]).packed
    if len(a) == 16:
        return struct.pack(">IHBB", 6 << 28, len(segment), 6, 64) + a + b + segment
    return struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(segment), 1, 0, 64, 6, 0) + a + b + segment


def ethernet(packet: bytes) -> bytes:
    return bytes(12) + (b"\x86\xdd" if packet[0] >> 4 == 6 else b"\x08\x00") + packet


def pcap(
    packets: Iterable[bytes],
    *,
    order: str = "<",
    nanoseconds: bool = False,
    link_type: int = 1,
    step_ns: int = 1_000_000,
) -> bytes:
    """A classic pcap file, a packet each millisecond."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    out = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 262144, link_type)]
    for i, packet in enumerate(packets):
        seconds, rest = divmod(START_NS + i * step_ns, 1_000_000_000)
        fraction = rest if nanoseconds else rest // 1000
        out += [struct.pack(order + "IIII", seconds, fraction, len(packet), len(packet)), packet]
    return b"".join(out)


def pcapng(packets: Iterable[bytes], *, order: str = "<", link_type: int = 1, exponent: int | None = 9) -> bytes:
    """A pcapng file of one section and interface; without `exponent`, timestamps are microseconds."""

    def block(kind: int, body: bytes) -> bytes:
        body += bytes(-len(body) % 4)
        size = struct.pack(order + "I", len(body) + 12)
        return struct.pack(order + "I", kind) + size + body + size

    options = b"" if exponent is None else struct.pack(order + "HHB3xHH", 9, 1, exponent, 0, 0)
    out = [block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))]
    out.append(block(1, struct.pack(order + "HHI", link_type, 0, 0) + options))
    for i, packet in enumerate(packets):
        units = (START_NS + i * 1_000_000) // 10 ** (9 - (6 if exponent is None else exponent))
        head = struct.pack(order + "IIIII", 0, units >> 32, units & 0xFFFFFFFF, len(packet), len(packet))
        out.append(block(6, head + packet))
        out.append(block(5, bytes(12)))  # interface statistics, which readers skip
    return b"".join(out)


def packets_in(data: bytes) -> list[capture.Packet]:
    return list(capture.read_packets(BytesIO(data)))


def up_to_damage(data: bytes) -> tuple[list[capture.Packet], CaptureError]:
    """The packets of a damaged file before the damage, and the error."""
    packets = []
    iterator = capture.read_packets(BytesIO(data))
    while True:
        try:
            packets.append(next(iterator))
        except CaptureError as error:
            return packets, error


class Conversation:
    """A TCP conversation. `packets` are IP packets in the order in which they were sent."""

    def __init__(
        self,
        client: tuple[str, int] = CLIENT,
        broker: tuple[str, int] = BROKER,
        *,
        handshake: bool = True,
        client_seq: int = 1000,
        broker_seq: int = 5000,
        mss: int = 1448,
    ) -> None:
        self.packets: list[bytes] = []
        self.ends = (client, broker)
        self.next = [client_seq, broker_seq]
        self.mss = mss
        if handshake:
            self._send(0, SYN)
            self.next[0] += 1
            self._send(1, SYN | ACK)
            self.next[1] += 1
            self._send(0, ACK)

    def _send(self, side: int, flags: int, data: bytes = b"") -> None:
        ends = (self.ends[side], self.ends[1 - side])
        self.packets.append(tcp(*ends, self.next[side], self.next[1 - side], flags, data))

    def send(self, side: int, data: bytes) -> Conversation:
        """Data from the client (0) or the broker (1), in segments."""
        for i in range(0, len(data), self.mss):
            piece = data[i : i + self.mss]
            self._send(side, ACK, piece)
            self.next[side] += len(piece)
        return self

    def acknowledge(self, side: int) -> Conversation:
        self._send(side, ACK)
        return self

    def request(self, body: Message, *, version: int, correlation_id: int, client_id: str = "tests") -> Conversation:
        return self.send(0, encode_request(body, version=version, correlation_id=correlation_id, client_id=client_id))

    def response(self, body: Message, *, version: int, correlation_id: int) -> Conversation:
        return self.send(1, encode_response(body, version=version, correlation_id=correlation_id))

    def close(self) -> Conversation:
        for side in (0, 1):
            self._send(side, FIN | ACK)
            self.next[side] += 1
        return self


def exchanges(packets: Conversation | Sequence[bytes], **options: Any) -> list[Exchange]:
    """The exchanges that `capture.read` finds in IP packets."""
    listed = packets.packets if isinstance(packets, Conversation) else packets
    return list(read_with(BytesIO(pcap(map(ethernet, listed))), **options))


def brief(found: Iterable[Exchange]) -> list[tuple[Any, ...]]:
    """The fields of exchanges that most tests compare."""
    return [(e.api, e.correlation_id, e.response_bytes is not None, e.problem) for e in found]


def question(talk: Conversation, number: int) -> Conversation:
    return talk.request(ApiVersionsRequest(), version=0, correlation_id=number)


def answer(talk: Conversation, number: int) -> Conversation:
    return talk.response(ApiVersionsResponse(), version=0, correlation_id=number)


def ask(talk: Conversation, number: int) -> Conversation:
    """One ApiVersions and its response."""
    return answer(question(talk, number), number)


def asked(*numbers: int) -> list[tuple[Any, ...]]:
    return [("ApiVersions", number, True, None) for number in numbers]


def produce(acks: int, data: bytes | None = None) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=data or records.build([records.Record(b"k", b"v")]))
    return ProduceRequest(acks=acks, topic_data=(TopicProduceData(name="t", partition_data=(partition,)),))
