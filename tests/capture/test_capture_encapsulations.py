"""Packets in tunnels, mirrored and tagged."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkawire import capture
from kafkawire.capture import Packet, Skipped, TcpSegment, parse, read_packets
from kafkawire.capture import summary as summaries
from kafkawire.capture.decode_rules import rules_of
from kafkawire.capture.encapsulations import ENCAPSULATIONS, UDP_PORTS
from kafkawire.capture.network import MOST_HEADERS
from kafkawire.rows import Exchange
from tests.capture import tunnels
from tests.capture.tunnels import TUNNELS
from tests.capture.wiretap import ACK, BROKER, CLIENT, Conversation, ethernet, pcap, question, tcp

PCAP = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
FRAME = ethernet(tcp(CLIENT, BROKER, 7, 9, ACK, b"payload"))
PLAIN = parse(1, FRAME)
#: An ARP request, an ICMP echo request in IPv4, a DNS query in IPv4.
ARP = tunnels.frame(0x0806, b"\0\1\x08\0\6\4\0\1" + bytes(20))
ICMP = tunnels.over_ip(tunnels.ipv4(1, b"\x08\0" + bytes(6)))
DNS = tunnels.over_udp(53, bytes(12))


@pytest.fixture(scope="module")
def packets() -> list[Packet]:
    with PCAP.open("rb") as file:
        return list(read_packets(file))


@pytest.fixture(scope="module")
def plain() -> list[Exchange]:
    return list(capture.read(PCAP, body=True))


def file_of(packets: list[tuple[int, bytes]]) -> BytesIO:
    """A capture of packets at times in epoch nanoseconds."""
    out = [PCAP.read_bytes()[:24]]
    for time_ns, data in packets:
        seconds, rest = divmod(time_ns, 1_000_000_000)
        out.append(struct.pack("<IIII", seconds, rest // 1000, len(data), len(data)) + data)
    return BytesIO(b"".join(out))


def contents(rows: list[Exchange]) -> Counter[str]:
    """Exchanges without packet numbers."""
    return Counter(
        json.dumps([e.time_ns, e.client, e.api, e.correlation_id, e.latency_ms, e.request, e.response, e.problem])
        for e in rows
    )


def without_file(rows: list[Exchange]) -> list[tuple[Any, ...]]:
    return [tuple(getattr(e, name) for name in e.__struct_fields__ if name != "file") for e in rows]


@pytest.mark.slow
@pytest.mark.parametrize("name", TUNNELS)
def test_capture_in_an_encapsulation_gives_the_rows_of_the_plain_one(
    name: str, packets: list[Packet], plain: list[Exchange]
) -> None:
    found = capture.read(file_of([(p.time_ns, TUNNELS[name](p.data)) for p in packets]), body=True)
    assert without_file(list(found)) == without_file(plain)
    assert not found.summary.skipped


def test_packets_captured_plain_and_in_tunnels_count_once(packets: list[Packet], plain: list[Exchange]) -> None:
    copies = [TUNNELS[name] for name in ("GENEVE, options", "ERSPAN II")]
    mirrored = [(p.time_ns, data) for p in packets for data in (p.data, *(wrap(p.data) for wrap in copies))]
    found = list(capture.read(file_of(mirrored), body=True))
    assert contents(found) == contents(plain)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["IP in IP", "VXLAN", "GENEVE, IP", "NVGRE", "ERSPAN III", "GTP", "MPLS over UDP"])
@pytest.mark.parametrize("place", [tunnels.with_fragments_inside, tunnels.with_fragments_outside])
def test_reassembles_fragments_inside_and_outside_of_tunnels(
    place: Any, name: str, packets: list[Packet], plain: list[Exchange]
) -> None:
    some = packets[:400]
    cut = [(p.time_ns, data) for p in some for data in place(TUNNELS[name], [p.data])]
    found = capture.read(file_of(cut), body=True)
    assert contents(list(found)) == contents(
        list(capture.read(file_of([(p.time_ns, p.data) for p in some]), body=True))
    )
    assert not found.summary.skipped
    assert found.summary.packets > len(some)


def test_fragments_captured_plain_and_in_tunnels_count_once(packets: list[Packet]) -> None:
    some = [p for p in packets[:400] if len(p.data) > 300]
    plain = [(p.time_ns, p.data) for p in some]
    mirrored = [
        (p.time_ns, copy)
        for number, p in enumerate(some)
        for part in tunnels.fragments(p.data[14:], number, 200)
        for copy in (tunnels.over_ip(part), TUNNELS["VXLAN"](tunnels.over_ip(part)))
    ]
    found = capture.read(file_of(mirrored), body=True)
    assert contents(list(found)) == contents(list(capture.read(file_of(plain), body=True)))
    assert not found.summary.skipped


@pytest.mark.slow
@pytest.mark.parametrize("name", TUNNELS)
def test_packet_truncated_at_any_length_is_skipped_or_has_missing_bytes(name: str) -> None:
    whole = TUNNELS[name](FRAME)
    assert parse(1, whole) == PLAIN
    assert isinstance(PLAIN, TcpSegment)
    for size in range(len(whole)):
        found = parse(1, whole[:size])
        if isinstance(found, TcpSegment):
            assert (len(found.payload) + found.missing, len(found.payload) <= 7) == (7, True)
        else:
            assert isinstance(found, Skipped)


@given(st.sampled_from(sorted(TUNNELS)), st.data())
def test_changed_bytes_in_headers_raise_nothing(name: str, data: st.DataObject) -> None:
    whole = bytearray(TUNNELS[name](FRAME))
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    steps: list[Any] = []
    parse(1, bytes(whole[: data.draw(st.integers(0, len(whole)))]), UDP_PORTS, steps)
    assert len(steps) <= MOST_HEADERS + 1


@pytest.mark.parametrize("name", TUNNELS)
def test_nesting_is_followed_to_a_bound(name: str) -> None:
    assert parse(1, TUNNELS[name](TUNNELS["GENEVE, IP"](TUNNELS["VXLAN"](FRAME)))) == PLAIN
    frame = FRAME
    for _ in range(3 * MOST_HEADERS):
        frame = TUNNELS["IP in IP"](frame)
    steps: list[Any] = []
    assert parse(1, frame, UDP_PORTS, steps) is Skipped.NOT_TCP
    assert len(steps) == MOST_HEADERS + 1


def test_shipped_capture_is_wrapped_in_every_entry_of_the_table() -> None:
    """An entry without a test fails here: its name has to be in one of the steps."""
    passed = set()
    for wrap in TUNNELS.values():
        steps: list[Any] = []
        parse(1, wrap(FRAME), UDP_PORTS, steps)
        passed |= {(announced, number) for announced, number, _ in steps}
    tables = [("EtherType", e.ethertypes) for e in ENCAPSULATIONS if e.name not in ("VLAN", "MPLS")]
    tables += [("IP protocol", e.ip_protocols) for e in ENCAPSULATIONS if e.name != "IP in IP"]
    tables += [("UDP port", e.udp_ports) for e in ENCAPSULATIONS]
    assert passed >= {(announced, number) for announced, numbers in tables for number in numbers}


@pytest.mark.parametrize(
    "data",
    [
        tunnels.over_udp(6081, b"\x40" + tunnels.geneve(0x6558, FRAME)[1:]),  # GENEVE, version 1
        tunnels.over_udp(4790, tunnels.gpe(9, FRAME)),
        tunnels.over_udp(37008, b"\1\4\0\1"),  # TZSP, a keepalive
        tunnels.over_udp(37008, b"\1\0\0\x12\1" + FRAME),  # TZSP, 802.11
        tunnels.over_udp(2152, b"\x32\1\0\4" + bytes(8)),  # GTP, an echo request
        tunnels.over_udp(2152, tunnels.gtp(4, b"\0\0\0\x85" + bytes(8), FRAME[14:])),  # an extension of no length
        tunnels.gre(0x88BE, b"\x30" + bytes(7) + FRAME, 0x1000, bytes(4)),  # ERSPAN, version 3
        tunnels.pppoe(0xC021, bytes(8)),  # PPP's link control
    ],
)
def test_headers_that_carry_no_packet_are_skipped(data: bytes) -> None:
    assert parse(1, data) is Skipped.NOT_TCP


# --- ports


@pytest.mark.parametrize(
    ("name", "tunnel"),
    [
        ("vxlan", "VXLAN"),
        ("geneve", "GENEVE, options"),
        ("vxlan-gpe", "VXLAN-GPE, IP"),
        ("tzsp", "TZSP, tags"),
        ("gtp", "GTP, extensions"),
        ("mpls", "MPLS over UDP"),
    ],
)
def test_decode_as_reads_another_port(name: str, tunnel: str, packets: list[Packet]) -> None:
    def moved(data: bytes) -> bytes:
        wrapped = TUNNELS[tunnel](data)
        return wrapped[:36] + struct.pack(">H", 12345) + wrapped[38:]

    some = [(p.time_ns, moved(p.data)) for p in packets[:100]]
    found = list(capture.read(file_of(some), decode_as=[f"udp.port==12345,{name}"]))
    assert found
    without = capture.read(file_of(some))
    assert list(without) == []
    assert dict(without.summary.contents) == {"UDP port 12345": 100}


@pytest.mark.parametrize("rule", ["", "vxlan", "udp.port==0,vxlan", "udp.port==65536,vxlan", "sctp.port==1,vxlan"])
def test_malformed_rule_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=r"is not udp\.port==N,NAME or tcp\.port==N,kafka, with a port N from 1 to"):
        rules_of([rule])


def test_unknown_encapsulation_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'vxlam' is none of geneve, gtp, mpls, tzsp, vxlan, vxlan-gpe"):
        capture.read(PCAP, decode_as=["udp.port==1,vxlam"])


def test_rules_replace_usual_ports() -> None:
    assert rules_of([" udp.port == 4789 , GENEVE "]).encapsulations[4789] is UDP_PORTS[6081]
    assert UDP_PORTS[4789].name == "VXLAN"


# --- what was not recognised


def test_capture_without_tcp_lists_its_packets() -> None:
    wraps = ("GENEVE, Ethernet", "GENEVE around VXLAN", "ERSPAN II")
    listed = [
        ARP,
        ICMP,
        DNS,
        b"short",
        *(tunnels.frame(size, bytes(60)) for size in (38, 60)),
        *(TUNNELS[name](ICMP) for name in wraps),
        TUNNELS["GENEVE, Ethernet"](ARP),
    ]
    listed += [TUNNELS["VXLAN"](FRAME)[:50]] * 1200
    found = capture.read(BytesIO(pcap(listed)))
    assert list(found) == []
    assert found.summary.contents.total() == found.summary.skipped.total() == len(listed)
    text = found.summary.no_kafka
    assert text.startswith("no Kafka was recognised in 1,210 packets (TCP connections: none; 1,200 packets: ")
    for part in (
        "1,200 packets: UDP port 4789: VXLAN, inside: headers cut off;",
        "1 packet: EtherType 0x0806: ARP;",
        "1 packet: IP protocol 1: ICMP;",
        "1 packet: UDP port 53: DNS;",
        "2 packets: EtherType 0x0000: none, IEEE 802.3;",
        "1 packet: headers cut off;",
        "1 packet: UDP port 6081: GENEVE, inside: EtherType 0x0806: ARP",
        "1 packet: UDP port 6081: GENEVE, inside: UDP port 4789: VXLAN, inside: IP protocol 1: ICMP",
        "1 packet: IP protocol 47: GRE, inside: EtherType 0x88be: ERSPAN, inside: IP protocol 1: ICMP",
    ):
        assert part in text


def test_number_of_kinds_of_skipped_packets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summaries, "_MOST_KINDS", 20)
    found = capture.read(BytesIO(pcap([tunnels.over_udp(20_000 + port, b"data") for port in range(50)])))
    assert list(found) == []
    assert (len(found.summary.contents), found.summary.contents["others"]) == (21, 30)
    assert found.summary.no_kafka.endswith("; 11 packets of 11 more kinds)")


def test_lost_fragments_are_listed() -> None:
    parts = tunnels.fragments(tcp(CLIENT, BROKER, 7, 9, ACK, bytes(1000)), 5)[:1]
    found = capture.read(BytesIO(pcap(map(ethernet, parts))))
    assert list(found) == []
    assert dict(found.summary.contents) == {"an IP fragment whose others are missing": 1}


# --- tshark

#: What tshark 4.0 leaves undissected: VXLAN-GPE with Ethernet as its draft's flags announce it, ERSPAN III of IP.
UNKNOWN_TO_TSHARK = {"VXLAN-GPE, no protocol", "ERSPAN III, IP"}
#: What nothing in a packet announces; kafkawire looks at the bytes for pseudowires.
DECODE_AS = (
    "udp.port==8472,vxlan",
    f"mpls.label=={tunnels.WITH_WORD},pwethcw",
    f"mpls.label=={tunnels.NO_WORD},pwethnocw",
)


@pytest.mark.slow
def test_tshark_finds_the_same_segments(tmp_path: Path, packets: list[Packet]) -> None:
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    known = [name for name in TUNNELS if name not in UNKNOWN_TO_TSHARK]
    sample = [p.data for p in packets[40:60]]
    wrapped = [(name, TUNNELS[name](data)) for name in known for data in sample]
    path = tmp_path / "tunnels.pcap"
    path.write_bytes(pcap(data for _, data in wrapped))
    fields = ["tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw", "tcp.len"]
    command = ["tshark", "-r", str(path), "-T", "fields", "-E", "occurrence=l"]
    command += [part for rule in DECODE_AS for part in ("-d", rule)]
    command += [part for field in fields for part in ("-e", field)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    wrong = set()
    for (name, data), line in zip(wrapped, done.stdout.splitlines(), strict=True):
        found = parse(1, data)
        assert isinstance(found, TcpSegment)
        mine = (found.source[1], found.destination[1], found.sequence, found.acknowledgment, len(found.payload))
        if "\t".join(map(str, mine)) != line:
            wrong.add(name)
    assert wrong == set()


def test_a_question_in_a_tunnel_is_kafka() -> None:
    """The smallest capture: one connection, one request."""
    talk = question(Conversation(), 1)
    found = capture.read(BytesIO(pcap(TUNNELS["TZSP"](ethernet(packet)) for packet in talk.packets)))
    assert [row.api for row in found] == ["ApiVersions"]


@pytest.mark.parametrize("inner", ["MPLS", "MPLS, stack", "PPPoE", "pseudowire, address of zeros"])
def test_pseudowire_of_frames_with_another_encapsulation(inner: str) -> None:
    assert parse(1, TUNNELS["pseudowire"](TUNNELS[inner](FRAME))) == PLAIN
