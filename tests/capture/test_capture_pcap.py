"""Classic pcap files in all byte orders and time units, and damaged ones."""

from __future__ import annotations

import struct

import pytest

from kafkawire.capture import Packet
from tests.capture.wiretap import START_NS, packets_in, pcap, up_to_damage

DATA = [b"first", b"", b"third packet"]
WANTED = [Packet(i + 1, START_NS + i * 1_000_000, 1, data) for i, data in enumerate(DATA)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_reads_a_pcap(order: str, nanoseconds: bool) -> None:
    assert packets_in(pcap(DATA, order=order, nanoseconds=nanoseconds)) == WANTED


def test_keeps_nanoseconds() -> None:
    _, second = packets_in(pcap([b"", b""], nanoseconds=True, step_ns=1))
    assert second.time_ns == START_NS + 1


def test_ignores_checksum_bits_of_the_link_type() -> None:
    (packet,) = packets_in(pcap([b"x"], link_type=0x10000000 | 113))
    assert packet.link_type == 113


@pytest.mark.parametrize("cut", range(1, 16 + len(DATA[2])))
def test_reports_where_a_truncated_pcap_ends(cut: int) -> None:
    whole = pcap(DATA)
    packets, error = up_to_damage(whole[:-cut])
    assert packets == WANTED[:2]
    assert error.expected == "all of packet 3"
    assert error.offset == len(whole) - 16 - len(DATA[2])


def test_rejects_a_packet_that_is_too_large() -> None:
    whole = bytearray(pcap(DATA))
    struct.pack_into("<I", whole, 24 + 16 + 5 + 8, 0x7FFFFFFF)
    packets, error = up_to_damage(bytes(whole))
    assert packets == WANTED[:1]
    assert (error.found, error.offset) == ("2147483647", 45)
