"""tcpdump, `kafkawire capture --follow` on the file that it writes, and the exchanges that this command has read.

Blocks that have been read are freed on the disk, while the file keeps growing.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tools.polling import until
from tools.recordings.tcpdump import Recording, recording

from .child_process import ChildProcess, SoakError, child

_QUIET_S = 3.0
_END_S = 120.0
_BLOCK = 1 << 20
_NUMBER = re.compile(r"\d+")
#: It ends so on Ctrl-C.
_INTERRUPTED = 130


class _ExchangeCount(msgspec.Struct):
    """An exchange, in what is counted of it."""

    api: str | None
    client_id: str | None
    request_bytes: int | None
    response_bytes: int | None
    problem: str | None = None


class CaptureProcess:
    """What it has read.

    Attributes:
        requests: by (client id, api). `responses`: by client id. `problems`: by kind, `N` for numbers.
        captured, dropped: packets, from tcpdump's last lines.
    """

    def __init__(self, path: Path) -> None:
        self.requests: Counter[tuple[str, str]] = Counter()
        self.responses: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.exchanges = 0
        self.captured = 0
        self.dropped = 0
        self.bytes = 0
        self.child: ChildProcess
        self.recording: Recording
        self.folder = path.parent
        self._path = path
        self._given_back = 0
        self._last = time.monotonic()

    def take(self, line: bytes) -> None:
        row = msgspec.json.decode(line, type=_ExchangeCount)
        self.exchanges += 1
        client = row.client_id or ""
        self.requests[client, row.api or ""] += row.request_bytes is not None
        self.responses[client] += row.response_bytes is not None
        if row.problem is not None:
            self.problems[_NUMBER.sub("N", row.problem)] += 1
        self._last = time.monotonic()

    @property
    def read(self) -> int:
        """How far in the file the reader is."""
        for number in os.listdir(f"/proc/{self.child.process.pid}/fd"):
            try:
                if os.readlink(f"/proc/{self.child.process.pid}/fd/{number}") == str(self._path):
                    fields = Path(f"/proc/{self.child.process.pid}/fdinfo/{number}").read_text()
                    return int(fields.split()[1])
            except OSError:
                continue  # closed since it was listed
        return 0

    def give_back(self) -> None:
        """Gives the blocks that have been read back to the disk, where the file system can."""
        until_there = self.read // _BLOCK * _BLOCK
        size = until_there - self._given_back
        if size <= 0:
            return
        where = ["--offset", str(self._given_back), "--length", str(size), str(self._path)]
        done = subprocess.run(["fallocate", "--punch-hole", *where], capture_output=True, check=False)
        if done.returncode == 0:
            self._given_back = until_there

    def check(self) -> None:
        """Raises SoakError where one of the two has ended."""
        self.child.check()
        if self.recording.process.poll() is not None:
            raise SoakError(f"tcpdump has ended: {self.recording.messages.strip()}")

    def end(self) -> None:
        """Ends tcpdump, waits for the reader to have read all, and ends it. Raises SoakError."""
        self.check()
        self.recording.end()
        captured, dropped = (self.recording.counted(what) for what in ("captured", "dropped by kernel"))
        if captured is None or dropped is None:
            raise SoakError(f"tcpdump did not report its counts: {self.recording.messages.strip()}")
        self.captured, self.dropped, self.bytes = captured, dropped, self._path.stat().st_size
        until(lambda: self.read == self.bytes, "the end of the capture", seconds=_END_S)
        until(lambda: time.monotonic() - self._last > _QUIET_S, "the last exchange", seconds=_END_S)
        self.child.end(signal.SIGINT, expected=_INTERRUPTED)


@contextmanager
def capturing(ports: Sequence[int], folder: Path) -> Iterator[CaptureProcess]:
    """Records the traffic of these ports on loopback, and reads it, until the block ends.

    Raises RecordingError where tcpdump is missing or may not record."""
    folder.mkdir(parents=True)
    path = (folder / "traffic.pcap").resolve()
    found = CaptureProcess(path)
    command = [sys.executable, "-m", "kafkawire", "capture", "--follow", str(path), "--body", "--format", "jsonl"]
    with (
        recording(path, *ports) as found.recording,
        child("capture --follow", command, folder / "reader", found.take) as found.child,
    ):
        yield found
