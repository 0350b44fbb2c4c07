"""Damaged capture files: reading continues after the damage, and every byte is read or reported."""

from __future__ import annotations

import random
from functools import partial
from io import BytesIO
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire.capture import Packet, UnreadPart, read_packets
from kafkawire.errors import CaptureError
from tests.capture.wiretap import pcap, pcapng

PACKETS = [random.Random(i).randbytes(40 + 7 * (i % 9)) for i in range(40)]
FORMS = {
    "pcap": pcap,
    "pcap, big endian": partial(pcap, order=">"),
    "pcap, nanoseconds": partial(pcap, nanoseconds=True),
    "pcapng": pcapng,
    "pcapng, big endian": partial(pcapng, order=">"),
}
FILES = {name: form(PACKETS) for name, form in FORMS.items()}
#: Of a pcapng, the blocks of section and interface: without them no packet can be read.
HEAD = {name: 24 if name.startswith("pcap,") or name == "pcap" else 28 + 32 for name in FILES}


def read(data: bytes) -> tuple[list[Packet], list[UnreadPart]]:
    unread: list[UnreadPart] = []
    packets = list(read_packets(BytesIO(data), unread.append))
    return packets, unread


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_byte_costs_two_packets_at_most(name: str) -> None:
    few = PACKETS[:12]
    whole, generator = FORMS[name](few), random.Random(name)
    for place in range(HEAD[name], len(whole)):
        changed = bytearray(whole)
        changed[place] ^= generator.randrange(1, 256)
        packets, unread = read(bytes(changed))
        there = {packet.data for packet in packets}
        lost = [data for data in few if data not in there]
        assert len(lost) <= 2, place
        assert not lost or unread or len(packets) == len(few), place


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@given(data=st.data())
def test_every_byte_is_in_a_packet_or_in_an_unread_part(name: str, data: st.DataObject) -> None:
    """Bytes changed, removed and inserted: packets and unread parts together are the file, in order."""
    changed = bytearray(FILES[name])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(HEAD[name], len(changed) - 1))
        match data.draw(st.sampled_from("cdi")):
            case "c":
                changed[place] = data.draw(st.integers(0, 255))
            case "d":
                del changed[place : place + data.draw(st.integers(1, 200))]
            case "i":
                changed[place:place] = data.draw(st.binary(min_size=1, max_size=200))
    packets, unread = read(bytes(changed))
    assert [packet.number for packet in packets] == list(range(1, len(packets) + 1))
    starts = [part.position for part in unread]
    assert starts == sorted(starts)
    assert all(one.position + one.bytes < other.position for one, other in pairwise(unread))
    assert all(part.resumed for part in unread[:-1])
    if name.startswith("pcap,") or name == "pcap":
        read_bytes = 24 + sum(16 + len(packet.data) for packet in packets)
        assert read_bytes + sum(part.bytes for part in unread) == len(changed)
    assert len({packet.data for packet in packets} & set(PACKETS)) >= len(PACKETS) - 4 * 7


@pytest.mark.parametrize("name", FILES)
def test_raises_the_first_damage_without_a_callback(name: str) -> None:
    changed = bytearray(FILES[name])
    place = changed.index(PACKETS[20]) - 4
    changed[place - 8 : place] = b"\xff" * 8
    packets = []
    with pytest.raises(CaptureError):
        packets.extend(read_packets(BytesIO(bytes(changed))))
    assert len(read(bytes(changed))[0]) == len(PACKETS) - 1


def test_finds_packets_behind_a_length_beyond_the_end() -> None:
    changed = bytearray(FILES["pcap"])
    place = changed.index(PACKETS[30]) - 8
    changed[place : place + 8] = b"\0\0\3\0" * 2  # 196,608 bytes
    packets, (unread,) = read(bytes(changed))
    assert [packet.data for packet in packets] == PACKETS[:30] + PACKETS[31:]
    assert (unread.position, unread.bytes, unread.resumed) == (place - 8, 16 + len(PACKETS[30]), True)
    assert unread.error.expected == "all of packet 31"


def test_reports_damage_up_to_the_end() -> None:
    packets, (unread,) = read(FILES["pcap"] + bytes(100))
    assert len(packets) == len(PACKETS)
    assert (unread.bytes, unread.resumed) == (100, False)


def test_accepts_packets_far_apart_in_time() -> None:
    """As in concatenated files: each header is plausible by those that follow it."""
    one = bytearray(pcap(PACKETS[:3]))
    two = pcap(PACKETS[3:6])[24:]
    one[24:28] = bytes(4)  # 1970
    packets, unread = read(bytes(one) + two)
    assert len(packets) == 6
    assert unread == []


def test_raises_if_no_packet_can_be_read() -> None:
    with pytest.raises(CaptureError, match="the header of packet 1"):
        read(pcap([]) + b"\xff\xff\xff\xff\0\0\0\0\x10\0\0\0\0\0\0\0" + bytes(50))
