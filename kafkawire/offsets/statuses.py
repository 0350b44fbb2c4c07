"""The statuses of offsets, and runs of consecutive offsets with one status. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from kafkawire.logdir.transaction_states import OPEN as OPEN_RECORD
from kafkawire.logdir.transaction_states import STATES, UNKNOWN
from kafkawire.records.array_types import Bools, Int8, Int64
from kafkawire.records.control import CONTROL_TYPES, MALFORMED

T = TypeVar("T")

#: Codes of statuses. The first five are records, by the codes of `transaction_states`.
COMMIT, ABORT, CONTROL, COMPACTED, DELETED, ABOVE, TRUNCATED, UNREADABLE = range(5, 13)
CODES = 13

#: The status of each code.
STATUSES = ("record",) * 5 + (
    "marker", "marker", "control", "compacted", "deleted", "above_high_watermark", "truncated", "unreadable",
)  # fmt: skip
#: The names under which merged ranges count them.
NAMES = (*(f"record_{state}" for state in STATES), "marker_commit", "marker_abort", *STATUSES[CONTROL:])
#: Statuses that a healthy log has no end of: ranges of these are merged first.
SETTLED = frozenset(range(CODES)) - {OPEN_RECORD, UNKNOWN, DELETED, ABOVE, TRUNCATED, UNREADABLE}

#: The detail of a run that has none.
NO_DETAIL = -1


class Why(NamedTuple):
    """Why offsets have a status: a reason, a sentence, and the place in a file."""

    reason: str | None = None
    detail: str | None = None
    segment: str | None = None
    position: int | None = None


NO_REASON = Why()


class Runs(NamedTuple):
    """Runs of consecutive offsets, each where the one before it ends. An element of each array is one.

    Attributes:
        first, end: the first offset, and the one after the last. code: of the status.
        detail: of markers the coordinator epoch, of control records the type; else NO_DETAIL.
        why: of all of them.
    """

    first: Int64
    end: Int64
    code: Int8
    detail: Int64
    why: Why = NO_REASON

    @classmethod
    def one(cls, first: int, end: int, code: int, why: Why = NO_REASON) -> Runs:
        """A single run.

        Args:
            first, end: the first offset, and the one after the last.
            code: of the status.
            why: the reason.
        """
        first_, end_, detail = np.array([[first], [end], [NO_DETAIL]], np.int64)
        return cls(first_, end_, np.array([code], np.int8), detail, why)

    def __bool__(self) -> bool:
        return bool(len(self.first))

    def where(self, chosen: Bools) -> Runs:
        """The runs for which `chosen` is true."""
        return Runs(self.first[chosen], self.end[chosen], self.code[chosen], self.detail[chosen], self.why)

    def parts(self, *places: int) -> Iterator[Runs]:
        """The runs before the first of these offsets, those up to the second, and so on; a run over one is divided."""
        low = -1
        for high in (*places, np.iinfo(np.int64).max):
            first, end = np.maximum(self.first, low), np.minimum(self.end, high)
            yield self._replace(first=first, end=end).where(first < end)
            low = high

    def collapsed(self) -> Runs:
        """The runs, with neighbours of one status and detail as one. They follow one another."""
        if len(self.first) < 2:
            return self
        begins = np.concatenate(([True], (np.diff(self.code) != 0) | (np.diff(self.detail) != 0)))
        ends = np.concatenate((begins[1:], [True]))
        return Runs(self.first[begins], self.end[ends], self.code[begins], self.detail[begins], self.why)


def joined(items: Iterable[T], merge: Callable[[T, T], T | None]) -> Iterator[T]:
    """The items, each put together with those before it for as long as `merge` makes one of two."""
    pending: T | None = None
    for one in items:
        both = None if pending is None else merge(pending, one)
        if both is None and pending is not None:
            yield pending
        pending = one if both is None else both
    if pending is not None:
        yield pending


def control_name(code: int, detail: int) -> str | None:
    """The name of a marker's or a control record's type; None for other statuses."""
    if code == CONTROL:
        return MALFORMED if detail == NO_DETAIL else CONTROL_TYPES.get(detail, f"UNKNOWN_{detail}")
    return {COMMIT: "COMMIT", ABORT: "ABORT"}.get(code)


def transaction_name(code: int) -> str | None:
    """The state of the transaction of a record; None for other statuses."""
    return STATES[code] if code < len(STATES) else None


def coordinator_epoch(code: int, detail: int) -> int | None:
    """The coordinator epoch of a marker; None for other statuses, and where it cannot be read."""
    return detail if code in (COMMIT, ABORT) and detail != NO_DETAIL else None
