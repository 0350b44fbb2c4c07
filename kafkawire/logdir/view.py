"""`View`: which rows of a partition are read at an isolation level, and whether they show states of transactions."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
import numpy as np

from kafkawire.logdir.transaction_doubts import NO_OFFSET
from kafkawire.logdir.transaction_states import COMMITTED, NONE, STATES, UNKNOWN, Outcomes
from kafkawire.records import Batch, Damage
from kafkawire.records.array_types import Bools, Int8
from kafkawire.records.columns import Batches
from kafkawire.records.damage import UNKNOWN_OUTCOME

#: The isolation levels of consumers (`isolation.level`).
IsolationLevel = Literal["read_uncommitted", "read_committed"]


class Seen(NamedTuple):
    """Batches in a view. `kept`: which are read; `lost`: which are not, because their outcome is unknown. `parted`:
    which have offsets that are read and others that are not. `states`: of all."""

    kept: Bools
    lost: Bools
    parted: Bools
    states: Int8


class View(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is read of a partition.

    Attributes:
        outcomes: of its transactions.
        isolation_level: the rows that a consumer of that level gets: data only, from the log start offset up to the
            last stable offset, or the high watermark. None: all rows.
        shown: whether rows have a field `transaction`.
    """

    outcomes: Outcomes
    isolation_level: IsolationLevel | None = None
    shown: bool = False

    @property
    def committed(self) -> bool:
        """Whether only committed data is read."""
        return self.isolation_level == "read_committed"

    @property
    def damage(self) -> tuple[tuple[str, Damage], ...]:
        """Damage outside of segments that may hide rows of the isolation level, each with its file's path."""
        if self.isolation_level is None:
            return ()
        undecided = self.outcomes.undecided if self.committed else None
        return (*self.outcomes.damage, *(() if undecided is None else (undecided,)))

    @property
    def offsets(self) -> tuple[int | None, int | None]:
        """The offsets that are read, half open."""
        if self.isolation_level is None:
            return None, None
        return self.outcomes.start, (
            self.outcomes.last_stable_offset if self.committed else self.outcomes.high_watermark
        )

    def within(self, first: int, end: int | None) -> View:
        """The view with only the outcomes that the offsets from `first` up to `end` need."""
        outcomes = self.outcomes.within(first, NO_OFFSET if end is None else end)
        return msgspec.structs.replace(self, outcomes=outcomes)

    def see(self, found: Batches) -> Seen:
        """Which batches are read."""
        first, end = self.offsets
        base, last = found.base_offset, found.last_offset
        states = self.outcomes.states(found)
        nothing = np.zeros(len(found), bool)
        if first is None or end is None:
            return Seen(~nothing, nothing, nothing, states)
        kept = ~found.is_control & (last >= first) & (base < end)
        lost = nothing
        if self.committed:
            lost = kept & (states == UNKNOWN)
            kept &= (states == NONE) | (states == COMMITTED)
        return Seen(kept, lost, kept & (base < first), states)

    def reads(self, batch: Batch) -> bool | Damage:
        """Whether a batch is read; damage where it would be, if its outcome were known."""
        first, end = self.offsets
        if first is None or end is None:
            return True
        if batch.is_control or batch.last_offset < first or batch.base_offset >= end:
            return False
        state = self.outcomes.state(batch) if self.committed else NONE
        return self.lost(batch) if state == UNKNOWN else state in (NONE, COMMITTED)

    def lost(self, batch: Batch) -> Damage:
        """The damage that a batch with an unknown outcome is."""
        place = f"offsets {batch.base_offset} to {batch.last_offset}"
        why = self.outcomes.why(batch.base_offset)
        detail = f"{place}: whether producer {batch.producer_id}'s transaction was committed is unknown"
        return Damage(
            batch.position, UNKNOWN_OUTCOME, f"{detail}: {why}" if why else detail, batch.position + batch.size
        )

    def state(self, batch: Batch) -> str:
        """The field `transaction`."""
        return STATES[self.outcomes.state(batch)]
