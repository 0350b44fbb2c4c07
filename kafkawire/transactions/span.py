"""`Span`: what a stretch of a log adds to the state of its producers, made without the state before it.

Rules of a batch need the state of its producer before it. A span therefore has, for each producer, steps: its first
batches, to be replayed on the state before the span. As soon as these determine the state, it has a leap
over all further batches, judged already. A leap names the state that it was judged from; it is compared with the real
one, so that a span is never taken where it does not hold.
"""

from __future__ import annotations

import msgspec

from kafkawire.transactions.answers import Answer
from kafkawire.transactions.producer_append import Append
from kafkawire.transactions.producer_state import Producer, ProducerReplayState


class Step(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=0):
    """A batch to be replayed.

    Attributes:
        append: its `intact_from` may be `producer_append.BEFORE`.
        clock: the newest timestamp in the span up to it. `marker_time`: of the markers before it, None for none.
    """

    append: Append
    clock: int
    marker_time: int | None


class Leap(msgspec.Struct, frozen=True, gc=False, array_like=True, tag=1):
    """Batches of a producer that were judged from the state `before`.

    Attributes:
        after: the state behind them. `first_offset`: of the transaction that is open then; None: as before them.
            `first_timestamp`: of its first batch. `batches`: of it, or how many are added to the one before.
        coordinator_epoch, marked_at: of their last marker, its coordinator's epoch and its timestamp; None and -1: as
            before them.
        in_transaction: one of them has data of a transaction; the newest marker of the span before the last of these
            has the timestamp `marker_time`, None for none.
    """

    before: ProducerReplayState
    after: ProducerReplayState
    first_offset: int | None
    coordinator_epoch: int | None
    in_transaction: bool
    marker_time: int | None
    first_timestamp: int = -1
    batches: int = 0
    marked_at: int = -1

    def move(self, producer: Producer) -> None:
        """Bring a producer from `before` to its state behind the batches, but for `written_after` and `written_by`."""
        producer.become(self.after)
        if self.first_offset is not None:
            producer.begin(self.first_offset, self.first_timestamp, self.batches)
        elif producer.first_offset >= 0:
            producer.count(self.batches)
        if self.coordinator_epoch is not None:
            producer.coordinator_epoch, producer.marked_at = self.coordinator_epoch, self.marked_at


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """The batches of producers in a part, or in a stretch of it between two joints: offsets of `.snapshot` files.

    Attributes:
        rows: number of batches; with 0 the other fields mean nothing. `first_offset`, `last_offset`: of the first, of
            the last.
        intact_from: of the first batch.
        regular: offsets ascend. If not, only `rows` counts: the part has to be replayed.
        programs: by producer id, in the order of their first batches.
        answers: of `LogChecks`, for the batches in leaps. `forgotten`: the same, where brokers may have dropped every
            idle producer's state before each of its batches.
        oldest, newest: timestamps of the idle states that leaps start from. They and the clock of the parts before
            decide which of the two answers holds. None where there is none.
        endings: packed (`endings.PACKED`), the transactions that ended in leaps.
        intact: for each aborted one of these the `intact_from` of its marker, int64.
        clock: the newest timestamp. `marker_time`: the newest of a marker, None for none.
        last_marker: timestamp and last offset of the last COMMIT or ABORT.
        stamp: the first `Append.stamp`, None for none.
        written_by: of each producer whose data of a transaction no marker of its own follows in the span: its id, and
            the first stamp on or behind its last such batch, None for none.
    """

    rows: int
    first_offset: int = 0
    last_offset: int = 0
    intact_from: int = 0
    regular: bool = True
    programs: tuple[tuple[int, tuple[Step | Leap, ...]], ...] = ()
    answers: tuple[Answer, ...] = ()
    forgotten: tuple[Answer, ...] = ()
    oldest: int | None = None
    newest: int | None = None
    endings: bytes = b""
    intact: bytes = b""
    clock: int = -1
    marker_time: int | None = None
    last_marker: tuple[int, int] | None = None
    stamp: int | None = None
    written_by: tuple[tuple[int, int | None], ...] = ()
