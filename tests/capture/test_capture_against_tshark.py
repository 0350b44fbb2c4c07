"""Captures with TCP faults, beside tshark (Wireshark's Kafka dissector) in both of its modes.

For each kind of fault, the frames that are found whole and right must be at least as many as tshark's in either
mode, and none may be wrong. A frame is right if it is a frame of the capture without faults.
"""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from kafkawire import capture

pytestmark = pytest.mark.slow

PCAP = Path(__file__).parents[2] / "examples" / "capture" / "transactions.pcap"
BROKER_PORT = "9092"
#: Where in a packet with its header in the file the addresses are: Ethernet, IPv4.
ADDRESSES = (16 + 14 + 12, 16 + 14 + 16)

#: A frame: request or response, the client's end, correlation id, size without the four bytes of size.
Frame = tuple[str, str, int, int]


def packets() -> tuple[bytes, list[bytes]]:
    """The file header, and the packets with their headers."""
    data = PCAP.read_bytes()
    found, position = [], 24
    while position < len(data):
        size = 16 + struct.unpack_from("<I", data, position + 8)[0]
        found.append(data[position : position + size])
        position += size
    return data[:24], found


HEAD, WHOLE = packets()


def holds_data(packet: bytes) -> bool:
    found = capture.parse(1, packet[16:])
    return isinstance(found, capture.TcpSegment) and bool(found.payload)


WITH_DATA = [place for place, packet in enumerate(WHOLE) if holds_data(packet)]


def dropped(chosen: set[int]) -> list[bytes]:
    return [packet for place, packet in enumerate(WHOLE) if place not in chosen]


def swapped(chosen: set[int]) -> list[bytes]:
    out = list(WHOLE)
    for place in sorted(chosen):
        if place + 1 < len(out):
            out[place], out[place + 1] = out[place + 1], out[place]
    return out


def doubled(chosen: set[int]) -> list[bytes]:
    return [packet for place, packet in enumerate(WHOLE) for _ in range(2 if place in chosen else 1)]


def some(share: float, seed: int) -> set[int]:
    return {place for place in WITH_DATA if random.Random(seed * 1_000_003 + place).random() < share}


FAULTS = {
    "none": WHOLE,
    "ten packets dropped": dropped(set(random.Random(1).sample(WITH_DATA, 10))),
    "1 % dropped": dropped(some(0.01, 2)),
    "5 % dropped": dropped(some(0.05, 3)),
    "1 % swapped": swapped(some(0.01, 4)),
    "5 % swapped": swapped(some(0.05, 5)),
    "begins in the middle": WHOLE[len(WHOLE) // 3 :],
    "duplicates": doubled(some(0.2, 6)),
}


def ours(path: Path) -> Counter[Frame]:
    found: Counter[Frame] = Counter()
    for matched in capture.read(path, keep=True).matched():
        row = matched.row
        if matched.request is not None:
            found["request", row.client or "", row.correlation_id or 0, row.request_bytes or 0] += 1
        if matched.response is not None:
            found["response", row.client or "", row.correlation_id or 0, row.response_bytes or 0] += 1
    return found


def tshark(path: Path, *options: str) -> Counter[Frame]:
    fields = ("ip.src", "tcp.srcport", "ip.dst", "tcp.dstport", "kafka.correlation_id", "kafka.len")
    command = [
        "tshark",
        "-r",
        str(path),
        "-Y",
        "kafka && !_ws.malformed",
        "-T",
        "fields",
        "-E",
        "aggregator=,",
        *options,
    ]
    for field in fields:
        command += ["-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    found: Counter[Frame] = Counter()
    for line in done.stdout.splitlines():
        source, source_port, target, target_port, ids, sizes = line.split("\t")
        asks = target_port == BROKER_PORT
        client = f"{source}:{source_port}" if asks else f"{target}:{target_port}"
        for number, size in zip(ids.split(","), sizes.split(","), strict=False):
            if number and size:
                found["request" if asks else "response", client, int(number), int(size)] += 1
    return found


def of_network(number: int, packet: bytes) -> bytes:
    """The packet with addresses of another network."""
    data = bytearray(packet)
    for address in ADDRESSES:
        data[address + 2] = number
    return bytes(data)


def only_of(number: int, found: Counter[Frame]) -> Counter[Frame]:
    """The frames of one network, with addresses of the first."""
    mine = f"127.0.{number}."
    return Counter(
        {
            (kind, end.replace(mine, "127.0.0."), *rest): count
            for (kind, end, *rest), count in found.items()
            if end.startswith(mine)
        }
    )


def test_finds_at_least_what_tshark_finds_under_every_fault(tmp_path: Path) -> None:
    """All faults in one capture, each in its own network, because tshark starts slowly."""
    path = tmp_path / "faulty.pcap"
    faulty = [of_network(number, packet) for number, packets in enumerate(FAULTS.values()) for packet in packets]
    path.write_bytes(HEAD + b"".join(faulty))
    right, found = ours(PCAP), ours(path)
    each = [only_of(number, found) for number in range(len(FAULTS))]
    assert each[0] == right
    for fault, mine in zip(FAULTS, each, strict=True):
        assert not mine - right, fault  # nothing is made up
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    for options in ((), ("-o", "tcp.reassemble_out_of_order:TRUE")):
        listed = tshark(path, *options)
        for number, (fault, mine) in enumerate(zip(FAULTS, each, strict=True)):
            theirs = only_of(number, listed) & right
            assert mine.total() >= theirs.total() > 0, (fault, options)
