"""Conversations of other protocols than Kafka's, above all of those that frame messages by a length of 4 bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator

#: Pairs of a side (0: the client) and what it sends in a packet.
Talk = list[tuple[int, bytes]]


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def _text(value: str) -> bytes:
    return _framed(value.encode())


def http1() -> Talk:
    ask = b"GET /topics/orders HTTP/1.1\r\nHost: kafka-rest\r\nAccept: */*\r\n\r\n"
    return [(0, ask), (1, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]")] * 5


def http2() -> Talk:
    def frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
        return len(body).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + body

    begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, struct.pack(">HI", 3, 100))
    talk = [(0, begin), (1, frame(4, 0, 0, b"")), (1, frame(4, 1, 0, b""))]
    for stream in range(1, 21, 2):
        talk += [(0, frame(1, 4, stream, b"\x83\x86\x84" * 5) + frame(0, 1, stream, bytes(5) + b"grpc body"))]
        talk += [(1, frame(1, 4, stream, b"\x88") + frame(0, 0, stream, bytes(30)) + frame(8, 0, 0, b"\0\0\0\x05"))]
    return talk


def postgresql() -> Talk:
    start = struct.pack(">i", 196608) + b"user\0app\0database\0orders\0application_name\0psql\0\0"
    start = (len(start) + 4).to_bytes(4, "big") + start
    query = b"Q" + struct.pack(">i", 13) + b"SELECT 1\0"
    return [(0, start), (1, b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")] + [(0, query), (1, b"Z\0\0\0\x05I")] * 5


def redis() -> Talk:
    return [(0, b"*2\r\n$3\r\nGET\r\n$6\r\norders\r\n"), (1, b"$5\r\nhello\r\n")] * 10


def zookeeper() -> Talk:
    """Length, xid, type: the halves of an xid look like the api key and version of Produce."""
    talk = [(0, _framed(struct.pack(">iqiqi", 0, 0, 30000, 0, 16) + bytes(16))), (1, _framed(bytes(37)))]
    for xid in range(1, 40):
        talk.append((0, _framed(struct.pack(">ii", xid, 4) + _text("/brokers/ids/1") + b"\0")))
        talk.append((1, _framed(struct.pack(">iqi", xid, 77, 0) + _text("{}") + bytes(68))))
    return talk + [(0, _framed(struct.pack(">ii", -2, 11))), (1, _framed(struct.pack(">iqi", -2, 77, 0)))] * 3


def pulsar() -> Talk:
    """Total size, size of the command, a protobuf command."""

    def command(body: bytes) -> bytes:
        return _framed(_framed(body))

    talk = [(0, command(b"\x08\x02\x12\x11\x0a\x0bPulsar-Java\x20\x14")), (1, command(b"\x08\x03\x1a\x04\x0a\x02v4"))]
    return talk + [(0, command(b"\x08\x12")), (1, command(b"\x08\x13"))] * 10


def thrift() -> Talk:
    def call(sequence: int, kind: int) -> bytes:
        return _framed(struct.pack(">HH", 0x8001, kind) + _text("getOrder") + struct.pack(">i", sequence) + b"\0")

    return [part for number in range(10) for part in ((0, call(number, 1)), (1, call(number, 2)))]


def hadoop() -> Talk:
    call = b"\x1a\x08\x02\x10\0\x18\x05\x22\x10" + bytes(range(16)) + b"\x28\0"
    return [(0, b"hrpc\x09\0\0" + _framed(call)), *[(0, _framed(call)), (1, _framed(b"\x0a\x08\x05\x10\0"))] * 10]


def cassandra() -> Talk:
    return [(0, b"\x04\0\0\x01\x05\0\0\0\0"), (1, b"\x84\0\0\x01\x06\0\0\0\x02\0\0")] * 10


def amqp() -> Talk:
    return [(0, b"AMQP\0\0\x09\x01"), (1, b"\x01\0\0\0\0\0\x04\0\x0a\0\x0a\xce"), *[(0, b"\x08\0\0\0\0\0\0\xce")] * 8]


def smb() -> Talk:
    return [(0, _framed(b"\xfeSMB" + bytes(60))), (1, _framed(b"\xfeSMB" + bytes(80)))] * 5


def zeros() -> Talk:
    return [(0, bytes(100)), (1, bytes(100))] * 10


def dns() -> Talk:
    ask = struct.pack(">HHHHHH", 7, 0x0100, 1, 0, 0, 0) + b"\x05kafka\x03lan\0\0\x01\0\x01"
    return [(0, len(ask).to_bytes(2, "big") + ask), (1, len(ask).to_bytes(2, "big") + ask)] * 5


def random_bytes(seed: int) -> Talk:
    chosen = random.Random(seed)
    return [(chosen.randrange(2), chosen.randbytes(chosen.randrange(1, 1400))) for _ in range(20)]


def random_frames(seed: int) -> Talk:
    """Frames of a length of 4 bytes, with small numbers and zeros, as binary protocols have them."""
    chosen = random.Random(seed)

    def frame() -> bytes:
        body = bytes(chosen.choice((0, 0, 0, 1, 2, 3, 5, 18, 255, 97, 98)) for _ in range(chosen.randrange(4, 60)))
        return _framed(body)

    return [(chosen.randrange(2), frame()) for _ in range(40)]


def all_protocols() -> Iterator[tuple[str, Talk]]:
    """Each conversation with its name."""
    named: tuple[Callable[[], Talk], ...] = (
        http1, http2, postgresql, redis, zookeeper, pulsar, thrift, hadoop, cassandra, amqp, smb,
        zeros, dns,
    )  # fmt: skip
    for made in named:
        yield made.__name__, made()
    for seed in range(40):
        yield f"random bytes {seed}", random_bytes(seed)
        yield f"random frames {seed}", random_frames(seed)
