"""`kafkawire txn watch` as a process: its rows as they come, and its metrics."""

from __future__ import annotations

import re
import signal
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from tools.polling import until

from .child_process import ChildProcess, SoakError, child

_INTERVAL_S = 5.0
_START_S = 60.0
#: It ends so on SIGTERM.
_TERMINATED = 143
_HANGING = re.compile(r'^kafkawire_open_transactions\{.*verdict="hanging".*\} ([\d.]+)$', re.MULTILINE)


class TransactionKey(NamedTuple):
    """What a transaction is known by in a partition."""

    topic: str
    partition: int
    producer_id: int


class _Finding(msgspec.Struct):
    verdict: str
    topic: str
    partition: int
    producer_id: int


class _WatchLine(msgspec.Struct):
    """A change, or a poll: the fields that are counted."""

    kind: str
    poll: int
    change: str | None = None
    finding: _Finding | None = None
    outcome: str | None = None
    missed: int = 0


class WatchProcess:
    """What it has reported.

    Attributes:
        hanging: how often each transaction was reported as hanging. `gone`: how often as ended.
        outcomes: of its polls. `missed`: polls that were skipped.
    """

    def __init__(self) -> None:
        self.hanging: Counter[TransactionKey] = Counter()
        self.gone: Counter[TransactionKey] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.missed = 0
        self.numbers: list[int] = []
        self._hangs_now: set[TransactionKey] = set()
        self.child: ChildProcess

    def take(self, line: bytes) -> None:
        row = msgspec.json.decode(line, type=_WatchLine)
        if row.kind == "poll":
            self.numbers.append(row.poll)
            self.outcomes[row.outcome or ""] += 1
            self.missed += row.missed
        elif row.finding is not None:
            self._change(row.change or "", row.finding)

    def is_hanging(self, place: TransactionKey) -> bool:
        """Whether it was reported, and has not been called anything else since."""
        return place in self._hangs_now

    def has_ended(self, place: TransactionKey) -> bool:
        return self.gone[place] > 0

    @property
    def address(self) -> str:
        """Where its metrics are."""

        def address() -> str | None:
            self.child.check()
            found = re.search(r"metrics are at (\S+)", self.child.complaints)
            return None if found is None else found[1]

        return until(address, "the metrics of txn watch", seconds=_START_S)

    def scraped_hanging(self) -> int:
        """The number that hang, from its metrics. Raises OSError where these are not served."""
        with urllib.request.urlopen(self.address, timeout=10) as answer:
            return sum(round(float(value)) for value in _HANGING.findall(answer.read().decode()))

    def end(self) -> None:
        """Raises SoakError where it does not end as it should."""
        self.child.check()
        status = self.child.end(signal.SIGTERM)
        if status != _TERMINATED:
            raise SoakError(f"txn watch ended with {status}: {self.child.complaints}")

    def _change(self, change: str, finding: _Finding) -> None:
        place = TransactionKey(finding.topic, finding.partition, finding.producer_id)
        if change == "gone":
            self.gone[place] += 1
            self._hangs_now.discard(place)
        elif finding.verdict == "hanging":
            self.hanging[place] += 1
            self._hangs_now.add(place)
        else:
            self._hangs_now.discard(place)


@contextmanager
def watching(bootstrap: str, topic: str, folder: Path, *, interval_s: float = _INTERVAL_S) -> Iterator[WatchProcess]:
    """Runs it until the block ends. What others left open in other topics is not of the soak's making.

    Args:
        folder: is made, for its temporary files. `interval_s`: seconds between the starts of two polls.
    """
    command = [sys.executable, "-m", "kafkawire", "txn", "watch", "--bootstrap-server", bootstrap, "--topic", topic]
    command += ["--interval", f"{interval_s:g}", "--listen", "0", "--every-poll"]
    found = WatchProcess()
    with child("txn watch", command, folder, found.take) as found.child:
        yield found
