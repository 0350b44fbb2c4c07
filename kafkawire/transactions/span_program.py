"""`Program`: the steps and leaps of one producer in a span; `SpanJudge`: judges the batches that leaps are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from kafkawire.records.control import EMPTY, MALFORMED
from kafkawire.transactions.checks.log_checks import LogChecks
from kafkawire.transactions.endings import ABORT_CODE, PACKED, packed
from kafkawire.transactions.producer_append import BEFORE, Append
from kafkawire.transactions.producer_state import BATCHES_TO_RETAIN, Producer, ProducerReplayState
from kafkawire.transactions.span import Leap, Step

#: Later than any timestamp: by this clock every idle producer may have been forgotten.
_END_OF_TIME = 1 << 64


class Program:
    """The steps and leaps of one producer.

    Attributes:
        producer: its state where nothing was known of it at first.
        inherited: its open transaction may have begun before the span.
        determined: its state does not depend on what was before the span, but for where an open transaction began and
            for the coordinator epoch, which is known where `coordinator_known`.
    """

    __slots__ = (
        "coordinator_known",
        "determined",
        "done",
        "in_transaction",
        "inherited",
        "leaps_from",
        "marked",
        "marker_time",
        "open_before",
        "producer",
        "was_ended",
    )  # fmt: skip

    def __init__(self) -> None:
        self.producer: Producer | None = None
        self.done: list[Step | Leap] = []
        self.inherited = self.determined = self.coordinator_known = self.was_ended = False
        self.leaps_from: ProducerReplayState | None = None
        self.in_transaction = self.marked = False
        self.marker_time: int | None = None
        self.open_before = 0

    def needs_before(self, append: Append) -> bool:
        """Whether a batch cannot be judged without the state before the span."""
        if not self.determined:
            return True
        if append.control is not None:
            return self.inherited or not self.coordinator_known
        return self.inherited and not append.transactional

    def step(self, append: Append, clock: int, marker_time: int | None) -> None:
        """Take a batch that cannot be judged.

        Args:
            clock, marker_time: as in `Step`.
        """
        self.land()
        self.done.append(Step(append, clock, marker_time))
        producer = self.producer
        if producer is None:
            if append.control == MALFORMED:
                return
            producer = self.producer = Producer(append.producer_id)
        before, was_open = producer.epoch, producer.first_offset >= 0
        producer.add(append, marker_time)
        if not was_open and producer.first_offset >= 0:
            self.inherited = not self.was_ended
        if append.control is not None and append.control != MALFORMED:
            self.inherited, self.was_ended = False, True
            self.coordinator_known = self.coordinator_known or append.coordinator_epoch is not None
        if before not in (-1, producer.epoch) or len(producer.batches) == BATCHES_TO_RETAIN:
            self.determined = True

    def leap(self, leap: Leap) -> None:
        """Take batches that were judged from this state."""
        producer = self.producer
        assert producer is not None
        if self.leaps_from is None:
            self.leaps_from, self.open_before = leap.before, producer.open_batches
        leap.move(producer)
        self.marked = self.marked or leap.coordinator_epoch is not None
        if leap.in_transaction:
            self.in_transaction, self.marker_time = True, leap.marker_time

    def land(self) -> None:
        """End the leap, where there is one."""
        producer = self.producer
        if self.leaps_from is None or producer is None:
            return
        is_open = producer.first_offset >= 0
        begun = is_open and not self.inherited
        self.done.append(
            Leap(
                self.leaps_from,
                producer.state,
                producer.first_offset if begun else None,
                producer.coordinator_epoch if self.marked else None,
                self.in_transaction,
                self.marker_time if self.in_transaction else None,
                producer.first_timestamp if begun else -1,
                producer.open_batches - (0 if begun else self.open_before) if is_open else 0,
                producer.marked_at if self.marked else -1,
            )
        )
        self.leaps_from = None
        self.in_transaction = self.marked = False


class SpanJudge:
    """Judges batches whose producers' states are known, by the clock of the span.

    Attributes:
        checks: of `LogChecks`. `forgotten`: the same, where brokers may have dropped every idle producer's state.
        idle: timestamps of idle states that batches followed, the oldest and the newest.
    """

    def __init__(self, expiration_ms: int) -> None:
        self.checks = LogChecks(expiration_ms)
        self.forgotten = LogChecks(expiration_ms)
        self.idle: list[int] = []
        self._ended: list[tuple[int, ...]] = []
        self._intact: list[int] = []

    def add(self, program: Program, append: Append, clock: int, marker_time: int | None) -> None:
        """Take the next batch of a producer; one that cannot be judged becomes a step of its program.

        Args:
            program: of the producer. `clock`, `marker_time`: as in `Step`.
        """
        if program.needs_before(append):
            program.step(append, clock, marker_time)
            return
        producer, control = program.producer, append.control
        assert producer is not None
        if program.leaps_from is None:
            program.leaps_from, program.open_before = producer.state, producer.open_batches
        if (
            producer.first_offset < 0
            and control not in (MALFORMED, EMPTY)
            and not self.checks.may_be_forgotten(producer, clock)
        ):
            self.idle = [min([*self.idle, producer.timestamp]), max([*self.idle, producer.timestamp])]
        self.checks.see(producer, append, clock)
        self.forgotten.see(producer, append, _END_OF_TIME)
        ending = () if control in (None, MALFORMED) else producer.ending(append)
        if producer.add(append, marker_time):
            self._ended.append(ending)
            self._intact.append(append.intact_from)
        if control is None and append.transactional:
            program.in_transaction, program.marker_time = True, marker_time
        program.marked = program.marked or (control is not None and append.coordinator_epoch is not None)

    def endings(self, others: Mapping[str, npt.NDArray[Any]]) -> tuple[bytes, bytes]:
        """`Span.endings` and `Span.intact`.

        Args:
            others: more transactions that ended, a column a field of `PACKED`; their `intact_from` is `BEFORE`.
        """
        own = packed(self._ended)
        columns = {name: np.concatenate([own[name], others[name]]) for name in PACKED.names or ()}
        order = np.argsort(columns["offset"], kind="stable")
        ended = np.empty(len(order), PACKED)
        for name, column in columns.items():
            ended[name] = column[order]
        intact = np.full(len(ended), BEFORE)
        intact[: len(own)] = self._intact
        return ended.tobytes(), intact[order][ended["outcome"] == ABORT_CODE].tobytes()
