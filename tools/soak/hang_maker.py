"""Transactions that hang as those of producers before KIP-890 did: each is made, reported, aborted, and reported as
ended."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tools import ROOT
from tools.broker import RunningCluster
from tools.polling import until
from tools.recordings.raw_client import RawCluster, RawProducer

from .child_process import SoakError
from .watch_process import TransactionKey, WatchProcess

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
            until(lambda: self._reported(hang), f"the report of {hang.place}", seconds=_REPORT_S)
            meanwhile()
        self.finish()

    def finish(self) -> None:
        """Waits for the report of the one that hangs, if one does, aborts it, and waits for that to be reported."""
        hang = self._open
        if hang is None:
            return
        until(lambda: self._reported(hang), f"the report of {hang.place}", seconds=_REPORT_S)
        self.scraped += until(
            lambda: self.watching.scraped_hanging() or None, "a hang in the metrics", seconds=_REPORT_S
        )
        until(lambda: self._aborted(hang), f"the abort of {hang.place}", seconds=_ABORT_S)
        until(lambda: self._ended(hang), f"the report that {hang.place} has ended", seconds=_REPORT_S)
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

    def _reported(self, hang: HangingTransaction) -> bool | None:
        self.watching.child.check()
        return self.watching.is_hanging(hang.place) or None

    def _ended(self, hang: HangingTransaction) -> bool | None:
        self.watching.child.check()
        return self.watching.has_ended(hang.place) or None

    def _aborted(self, hang: HangingTransaction) -> bool | None:
        """`kafkawire txn abort`; None where it could not be judged now, as while brokers restart."""
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
        return None
