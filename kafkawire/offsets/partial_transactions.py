"""`PartialTransactions`: transactions of which compaction has left a part. Pure.

Compaction removes records that later ones replace, and readers then get some records of a transaction without the
others. A batch keeps the number of its offsets, and a producer's sequence numbers go on: both show what is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkawire.logdir.transaction_states import STATES, Outcomes
from kafkawire.records.columns import Batches
from kafkawire.rows import PartialTransaction, PartialTransactionTotal, Row, RowOrigin

_SEQUENCES = 1 << 31


class _PartialTransaction(NamedTuple):
    """What is left of a producer's transaction. `sequence`: the one that follows its last batch."""

    epoch: int
    first: int
    last: int
    state: int
    sequence: int
    left: int
    removed: int


class PartialTransactions:
    """Takes the batches of a compacted log in order. Memory grows with the producers that have a transaction open.
    `outcomes`: of the log. `origin`: of the rows. `most`: rows that are made, at most; None: all."""

    def __init__(self, outcomes: Outcomes, origin: RowOrigin, most: int | None) -> None:
        self._outcomes = outcomes
        self._origin = origin
        self._most = most
        self._begun: dict[int, _PartialTransaction] = {}
        self._rows: list[PartialTransaction] = []
        self._count = self._left = self._removed = 0

    def add(self, found: Batches) -> None:
        """Take the next batches."""
        if not self._outcomes.cleaned_to:
            return
        at = np.flatnonzero(found.transactional & (found.producer_id >= 0))
        states = self._outcomes.states(found)
        columns = (
            found.producer_id, found.producer_epoch, found.base_offset, found.last_offset, found.is_control,
            states, found.base_sequence, found.last_offset_delta, found.record_count,
        )  # fmt: skip
        for producer, epoch, base, last, control, state, sequence, delta, count in zip(
            *(column[at].tolist() for column in columns), strict=True
        ):
            if control:
                self._end(producer, base)
                continue
            gone = delta + 1 - max(count, 0)
            begun = self._begun.get(producer)
            if begun is None:
                begun = _PartialTransaction(epoch, base, last, state, sequence, 0, 0)
            if begun.epoch == epoch and sequence >= 0 and begun.sequence >= 0:
                gone += (sequence - begun.sequence) % _SEQUENCES
            self._begun[producer] = begun._replace(
                epoch=epoch,
                last=last,
                sequence=(sequence + delta + 1) % _SEQUENCES if sequence >= 0 else -1,
                left=begun.left + max(count, 0),
                removed=begun.removed + gone,
            )

    def drain(self) -> Iterator[PartialTransaction]:
        """The rows of transactions that have ended since the last call."""
        made, self._rows = self._rows, []
        yield from made

    def finish(self) -> Iterator[Row]:
        """The end of the log: the others, and the total; nothing where there are none."""
        for producer, begun in list(self._begun.items()):
            self._end(producer, begun.last)
        yield from self.drain()
        if self._count:
            yield PartialTransactionTotal(
                **self._origin, transactions=self._count, left=self._left, removed=self._removed
            )

    def _end(self, producer: int, marker: int) -> None:
        begun = self._begun.pop(producer, None)
        if begun is None or not begun.left or not begun.removed:
            return
        self._count += 1
        self._left += begun.left
        self._removed += begun.removed
        if self._most is None or self._count <= self._most:
            self._rows.append(
                PartialTransaction(
                    **self._origin,
                    producer_id=producer,
                    producer_epoch=begun.epoch,
                    first_offset=begun.first,
                    last_offset=marker,
                    transaction=STATES[begun.state],
                    left=begun.left,
                    removed=begun.removed,
                )
            )
