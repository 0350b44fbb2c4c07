"""Captures to be measured: the one in examples/ (real clients and a real broker) again and again, each time with other
addresses and later. Its connections are short, some 17 frames each: few captures have more work in a frame.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from kafkawire import capture
from tools.bench.samples import ROOT

EXAMPLE = ROOT / "examples" / "capture" / "transactions.pcap"
_FILE_HEADER = 24
#: Where source and destination stand in an Ethernet packet of IPv4.
_ADDRESSES = slice(14 + 12, 14 + 20)


def write_capture(path: Path, times: int) -> None:
    """The example, `times` times."""
    with EXAMPLE.open("rb") as file:
        packets = list(capture.read_packets(file))
    span = packets[-1].time_ns - packets[0].time_ns + 1_000_000_000
    with path.open("wb") as out:
        out.write(EXAMPLE.read_bytes()[:_FILE_HEADER])
        for turn in range(times):
            address = struct.pack(">I", 10 << 24 | turn)
            for packet in packets:
                data = bytearray(packet.data)
                data[_ADDRESSES] = address * 2
                seconds, rest = divmod(packet.time_ns + turn * span, 1_000_000_000)
                out.write(struct.pack("<IIII", seconds, rest // 1000, len(data), len(data)) + data)


def frames() -> int:
    """How many frames the example has."""
    rows = list(capture.read(EXAMPLE))
    return sum((row.request_bytes is not None) + (row.response_bytes is not None) for row in rows)


if __name__ == "__main__":
    write_capture(Path(sys.argv[1]), int(sys.argv[2]))
