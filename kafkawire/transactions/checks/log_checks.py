"""The rules of producers, which every batch of a partition's log is checked by (KIP-98, KIP-360, KIP-890; what Kafka's
`ProducerAppendInfo` refuses)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.transactions.answers import (
    COORDINATOR_EPOCH_MONOTONIC,
    DUPLICATE_BATCH,
    EPOCH_NOT_BACKWARDS,
    MARKER_SHAPE,
    MARKER_WITHOUT_DATA,
    MIXED_BATCHES,
    NEW_EPOCH_FROM_ZERO,
    SEQUENCE_CONTIGUOUS,
    Answer,
    Tally,
)
from kafkawire.transactions.producer_append import Append
from kafkawire.transactions.producer_state import Producer
from kafkawire.transactions.replay import PRODUCER_ID_EXPIRATION_MS

_GAP = "offsets are missing since the producer's batch before"
_DOUBT = "the producer's batch before broke a rule"
EXPIRED = "the producer's state may have expired since its batch before"


class LogChecks:
    """The checks that need nothing but the log; `see` takes each batch before the replay does.

    Args:
        expiration_ms: producer.id.expiration.ms of the broker. The clock is the newest timestamp so far: a producer
            that was idle for this long by it may have been forgotten, and may begin anew.

    Attributes:
        clock: the newest timestamp so far, -1 for none.
    """

    def __init__(self, expiration_ms: int = PRODUCER_ID_EXPIRATION_MS) -> None:
        self.expiration_ms = expiration_ms
        self.clock = -1
        self.sequence = Tally(SEQUENCE_CONTIGUOUS)
        self.from_zero = Tally(NEW_EPOCH_FROM_ZERO)
        self.duplicate = Tally(DUPLICATE_BATCH)
        self.epoch = Tally(EPOCH_NOT_BACKWARDS)
        self.coordinator_epoch = Tally(COORDINATOR_EPOCH_MONOTONIC)
        self.shape = Tally(MARKER_SHAPE)
        self.without_data = Tally(MARKER_WITHOUT_DATA)
        self.mixed = Tally(MIXED_BATCHES)

    @property
    def _tallies(self) -> tuple[Tally, ...]:
        return (
            self.sequence, self.from_zero, self.duplicate, self.epoch, self.coordinator_epoch, self.shape,
            self.without_data, self.mixed,
        )  # fmt: skip

    def answers(self) -> list[Answer]:
        """One for each check."""
        return [tally.answer() for tally in self._tallies]

    def take(self, answers: Iterable[Answer]) -> None:
        """Add the `answers` of other checks, of another part of the log."""
        for tally, answer in zip(self._tallies, answers, strict=True):
            tally.take(answer)

    def may_be_forgotten(self, producer: Producer, clock: int) -> bool:
        """Whether a broker may have dropped that state by the time `clock`."""
        return producer.first_offset < 0 and clock - producer.timestamp >= self.expiration_ms

    def see(self, producer: Producer | None, append: Append, clock: int | None = None) -> None:
        """Judge the step to a batch.

        Args:
            producer: the state before it; None for a producer that was not seen yet.
            clock: the newest timestamp of the span up to it, where batches come producer by producer. `self.clock`
                then stays at that of the parts before.
        """
        control = append.control
        if control is not None:
            if append.problem is None:
                self.shape.held += 1
            else:
                _breach(self.shape, append, append.problem)
            if producer is not None and producer.first_offset >= 0:
                self.without_data.held += 1
            elif control != MALFORMED:
                self.without_data.noted += 1
        if clock is None:
            clock = self.clock = max(self.clock, append.timestamp)
        clock = max(clock, self.clock)
        if control in (MALFORMED, EMPTY) or self._impossible(append) or producer is None or producer.epoch < 0:
            return
        if self.may_be_forgotten(producer, clock):
            self._forgotten(append)
            return
        in_doubt = producer.may_follow(append)
        if in_doubt:
            self._in_doubt(append)
        elif append.producer_epoch < producer.epoch:
            what = f"epoch {append.producer_epoch} after epoch {producer.epoch}"
            _breach(self.epoch, append, what, since=producer.last_append)
            return
        else:
            self.epoch.held += 1
        if control is not None:
            self._marker(producer, append)
        elif not in_doubt:
            self._data(producer, append)

    def _impossible(self, append: Append) -> bool:
        """Whether a number is one that no producer and no coordinator has; whatever was before it."""
        if append.producer_epoch < 0:
            _breach(self.epoch, append, f"epoch {append.producer_epoch}")
        elif append.coordinator_epoch is not None and append.coordinator_epoch < -1:
            _breach(self.coordinator_epoch, append, f"a marker of coordinator epoch {append.coordinator_epoch}")
        elif append.control is None and append.base_sequence < -1:
            _breach(self.sequence, append, f"sequence number {append.base_sequence}")
        else:
            return False
        return True

    def _marker(self, producer: Producer, append: Append) -> None:
        if append.coordinator_epoch is None or producer.coordinator_epoch < 0:
            return
        if append.coordinator_epoch < producer.coordinator_epoch:
            what = f"a marker of coordinator epoch {append.coordinator_epoch} after one of {producer.coordinator_epoch}"
            _breach(self.coordinator_epoch, append, what)
        else:
            self.coordinator_epoch.held += 1

    def _data(self, producer: Producer, append: Append) -> None:
        if producer.first_offset >= 0:
            if append.transactional:
                self.mixed.held += 1
            elif producer.last_append < append.intact_from:
                self.mixed.lack(_GAP)
            else:
                what = f"a batch outside of transactions while the one from offset {producer.first_offset} on is open"
                _breach(self.mixed, append, what)
                return
        if append.base_sequence < 0:
            if producer.last_sequence >= 0 and append.producer_epoch == producer.epoch:
                _breach(self.sequence, append, f"no sequence number after {producer.last_sequence}")
        elif append.producer_epoch > producer.epoch:
            if producer.last_append < append.intact_from:
                self.from_zero.lack(_GAP)
            else:
                self._first(append, producer.data_known_from)
        elif producer.data_known_from < append.intact_from:
            self.sequence.lack(_GAP)
            self.duplicate.lack(_GAP)
        elif producer.batches:
            self._next(producer, append)
        else:
            self._first(append, producer.data_known_from)

    def _first(self, append: Append, since: int) -> None:
        """The first batch of an epoch. `since`: of the producer's data before, where that is known."""
        if append.base_sequence:
            what = f"epoch {append.producer_epoch} begins with sequence number {append.base_sequence}"
            _breach(self.from_zero, append, what, since=since)
        else:
            self.from_zero.held += 1

    def _next(self, producer: Producer, append: Append) -> None:
        """A further batch of the epoch."""
        sequence = append.base_sequence
        if producer.follows(sequence):
            self.sequence.held += 1
            self.duplicate.held += 1
        elif (first := producer.duplicate(append)) is not None:
            what = (
                f"sequence numbers {sequence} to {append.last_sequence} again, "
                f"after offsets {first.last_offset - first.offset_delta} to {first.last_offset}"
            )
            since = first.last_offset - first.offset_delta
            _breach(self.duplicate, append, what, since=since)
        else:
            self.duplicate.held += 1
            what = f"sequence number {sequence} after {producer.last_sequence}"
            since = producer.data_known_from
            _breach(self.sequence, append, what, since=since)

    def _in_doubt(self, append: Append) -> None:
        """A batch that continues as if the producer's batch before, which broke a rule, did not count."""
        for tally in (self.epoch,) if append.control is not None else (self.epoch, self.sequence, self.duplicate):
            tally.lack(_DOUBT)

    def _forgotten(self, append: Append) -> None:
        """The step from a state that the broker may have dropped."""
        self.epoch.lack(EXPIRED)
        if append.control is not None:
            self.coordinator_epoch.lack(EXPIRED)
        elif append.base_sequence >= 0:
            for tally in (self.sequence, self.duplicate, self.from_zero):
                tally.lack(EXPIRED)


def _breach(tally: Tally, append: Append, what: str, since: int | None = None) -> None:
    tally.breach(append.base_offset, append.producer_id, what, since=since)
