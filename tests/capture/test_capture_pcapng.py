"""pcapng files: sections, interfaces, packets of all kinds, other blocks, and damage."""

from __future__ import annotations

import gzip
import random
import struct
from io import BytesIO

import pytest

from kafkawire.capture import Packet, UnreadPart, read_packets
from kafkawire.capture.files import EndOfReadableData
from kafkawire.errors import CaptureError
from tests.capture.wiretap import START_NS, Conversation, ask, ethernet, packets_in, pcapng, up_to_damage

DATA = [b"first", b"", b"third packet"]
WANTED = [Packet(i + 1, START_NS + i * 1_000_000, 1, data) for i, data in enumerate(DATA)]


def block(kind: int, body: bytes) -> bytes:
    return struct.pack("<II", kind, len(body) + 12) + body + struct.pack("<I", len(body) + 12)


SECTION = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("exponent", [None, 9, 6, 3])
def test_reads_a_pcapng(order: str, exponent: int | None) -> None:
    assert packets_in(pcapng(DATA, order=order, exponent=exponent)) == WANTED


def test_sections_have_their_own_byte_order_and_link_type() -> None:
    both = pcapng(DATA, order="<") + pcapng(DATA, order=">", link_type=101)
    packets = packets_in(both)
    assert [p.link_type for p in packets] == [1, 1, 1, 101, 101, 101]
    assert [p.number for p in packets] == [1, 2, 3, 4, 5, 6]
    assert [p.data for p in packets] == DATA * 2


def test_reads_resolution_offset_and_simple_packets() -> None:
    # resolution 2^-10, offset 100 s; an option of another kind before them
    options = struct.pack("<HHI", 2, 3, 0) + struct.pack("<HHB3x", 9, 1, 0x8A) + struct.pack("<HHq", 14, 8, 100)
    interface = block(1, struct.pack("<HHI", 1, 0, 4) + options)
    enhanced = block(6, struct.pack("<IIIII", 0, 0, 1536, 2, 2) + b"ab\0\0")
    simple = block(3, struct.pack("<I", 6) + b"abcd")  # cut to the interface's 4 bytes
    old = block(2, struct.pack("<HHIIII", 0, 7, 0, 1024, 3, 3) + b"abc\0")
    assert packets_in(SECTION + interface + enhanced + simple + old) == [
        Packet(1, 101_500_000_000, 1, b"ab"),
        Packet(2, 0, 1, b"abcd"),
        Packet(3, 101_000_000_000, 1, b"abc"),
    ]


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
def test_reports_where_a_pcapng_is_damaged(place: int, value: int, expected: str) -> None:
    whole = bytearray(pcapng(DATA))
    struct.pack_into("<I", whole, place, value)
    _, error = up_to_damage(bytes(whole))
    assert error.expected == expected


def test_rejects_a_packet_of_an_unknown_interface() -> None:
    whole = pcapng(DATA)
    interface = whole[28:]
    size = struct.unpack_from("<I", interface, 4)[0]
    _, error = up_to_damage(whole[:28] + interface[size:])
    assert error.expected == "a block of type 6"
    assert error.offset == 28


# Blocks that are passed over -----------------------------------------------------------------------------------------

INTERFACE = block(1, struct.pack("<HHI", 1, 0, 0))
ENHANCED = block(6, struct.pack("<IIIII", 0, 0, 7, 2, 2) + b"ab\0\0")
NAMES = struct.pack("<HH4s6s2x", 1, 10, b"\x0a\0\0\1", b"host.a") + bytes(4)
COMMENT, END = struct.pack("<HH4s", 1, 4, b"text"), bytes(4)
GOOD = {
    "names": block(4, NAMES),
    "names, options": block(4, NAMES + COMMENT + END),
    "statistics": block(5, bytes(12) + struct.pack("<HHQ", 4, 8, 99)),
    "secrets": block(10, struct.pack("<II6s2x", 0x544C534B, 6, b"CLIENT")),
    "journal": block(9, b"__CURSOR=x\n__REALTIME_TIMESTAMP=12\n\n"),
    "packet, options": block(6, ENHANCED[8:-4] + COMMENT + END),
    "interface": block(1, struct.pack("<HHI", 1, 0, 0) + COMMENT),
    "custom option": block(5, bytes(12) + struct.pack("<HHII", 2988, 8, 32473, 0)),
    "local option": block(5, bytes(12) + struct.pack("<HHI", 0x8001, 4, 0)),
    "custom": block(0x0BAD, struct.pack("<I", 32473) + b"anything"),
    "local": block(0x80000001, b"any."),
}
BAD = {
    "names without an end": block(4, NAMES[:-4]),
    "names whose end has a length": block(4, NAMES[:-4] + struct.pack("<HH", 0, 4) + bytes(4)),
    "names behind the block": block(4, struct.pack("<HH", 1, 400) + bytes(20)),
    "statistics cut": block(5, bytes(8)),
    "an option behind the block": block(5, bytes(12) + struct.pack("<HH", 4, 8)),
    "half an option": block(5, bytes(12) + struct.pack("<HHI", 4, 4, 0) + b"\4\0\4\0"),
    "an undefined option": block(5, bytes(12) + struct.pack("<HHI", 300, 4, 0)),
    "something behind the last option": block(5, bytes(12) + END + COMMENT),
    "secrets behind the block": block(10, struct.pack("<II", 0x544C534B, 600) + bytes(8)),
    "a journal of nothing": block(9, b"no journal, "),
    "a packet with something behind it": block(
        6, struct.pack("<IIIII", 0, 0, 7, 2, 2) + b"ab\0\0" + bytes(4) + b"more"
    ),
    "a simple packet with something behind it": block(3, struct.pack("<I", 2) + b"ab\0\0more"),
    "an interface with something reserved": block(1, struct.pack("<HHI", 1, 1, 0)),
    "a packet of a local type": block(0x80000006, ENHANCED[8:-4]),
    "a packet of a custom type": block(0x0BAD, ENHANCED[8:-4] + COMMENT),
    "a type that has no published layout": block(7, bytes(8)),
    "an undefined type": block(99, bytes(8)),
}


@pytest.mark.parametrize("name", GOOD)
def test_reads_packets_between_blocks_of_all_types(name: str) -> None:
    unread: list[UnreadPart] = []
    file = SECTION + INTERFACE + ENHANCED + GOOD[name] + ENHANCED
    packets = list(read_packets(BytesIO(file), unread.append))
    assert {packet.data for packet in packets} == {b"ab"}
    assert (len(packets), unread) == (3 if name.startswith("packet") else 2, [])


@pytest.mark.parametrize("name", BAD)
def test_reports_blocks_whose_parts_do_not_add_up(name: str) -> None:
    unread: list[UnreadPart] = []
    file = SECTION + INTERFACE + ENHANCED + BAD[name] + ENHANCED
    assert len(list(read_packets(BytesIO(file), unread.append))) == 2
    (part,) = unread
    assert (part.position, part.bytes) == (len(SECTION + INTERFACE + ENHANCED), len(BAD[name]))


def test_does_not_check_the_first_interface_block() -> None:
    """Without the interface no packet of the section can be read."""
    untidy = block(1, struct.pack("<HHI", 1, 5, 0) + struct.pack("<HH", 2, 400))
    assert len(packets_in(SECTION + untidy + ENHANCED)) == 1


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    "packets", [[b"\0" * 14 + b"E" + bytes(60)] * 3, [ethernet(ask(Conversation(), 1).packets[3])] * 3]
)
def test_reports_a_packet_block_with_a_damaged_type(packets: list[bytes], order: str) -> None:
    """Every type with a layout, except the old packet block, which gives the same packet."""
    whole = pcapng(packets, order=order)
    at = whole.index(packets[0]) - 28
    for kind in (*range(1, 12), 0x0BAD, 0x40000BAD, 0x80000006):
        changed = bytearray(whole)
        struct.pack_into(order + "I", changed, at, kind)
        unread: list[UnreadPart] = []
        found = list(read_packets(BytesIO(bytes(changed)), unread.append))
        assert len(found) + len(unread) == 3, kind
        assert bool(unread) == (kind not in (2, 6)), kind


def test_reports_separate_parts_separately() -> None:
    unread: list[UnreadPart] = []
    file = SECTION + INTERFACE + BAD["statistics cut"] + GOOD["statistics"] + BAD["statistics cut"] + ENHANCED
    assert len(list(read_packets(BytesIO(file), unread.append))) == 1
    assert [part.bytes for part in unread] == [len(BAD["statistics cut"])] * 2


def test_rejects_a_block_before_an_incomplete_header() -> None:
    unread: list[UnreadPart] = []
    file = SECTION + INTERFACE + ENHANCED + BAD["statistics cut"] + ENHANCED + bytes(8)
    assert len(list(read_packets(BytesIO(file), unread.append))) == 1
    assert [(part.resumed, part.bytes) for part in unread] == [(False, len(file) - len(SECTION + INTERFACE + ENHANCED))]


def test_reports_adjacent_unreadable_blocks_as_one_part() -> None:
    unread: list[UnreadPart] = []
    bad = BAD["statistics cut"] + BAD["secrets behind the block"] + BAD["statistics cut"]
    assert len(list(read_packets(BytesIO(SECTION + INTERFACE + bad + ENHANCED), unread.append))) == 1
    assert [(part.position, part.bytes, part.resumed) for part in unread] == [
        (len(SECTION + INTERFACE), len(bad), True)
    ]


def test_reports_damage_before_the_end_of_decompressed_data() -> None:
    """It is reported, up to the offset at which the search for the next block stopped."""
    unread: list[UnreadPart] = []
    start = SECTION + INTERFACE + ENHANCED
    file = start + BAD["statistics cut"] + random.Random(1).randbytes(300_000)
    packets = []
    with pytest.raises(EndOfReadableData) as caught:
        packets.extend(read_packets(BytesIO(gzip.compress(file)[:-100]), unread.append))
    assert len(packets) == 1
    (part,) = unread
    assert part.error.expected == "a block of type 5"
    assert (part.position, part.position + part.bytes, part.resumed) == (len(start), caught.value.offset, False)


@pytest.mark.slow
@pytest.mark.parametrize("packets", [0, 1])
def test_reports_damage_at_the_end_of_decompressed_data(packets: int) -> None:
    """Blocks without packets follow it. A file without any packet is unreadable as a whole."""
    unread: list[UnreadPart] = []
    file = SECTION + INTERFACE + packets * ENHANCED + BAD["statistics cut"] + 50_000 * GOOD["statistics"]
    with pytest.raises(CaptureError) as caught:
        list(read_packets(BytesIO(gzip.compress(file, 0)[:-100_000]), unread.append))
    assert isinstance(caught.value, EndOfReadableData) == bool(packets)
    assert [(part.bytes, part.resumed) for part in unread] == [(len(BAD["statistics cut"]), True)] * packets
