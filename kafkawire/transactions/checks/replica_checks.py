"""`PartitionChecks`: all checks of one replica of a partition, while its log is read once."""

from __future__ import annotations

from kafkawire.logdir import Partition
from kafkawire.transactions.answers import LOG_CHECKS, Answer
from kafkawire.transactions.checks.derived_files import SnapshotCheck, TransactionIndexCheck
from kafkawire.transactions.checks.log_checks import LogChecks
from kafkawire.transactions.facts import Segment
from kafkawire.transactions.producer_append import Append
from kafkawire.transactions.replay import PRODUCER_ID_EXPIRATION_MS, Ended, Replay
from kafkawire.transactions.replica_files import read_segment


class PartitionChecks:
    """Takes the batches of producers in offset order, and the end of each segment.

    Attributes:
        replay: the state of the producers, as the log alone tells it.
    """

    def __init__(self, partition: Partition, *, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self.replay = Replay()
        self._log = LogChecks(expiration_ms)
        self._index = TransactionIndexCheck(partition.txn_indexes)
        self._snapshots = SnapshotCheck(partition.snapshots)
        self._next_snapshot = self._snapshots.next_offset

    def add(self, append: Append) -> Ended | None:
        """Take the next batch. Returns the transaction that it ends."""
        if self._next_snapshot is not None and append.base_offset >= self._next_snapshot:
            self._snapshots.reach(append.base_offset, append.intact_from, self.replay)
            self._next_snapshot = self._snapshots.next_offset
        self._log.see(self.replay.producers.get(append.producer_id), append)
        ended = self.replay.add(append)
        if ended is not None:
            self._index.add(ended, append.intact_from)
        self._snapshots.add(append)
        return ended

    def end_segment(self, segment: Segment, *, last: bool) -> None:
        """A segment has been read to its end."""
        # A broker that is shut down cleanly leaves a snapshot at the end of each log.
        written = not last or self._snapshots.last_offset >= segment.end_offset
        self._index.end_segment(segment.base_offset, segment.end_offset, segment.intact_from, written=written)
        if last:
            self._snapshots.reach(segment.end_offset, segment.intact_from, self.replay)
            self._snapshots.finish()

    def answers(self) -> list[Answer]:
        """What each of `LOG_CHECKS` says, in that order, once the last segment has ended."""
        answers = [*self._log.answers(), self._index.tally.answer(), self._snapshots.tally.answer()]
        return sorted(answers, key=lambda answer: LOG_CHECKS.index(answer.check))


def check(partition: Partition, *, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> list[Answer]:
    """Hold one replica of a partition against the rules that its own files can prove.

    Args:
        expiration_ms: producer.id.expiration.ms of the broker.

    Raises:
        OSError: the directory is gone.
    """
    checks = PartitionChecks(partition, expiration_ms=expiration_ms)
    segment: Segment | None = None
    for i, file in enumerate(partition.segments):
        for fact in read_segment(file, segment):
            if isinstance(fact, Append):
                checks.add(fact)
            elif isinstance(fact, Segment):
                segment = fact
        assert segment is not None
        checks.end_segment(segment, last=i + 1 == len(partition.segments))
    return checks.answers()
