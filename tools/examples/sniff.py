"""Recording loopback traffic with tcpdump, as a classic pcap file."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .errors import ExamplesError

_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
_START_TIMEOUT_S = 15.0
_FILE_HEADER, _PACKET_HEADER, _ETHERNET = 24, 16, 14


class Traffic(NamedTuple):
    """What a capture of IPv4 on loopback holds. `repeated`: segments that TCP sent twice, as it does under load."""

    bytes: int
    packets: int
    connections: int
    repeated: int


def measured(path: Path) -> Traffic:
    """Counts what is in a capture that `recorded` wrote."""
    data = path.read_bytes()
    packets = repeated = 0
    following: dict[bytes, int] = {}
    position = _FILE_HEADER
    while position < len(data):
        start = position + _PACKET_HEADER + _ETHERNET
        position += _PACKET_HEADER + int.from_bytes(data[position + 8 : position + 12], sys.byteorder)
        packets += 1
        tcp = start + (data[start] & 15) * 4
        size = start + int.from_bytes(data[start + 2 : start + 4]) - tcp - (data[tcp + 12] >> 4) * 4
        way, sequence = data[tcp : tcp + 4], int.from_bytes(data[tcp + 4 : tcp + 8])
        if size:
            repeated += sequence != following.get(way, sequence)
            following[way] = (sequence + size) & 0xFFFFFFFF
    return Traffic(len(data), packets, len({frozenset((way[:2], way[2:])) for way in following}), repeated)


@contextlib.contextmanager
def recorded(path: Path, port: int) -> Iterator[None]:
    """Writes every packet from and to `port` on loopback to `path` while the block runs.

    Raises ExamplesError where tcpdump is missing or may not record, and when the kernel dropped packets.
    """
    tcpdump = shutil.which("tcpdump")
    if tcpdump is None:
        raise ExamplesError("no tcpdump in PATH: install it (apt-get install tcpdump)")
    # To standard output: when it runs as root tcpdump gives up its rights before it opens a file.
    command = [tcpdump, "-i", _LOOPBACK, "-n", "-U", "-s", "0", "-B", "16384", "-w", "-", "tcp", "port", str(port)]
    with path.open("wb") as target, tempfile.TemporaryFile("w+") as said:

        def messages() -> str:
            said.seek(0)
            return said.read()

        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=target, stderr=said, start_new_session=True
        )
        try:
            deadline = time.monotonic() + _START_TIMEOUT_S
            while "listening on" not in messages():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise ExamplesError(
                        f"tcpdump does not record (it needs root or the capability CAP_NET_RAW): {messages().strip()}"
                    )
                time.sleep(0.05)
            yield
            time.sleep(1.0)  # what is still on its way from the kernel
            process.send_signal(signal.SIGINT)
            process.wait(10)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        dropped = re.search(r"(\d+) packets? dropped by kernel", messages())
        if dropped is None or int(dropped[1]):
            raise ExamplesError(f"the capture is not complete: {messages().strip()}")
