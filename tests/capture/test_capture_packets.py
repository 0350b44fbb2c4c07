"""Capture files: both formats in all their orders and units, and damage."""

from __future__ import annotations

import struct
from contextlib import suppress
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wiretap import START_NS, pcap, pcapng

from kafkawire.capture import Packet, read_packets
from kafkawire.errors import CaptureError

DATA = [b"first", b"", b"third packet"]
WANTED = [Packet(i + 1, START_NS + i * 1_000_000, 1, data) for i, data in enumerate(DATA)]


def read(data: bytes) -> list[Packet]:
    return list(read_packets(BytesIO(data)))


def broken(data: bytes) -> tuple[list[Packet], CaptureError]:
    """The packets that are read before the damage, and the damage."""
    packets = []
    iterator = read_packets(BytesIO(data))
    while True:
        try:
            packets.append(next(iterator))
        except CaptureError as error:
            return packets, error


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_pcap(order: str, nanoseconds: bool) -> None:
    assert read(pcap(DATA, order=order, nanoseconds=nanoseconds)) == WANTED


def test_nanoseconds_are_kept() -> None:
    _, second = read(pcap([b"", b""], nanoseconds=True, step_ns=1))
    assert second.time_ns == START_NS + 1


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("exponent", [None, 9, 6, 3])
def test_pcapng(order: str, exponent: int | None) -> None:
    assert read(pcapng(DATA, order=order, exponent=exponent)) == WANTED


def test_pcapng_sections_have_their_own_order_and_link_type() -> None:
    both = pcapng(DATA, order="<") + pcapng(DATA, order=">", link_type=101)
    packets = read(both)
    assert [p.link_type for p in packets] == [1, 1, 1, 101, 101, 101]
    assert [p.number for p in packets] == [1, 2, 3, 4, 5, 6]
    assert [p.data for p in packets] == DATA * 2


def test_pcapng_resolution_offset_and_simple_packets() -> None:
    def block(kind: int, body: bytes) -> bytes:
        return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)

    section = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    # resolution 2^-10, offset 100 s; an option of another kind before them
    options = struct.pack("<HHI", 2, 3, 0) + struct.pack("<HHB3x", 9, 1, 0x8A) + struct.pack("<HHq", 14, 8, 100)
    interface = block(1, struct.pack("<HHI", 1, 0, 4) + options)
    enhanced = block(6, struct.pack("<IIIII", 0, 0, 1536, 2, 2) + b"ab\0\0")
    simple = block(3, struct.pack("<I", 6) + b"abcd")  # cut to the interface's 4 bytes
    old = block(2, struct.pack("<HHIIII", 0, 7, 0, 1024, 3, 3) + b"abc\0")
    assert read(section + interface + enhanced + simple + old) == [
        Packet(1, 101_500_000_000, 1, b"ab"),
        Packet(2, 0, 1, b"abcd"),
        Packet(3, 101_000_000_000, 1, b"abc"),
    ]


def test_link_types_above_the_checksum_bits() -> None:
    (packet,) = read(pcap([b"x"], link_type=0x10000000 | 113))
    assert packet.link_type == 113


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"", "an empty file"),
        (b"\x7fELF", "a file that begins with 7f 45 4c 46"),
        (b"\x1f\x9d\x90", "a file that begins with 1f 9d 90"),
        (pcap([])[:20], "the end of the file after 20 bytes"),
    ],
)
def test_no_capture(data: bytes, found: str) -> None:
    packets, error = broken(data)
    assert packets == []
    assert (error.found, error.offset) == (found, 0)


@pytest.mark.parametrize("cut", range(1, 16 + len(DATA[2])))
def test_a_cut_pcap(cut: int) -> None:
    whole = pcap(DATA)
    packets, error = broken(whole[:-cut])
    assert packets == WANTED[:2]
    assert error.expected == "all of packet 3"
    assert error.offset == len(whole) - 16 - len(DATA[2])


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_every_cut_yields_the_packets_before_it(make: object) -> None:
    whole = make(DATA)  # type: ignore[operator]
    for cut in range(len(whole)):
        iterator = read_packets(BytesIO(whole[:cut]))
        packets: list[Packet] = []
        with suppress(CaptureError):
            packets.extend(iterator)
        assert packets == WANTED[: len(packets)]


def test_a_packet_of_absurd_size_is_not_read() -> None:
    whole = bytearray(pcap(DATA))
    struct.pack_into("<I", whole, 24 + 16 + 5 + 8, 0x7FFFFFFF)
    packets, error = broken(bytes(whole))
    assert packets == WANTED[:1]
    assert (error.found, error.offset) == ("2147483647", 45)


@pytest.mark.parametrize(
    ("place", "value", "expected"),
    [
        (4, 13, "a block's length"),
        (4, 8, "a block's length"),
        (4, 0x7FFFFFFC, "a block's length"),
        (8, 0x12345678, "a section's byte order magic"),
        (24, 99, "the block's length, 28, again at its end"),
    ],
)
def test_a_damaged_pcapng(place: int, value: int, expected: str) -> None:
    whole = bytearray(pcapng(DATA))
    struct.pack_into("<I", whole, place, value)
    _, error = broken(bytes(whole))
    assert error.expected == expected


def test_a_pcapng_packet_of_an_interface_that_is_not_there() -> None:
    whole = pcapng(DATA)
    interface = whole[28:]
    size = struct.unpack_from("<I", interface, 4)[0]
    _, error = broken(whole[:28] + interface[size:])
    assert error.expected == "a block of type 6"
    assert error.offset == 28


@given(st.data())
def test_mutated_files_raise_nothing_else(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from([pcap(DATA), pcapng(DATA), pcapng(DATA, order=">")])))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(4, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        packets = read(bytes(whole))
    except CaptureError:
        return
    assert all(-(1 << 63) < packet.time_ns < 1 << 63 for packet in packets)
