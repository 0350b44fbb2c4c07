"""`PartitionChecks`: all checks of one replica of a partition, as its parts are merged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kafkawire import rows
from kafkawire.logdir import Partition
from kafkawire.records.control import ABORT_CODE
from kafkawire.transactions.answers import Answer
from kafkawire.transactions.checks.aborted_index import TransactionIndexCheck
from kafkawire.transactions.checks.check_names import LOG_CHECKS
from kafkawire.transactions.checks.derived_files import SnapshotCheck
from kafkawire.transactions.facts import Segment
from kafkawire.transactions.log.appends import Appends
from kafkawire.transactions.log.batch_rules import RULES
from kafkawire.transactions.log.endings import PACKED, stacked
from kafkawire.transactions.log.log_checks import LogChecks
from kafkawire.transactions.log.ordered_replay import EndedRows, OrderedReplay, ordered_replay
from kafkawire.transactions.log.producer_append import OUTCOMES
from kafkawire.transactions.log.replay import PRODUCER_ID_EXPIRATION_MS, Ended
from kafkawire.transactions.log.spill import Packed

#: Its batches are written by group coordinators, for producers too (TxnOffsetCommit), each from sequence number 0 on;
#: brokers do not check the numbers of what they append themselves (`AppendOrigin.COORDINATOR`).
_OF_COORDINATORS = "__consumer_offsets"
_OF_NUMBERS = frozenset(rule.name for rule in RULES if rule.numbers)


class PartitionChecks:
    """Takes batches in the order of the log, and the end of each segment. `expiration_ms`: producer.id.expiration.ms of
    the broker. `others`: replays that follow, too. `replay`: the state of the producers, as the log alone gives it."""

    def __init__(
        self,
        partition: Partition,
        *,
        expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        others: Sequence[OrderedReplay] = (),
    ) -> None:
        self._log = LogChecks(expiration_ms)
        self.replay = ordered_replay(checks=self._log)
        self._others = others
        self._numbered = partition.topic != _OF_COORDINATORS
        self._index = TransactionIndexCheck(partition)
        self._snapshots = SnapshotCheck(partition.snapshots)

    @property
    def since_snapshot(self) -> OrderedReplay | None:
        """The state of the producers by the last snapshot after offsets that are missing, and the log after it; None
        where nothing is missing before a snapshot."""
        return self._snapshots.replay

    @property
    def _following(self) -> list[OrderedReplay]:
        of_snapshots = self._snapshots.replay, self._snapshots.doubted
        return [*self._others, *(replay for replay in of_snapshots if replay is not None)]

    def take(self, appends: Appends) -> Packed:
        """Take the next batches. Returns the transactions that they end, in the order of their markers."""
        found, at = list[Packed](), 0
        while at < len(appends):
            self._snapshots.reach(int(appends.base_offset[at]), int(appends.intact_from[at]), self.replay)
            stop = self._before_snapshot(appends, at)
            part = appends.where(slice(at, stop))
            ended = self.replay.run(part)
            for replay in self._following:
                replay.run(part)
            self._ended(ended)
            found.append(ended.rows)
            at = stop
        return stacked(found, PACKED)

    def _before_snapshot(self, appends: Appends, at: int) -> int:
        """The first batch after another that the next `.snapshot` is compared before."""
        at_snapshot = self._snapshots.next_offset
        reached = (
            [] if at_snapshot is None else np.flatnonzero(appends.base_offset[at + 1 :] >= at_snapshot)[:1].tolist()
        )
        return at + 1 + reached[0] if reached else len(appends)

    def _ended(self, ended: EndedRows) -> None:
        """The aborted transactions are those that the index should have."""
        rows = ended.rows
        self._index.begun(rows["first_offset"], rows["producer_id"])
        for at in np.flatnonzero(rows["outcome"] == ABORT_CODE).tolist():
            producer_id, marker, timestamp, first_offset, data_epoch, marker_epoch, code, *_ = rows[at].tolist()
            stable, outcome = int(ended.last_stable_offset[at]), OUTCOMES[code]
            self._index.add(
                Ended(producer_id, outcome, first_offset, marker, stable, data_epoch, marker_epoch, timestamp),
                int(ended.intact_from[at]),
            )

    def end_segment(self, segment: Segment, *, last: bool) -> None:
        """A segment has been read to its end."""
        # A broker leaves a snapshot at the end of each log where it is shut down cleanly, and where a segment begins.
        written = not last or self._snapshots.last_offset == segment.end_offset > segment.base_offset
        ongoing = {producer.producer_id: producer.first_offset for producer in self.replay.open()}
        self._index.end_segment(segment, ongoing, last=last, written=written)
        if last:
            self._snapshots.reach(segment.end_offset, segment.intact_from, self.replay)
            self._snapshots.finish()

    @property
    def damage(self) -> list[rows.DamageRow]:
        """The damage of snapshots and of transaction indexes."""
        return [*self._snapshots.damage, *self._index.damage]

    def answers(self) -> list[Answer]:
        """The answer of each of `LOG_CHECKS`, in that order, once the last segment has ended."""
        of_log = (
            answer if self._numbered or answer.check not in _OF_NUMBERS else Answer(check=answer.check)
            for answer in self._log.answers()
        )
        answers = [*of_log, self._index.tally.answer(), self._snapshots.tally.answer()]
        return sorted(answers, key=lambda answer: LOG_CHECKS.index(answer.check))
