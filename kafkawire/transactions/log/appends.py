"""`Appends`: the batches of producers as columns, and their form as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from kafkawire.records.array_types import Bools, Int8, Int16, Int32, Int64
from kafkawire.records.control import MARKERS
from kafkawire.transactions.log.producer_append import Append

#: The coordinator epoch of a batch that has none.
NO_COORDINATOR = -(1 << 62)


class Appends(msgspec.Struct, frozen=True, eq=False):
    """Batches of producers that have ids, in offset order: an array a field of `Append`, an element a batch.

    Attributes:
        control: index in `control.MARKERS`, `DATA_CODE` for none.
        coordinator_epoch: `NO_COORDINATOR` where there is none.
        problem: index in `problems`, -1 for none.
    """

    base_offset: Int64
    last_offset: Int64
    timestamp: Int64
    producer_id: Int64
    producer_epoch: Int16
    control: Int8
    coordinator_epoch: Int64
    base_sequence: Int32
    transactional: Bools
    intact_from: Int64
    compacted: Bools
    problem: Int32
    append_time: Bools
    problems: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.base_offset)

    def __iter__(self) -> Iterator[Append]:
        """Each as an object."""
        columns = {name: getattr(self, name).tolist() for name in _ARRAYS}
        columns["control"] = [None if code < 0 else MARKERS[code] for code in columns["control"]]
        columns["coordinator_epoch"] = [None if at == NO_COORDINATOR else at for at in columns["coordinator_epoch"]]
        columns["problem"] = [None if at < 0 else self.problems[at] for at in columns["problem"]]
        return map(Append, *columns.values())

    def where(self, chosen: Bools | Int64 | slice) -> Appends:
        """The chosen batches, by any index of arrays."""
        return Appends(**{name: getattr(self, name)[chosen] for name in _ARRAYS}, problems=self.problems)

    @classmethod
    def joined(cls, several: Sequence[Appends]) -> Appends:
        """The batches of several `Appends`, one after the other."""
        if len(several) == 1:
            return several[0]
        arrays = {name: np.concatenate([getattr(one, name) for one in several]) for name in _ARRAYS}
        problems = tuple(problem for one in several for problem in one.problems)
        if problems:
            before = np.cumsum([0, *(len(one.problems) for one in several[:-1])])
            shift = np.repeat(before, [len(one) for one in several]).astype(np.int32)
            arrays["problem"] = np.where(arrays["problem"] < 0, -1, arrays["problem"] + shift)
        return cls(**arrays, problems=problems)


_ARRAYS = Appends.__struct_fields__[:-1]
