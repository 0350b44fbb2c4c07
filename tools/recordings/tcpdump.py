"""Recording loopback traffic with tcpdump, as a classic pcap file."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from tools.broker import orphans

from . import RecordingError

_HOST = "127.0.0.1"
_LOOPBACK = "lo0" if sys.platform == "darwin" else "lo"
#: Until it records; until it has written the last packet; until it has ended.
_START_TIMEOUT_S = _LAST_TIMEOUT_S = _END_TIMEOUT_S = 15.0
_FILE_HEADER, _PACKET_HEADER, _ETHERNET = 24, 16, 14


class Traffic(NamedTuple):
    """What a capture of IPv4 on loopback holds. `repeated`: segments that TCP sent twice, as it does under load."""

    bytes: int
    packets: int
    connections: int
    repeated: int


class DumpedSegment(NamedTuple):
    """A TCP segment in a capture: where its packet begins in the file, its ends' ports, and the data it carries."""

    position: int
    source: int
    destination: int
    way: bytes
    sequence: int
    size: int


def packets(path: Path) -> Iterator[DumpedSegment]:
    """What `recorded` wrote: classic pcap, Ethernet, IPv4, TCP. A last packet that is not whole yet is left out."""
    data = path.read_bytes()
    position = _FILE_HEADER
    while position + _PACKET_HEADER <= len(data):
        kept = int.from_bytes(data[position + 8 : position + 12], sys.byteorder)
        start = position + _PACKET_HEADER + _ETHERNET
        following = position + _PACKET_HEADER + kept
        if following > len(data):
            return
        tcp = start + (data[start] & 15) * 4
        source, destination = (int.from_bytes(data[tcp + i : tcp + i + 2]) for i in (0, 2))
        size = start + int.from_bytes(data[start + 2 : start + 4]) - tcp - (data[tcp + 12] >> 4) * 4
        sequence = int.from_bytes(data[tcp + 4 : tcp + 8])
        yield DumpedSegment(position, source, destination, data[tcp : tcp + 4], sequence, size)
        position = following


def measured(path: Path) -> Traffic:
    """Counts what is in a capture that `recorded` wrote."""
    count = repeated = 0
    following: dict[bytes, int] = {}
    for packet in packets(path):
        count += 1
        if packet.size:
            repeated += packet.sequence != following.get(packet.way, packet.sequence)
            following[packet.way] = (packet.sequence + packet.size) & 0xFFFFFFFF
    connections = {frozenset((way[:2], way[2:])) for way in following}
    return Traffic(path.stat().st_size, count, len(connections), repeated)


class Recording:
    """A tcpdump that records."""

    def __init__(self, process: subprocess.Popen[bytes], output: IO[str]) -> None:
        self.process = process
        self._output = output

    @property
    def messages(self) -> str:
        """tcpdump's output so far; once it has ended, with how much it captured and the kernel dropped."""
        self._output.seek(0)
        return self._output.read()

    def end(self) -> None:
        """Asks tcpdump to end, and waits until it has written what it had captured."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait(_END_TIMEOUT_S)

    def counted(self, what: str) -> int | None:
        """Packets that were "captured", or "dropped by kernel", from tcpdump's last lines; None where they lack it."""
        found = re.search(rf"(\d+) packets? {what}", self.messages)
        return None if found is None else int(found[1])


@contextlib.contextmanager
def recording(path: Path, *ports: int) -> Iterator[Recording]:
    """Writes every packet from and to `ports` on loopback to `path`, from now on until `Recording.end`, or the block's.

    Raises RecordingError where tcpdump is missing or may not record.
    """
    tcpdump = shutil.which("tcpdump")
    if tcpdump is None:
        raise RecordingError("no tcpdump in PATH: install it (apt-get install tcpdump)")
    # To standard output: when it runs as root tcpdump gives up its rights before it opens a file.
    command = [tcpdump, "-i", _LOOPBACK, "-n", "-U", "-s", "0", "-B", "16384", "-w", "-"]
    command += ["tcp and (" + " or ".join(f"port {port}" for port in ports) + ")"]
    with path.open("wb") as target, tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=target, stderr=output, start_new_session=True
        )
        running = Recording(process, output)
        orphans.watch(process.pid)
        try:
            deadline = time.monotonic() + _START_TIMEOUT_S
            while "listening on" not in running.messages:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RecordingError(
                        "tcpdump does not record (it needs root or the capability CAP_NET_RAW): "
                        + running.messages.strip()
                    )
                time.sleep(0.05)
            yield running
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            orphans.forget(process.pid)


@contextlib.contextmanager
def recorded(path: Path, *ports: int) -> Iterator[None]:
    """Writes every packet from and to `ports` on loopback to `path` while the block runs.

    Raises RecordingError where tcpdump is missing or may not record, and when the kernel dropped packets.
    """
    with recording(path, *ports) as running:
        yield
        end = _end(path, ports[0])
        running.end()
        if end is None or running.counted("dropped by kernel") != 0:
            raise RecordingError(f"the capture is not complete: {running.messages.strip()}")
    os.truncate(path, end)


def _end(path: Path, port: int) -> int | None:
    """Waits until all that was sent so far is in the file; its size then. None if that takes too long.

    tcpdump writes packets in their order: once one is there that is sent now, all others are.
    """
    before = path.stat().st_size
    with socket.socket() as knocking:
        knocking.bind((_HOST, 0))
        own = knocking.getsockname()[1]
        with contextlib.suppress(OSError):  # an answer is not needed
            knocking.connect((_HOST, port))
    deadline = time.monotonic() + _LAST_TIMEOUT_S
    while time.monotonic() < deadline:
        for packet in packets(path):
            if packet.position >= before and own in (packet.source, packet.destination):
                return packet.position
        time.sleep(0.05)
    return None
