"""`PartitionChecks`: all checks of one replica of a partition, while the summaries of its parts are merged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kafkawire import rows
from kafkawire.logdir import Partition
from kafkawire.transactions.answers import (
    DUPLICATE_BATCH,
    LOG_CHECKS,
    NEW_EPOCH_FROM_ZERO,
    SEQUENCE_CONTIGUOUS,
    Answer,
)
from kafkawire.transactions.checks.aborted_index import TransactionIndexCheck
from kafkawire.transactions.checks.derived_files import SnapshotCheck
from kafkawire.transactions.checks.log_checks import LogChecks
from kafkawire.transactions.endings import ABORT_CODE, PACKED, Packed, packed
from kafkawire.transactions.facts import Segment
from kafkawire.transactions.producer_append import BEFORE, OUTCOMES, Append
from kafkawire.transactions.replay import PRODUCER_ID_EXPIRATION_MS, Ended, Followed, Replay
from kafkawire.transactions.span import Span

_FAR = np.iinfo(np.int64).max
#: Its batches are written by group coordinators, for producers too (TxnOffsetCommit), each from sequence number 0 on;
#: brokers do not check the numbers of what they append themselves (`AppendOrigin.COORDINATOR`).
_OF_COORDINATORS = "__consumer_offsets"
_OF_NUMBERS = frozenset({SEQUENCE_CONTIGUOUS, NEW_EPOCH_FROM_ZERO, DUPLICATE_BATCH})


class SpanEnded(NamedTuple):
    """The transactions that a span ends, in the order of their markers; and those of them that its steps end."""

    all: Packed
    of_steps: Packed


class PartitionChecks:
    """Takes spans in the order of the log, or single batches where a span does not fit; and the end of each segment.

    Args:
        expiration_ms: producer.id.expiration.ms of the broker.
        others: replays that follow, too.

    Attributes:
        replay: the state of the producers, as the log alone gives it.
    """

    def __init__(
        self,
        partition: Partition,
        *,
        expiration_ms: int = PRODUCER_ID_EXPIRATION_MS,
        others: Sequence[Replay] = (),
    ) -> None:
        self.replay = Replay()
        self._others = others
        self._log = LogChecks(expiration_ms)
        self._numbered = partition.topic != _OF_COORDINATORS
        self._index = TransactionIndexCheck(partition)
        self._snapshots = SnapshotCheck(partition.snapshots)

    @property
    def since_snapshot(self) -> Replay | None:
        """The state of the producers by the last snapshot behind offsets that are missing, and the log behind it; None
        where nothing is missing before a snapshot."""
        return self._snapshots.replay

    def add(self, append: Append) -> Ended | None:
        """Take the next batch. Returns the transaction that it ends."""
        self._snapshots.reach(append.base_offset, append.intact_from, self.replay)
        self._log.see(self.replay.producers.get(append.producer_id), append)
        ended = self.replay.add(append)
        if ended is not None:
            self._index.add(ended, append.intact_from)
        for replay in self._following:
            replay.add(append)
        return ended

    @property
    def _following(self) -> list[Replay]:
        of_snapshots = self._snapshots.replay, self._snapshots.doubted
        return [*self._others, *(replay for replay in of_snapshots if replay is not None)]

    def take(self, span: Span, intact_from: int) -> SpanEnded | None:
        """Take the next span. Returns what it ends; None, and nothing has changed, where the span was judged from
        another state: its batches have to be added.

        Args:
            intact_from: of a batch whose own is `BEFORE`.
        """
        if not span.regular or intact_from > span.first_offset:
            return None
        first = intact_from if span.intact_from == BEFORE else span.intact_from
        self._snapshots.reach(span.first_offset, first, self.replay)
        joint = self._snapshots.next_offset
        judged = self._judged(span)
        if judged is None or (joint is not None and joint <= span.last_offset):
            return None
        checks = LogChecks(self._log.expiration_ms)
        checks.clock = self._log.clock
        followed = self.replay.followed(span, intact_from, checks)
        others = [(replay, replay.followed(span, intact_from)) for replay in self._following]
        starts = [*self.replay.ongoing.values(), span.first_offset]
        if followed is None or starts != sorted(starts):
            return None
        if any(one is None for _, one in others):
            return None
        ended = self._take(span, followed, intact_from)
        for replay, one in others:
            assert one is not None
            replay.take(span, one)
        self._log.take(checks.answers())
        self._log.take(judged)
        self._log.clock = max(self._log.clock, span.clock)
        return ended

    def _judged(self, span: Span) -> Sequence[Answer] | None:
        """The answers that hold by the clock of the parts before; None where neither does."""
        if span.oldest is None or span.newest is None or self._log.clock - span.oldest < self._log.expiration_ms:
            return span.answers
        return span.forgotten if self._log.clock - span.newest >= self._log.expiration_ms else None

    def _take(self, span: Span, followed: Followed, intact_from: int) -> SpanEnded:
        """Update the state; the aborted transactions are those that the index should have."""
        by_steps = packed([ending for _, ending in followed.ended])
        of_leaps = np.frombuffer(span.endings, PACKED)
        ended = np.concatenate([by_steps, of_leaps])
        intact = np.full(len(ended), BEFORE)
        intact[: len(by_steps)] = [append.intact_from for append, _ in followed.ended]
        intact[len(by_steps) :][of_leaps["outcome"] == ABORT_CODE] = np.frombuffer(span.intact, np.int64)
        intact[intact == BEFORE] = intact_from
        if len(by_steps):  # those of leaps are in order, and steps are a producer's first batches: few have to move
            last = int(ended["offset"][: len(by_steps)].max())
            mixed = len(by_steps) + int(np.searchsorted(of_leaps["offset"], last))
            order = np.argsort(ended["offset"][:mixed], kind="stable")
            ended[:mixed], intact[:mixed] = ended[:mixed][order], intact[:mixed][order]
        self.replay.take(span, followed)
        self._index.begun(ended["first_offset"], ended["producer_id"])
        aborted = ended["outcome"] == ABORT_CODE
        if aborted.any():
            stable = self._stable_offsets(ended, aborted)
            for row, known_from, offset in zip(
                ended[aborted].tolist(), intact[aborted].tolist(), stable.tolist(), strict=True
            ):
                producer_id, marker, timestamp, first_offset, data_epoch, marker_epoch, code, *_ = row
                self._index.add(
                    Ended(
                        producer_id, OUTCOMES[code], first_offset, marker, offset, data_epoch, marker_epoch, timestamp
                    ),
                    known_from,
                )
        return SpanEnded(ended, by_steps[np.argsort(by_steps["offset"], kind="stable")])

    def _stable_offsets(self, ended: Packed, chosen: np.typing.NDArray[np.bool_]) -> np.typing.NDArray[np.int64]:
        """For each of the chosen ones the first offset of the earliest transaction that is open when it ends, or the
        offset behind its marker."""
        open_ = np.array(list(self.replay.ongoing.values()), np.int64)
        first = np.concatenate([ended["first_offset"], open_])
        order = np.argsort(first, kind="stable")
        first = np.append(first[order], _FAR)
        closed = np.maximum.accumulate(np.concatenate([ended["offset"], np.full(len(open_), _FAR)])[order])
        markers = ended["offset"][chosen]
        earliest: np.typing.NDArray[np.int64] = first[np.searchsorted(closed, markers, side="right")]
        return np.where(earliest < markers, earliest, markers + 1)

    def end_segment(self, segment: Segment, *, last: bool) -> None:
        """A segment has been read to its end."""
        # A broker leaves a snapshot at the end of each log where it is shut down cleanly, and where a segment begins.
        written = not last or self._snapshots.last_offset == segment.end_offset > segment.base_offset
        self._index.end_segment(segment, self.replay.ongoing, last=last, written=written)
        if last:
            self._snapshots.reach(segment.end_offset, segment.intact_from, self.replay)
            self._snapshots.finish()

    @property
    def damage(self) -> list[rows.DamageRow]:
        """Of snapshots and of transaction indexes."""
        return [*self._snapshots.damage, *self._index.damage]

    def answers(self) -> list[Answer]:
        """The answer of each of `LOG_CHECKS`, in that order, once the last segment has ended."""
        of_log = (
            answer if self._numbered or answer.check not in _OF_NUMBERS else Answer(check=answer.check)
            for answer in self._log.answers()
        )
        answers = [*of_log, self._index.tally.answer(), self._snapshots.tally.answer()]
        return sorted(answers, key=lambda answer: LOG_CHECKS.index(answer.check))
