"""`kafkawire txn watch` as a process, with its rows and metrics; and transactions that hang for it.

They hang as those of producers before KIP-890 did. Each is made, reported, aborted, and reported as ended.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from tools import ROOT
from tools.broker import RunningCluster
from tools.polling import until
from tools.recordings.raw_client import RawCluster, RawProducer

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
        self.child.end(signal.SIGTERM, expected=_TERMINATED)

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


# Hanging transactions -------------------------------------------------------------------------------------------------

_HOUR_MS = 3_600_000
_RECORDS = 3
#: A key as no record of the load has it.
_VALUES = tuple(b"left open, %d" % i for i in range(_RECORDS))
_REPORT_S = 600.0
_ABORT_S = 300.0
_INVALID_TXN_STATE = 48


@dataclass(frozen=True)
class HangingTransaction:
    """One that was made. `place`: what it is known by; `offset`: of its first record."""

    place: TransactionKey
    offset: int
    records: int = _RECORDS


@dataclass
class HangingTransactions:
    """Makes them, one at a time.

    Attributes:
        made: all of them. `exchanges`: that the making took, under the client id of `tools.recordings.raw_client`.
        scraped: how often the metrics showed a hanging one while one hung.
    """

    running: RunningCluster
    watching: WatchProcess
    topic: str
    partitions: int
    folder: Path
    made: list[HangingTransaction] = field(default_factory=list)
    exchanges: int = 0
    scraped: int = 0
    _open: HangingTransaction | None = None

    def one(self, meanwhile: Callable[[], object] | None = None) -> None:
        """Makes one, does something once it is reported, and finishes it.

        Raises SoakError where a report does not come, or the transaction cannot be aborted."""
        number = len(self.made)
        hang = self._make(number % self.partitions, transactional=bool(number % 2))
        self.made.append(hang)
        self._open = hang
        if meanwhile is not None:
            self._await(lambda: self.watching.is_hanging(hang.place), f"the report of {hang.place}")
            meanwhile()
        self.finish()

    def finish(self) -> None:
        """Waits for the report of the one that hangs, if one does, aborts it, and waits for that to be reported."""
        hang = self._open
        if hang is None:
            return
        self._await(lambda: self.watching.is_hanging(hang.place), f"the report of {hang.place}")
        self.scraped += until(
            lambda: self.watching.scraped_hanging() or None, "a hang in the metrics", seconds=_REPORT_S
        )
        until(lambda: self._aborted(hang), f"the abort of {hang.place}", seconds=_ABORT_S)
        self._await(lambda: self.watching.has_ended(hang.place), f"the report that {hang.place} has ended")
        self._open = None

    def _make(self, partition: int, *, transactional: bool) -> HangingTransaction:
        """Of a producer id that was allocated without a transactional id, or of one whose coordinator does not know
        the partition."""
        then = int(time.time() * 1000) - 3 * _HOUR_MS
        with RawCluster(self.running.bootstrap) as wire:
            producer: RawProducer = wire.init_producer(f"soak-hung-{len(self.made)}" if transactional else None)
            offset = wire.produce(self.topic, partition, _VALUES, producer, timestamp=then)
            if transactional and (code := wire.end(producer, committed=True)) != _INVALID_TXN_STATE:
                raise SoakError(f"EndTxn of a transaction that no coordinator knows answers {code}")
            self.exchanges += len(wire.exchanges)
        return HangingTransaction(TransactionKey(self.topic, partition, producer.producer_id), offset)

    def _await(self, reported: Callable[[], bool], what: str) -> None:
        """Waits for a report of `txn watch`."""

        def there() -> bool:
            self.watching.child.check()
            return reported()

        until(there, what, seconds=_REPORT_S)

    def _aborted(self, hang: HangingTransaction) -> bool:
        """`kafkawire txn abort`; False where it could not be judged now, as while brokers restart."""
        topic, partition, _ = hang.place
        command = [sys.executable, "-m", "kafkawire", "txn", "abort", "--bootstrap-server", self.running.bootstrap]
        command += ["--topic", topic, "--partition", str(partition), "--start-offset", str(hang.offset), "--yes"]
        command += ["--format", "jsonl", "--audit-log", str(self.folder / "audit.jsonl")]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=_ABORT_S, check=False)
        outcomes = [json.loads(line).get("Outcome") for line in done.stdout.splitlines()]
        if done.returncode == 0 and outcomes == ["aborted"]:
            return True
        if "aborted" in outcomes or "not_verified" in outcomes:
            raise SoakError(f"txn abort ended with {done.returncode}: {done.stdout}{done.stderr}")
        return False
