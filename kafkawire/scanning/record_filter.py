"""`RecordFilter`: which records a scan gives. Topics, partitions, producers and outcomes decide by batch headers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec
import numpy as np

from kafkawire._java_numbers import INT64
from kafkawire.logdir.transaction_states import STATES
from kafkawire.records.array_types import Bools, Int8
from kafkawire.records.columns import Batches, Records

#: Half open; None: no bound.
Range = tuple[int | None, int | None]
#: A topic and the number of a partition.
Place = tuple[str, int]
#: A time of a range: epoch milliseconds, or a `datetime` with a time zone.
Time = int | datetime

T = TypeVar("T")

EVERYTHING: Range = (None, None)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class RecordFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Criteria for records; None selects everything.

    Attributes:
        topics, partitions: names and numbers.
        offsets: of all partitions; `offsets_of` has those of some.
        times: of the records' timestamps, epoch milliseconds.
        producer_ids: of their batches. `states`: of their transactions, places in `STATES`.
        control: also control records.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    offsets: Range = EVERYTHING
    offsets_of: Mapping[Place, Range] = {}
    times: Range = EVERYTHING
    producer_ids: tuple[int, ...] | None = None
    states: tuple[int, ...] | None = None
    control: bool = False

    @classmethod
    def of(
        cls,
        topics: str | Iterable[str] | None,
        partitions: int | Iterable[int] | None,
        offsets: tuple[int | None, int | None] | Mapping[Place, tuple[int | None, int | None]] | None,
        times: tuple[Time | None, Time | None] | None,
        producer_id: int | Iterable[int] | None,
        transaction: str | Iterable[str] | None,
        control: bool,
    ) -> RecordFilter:
        """The filter that the arguments of `scan` state.

        Raises:
            TypeError, ValueError: an argument selects nothing, or is of another form.
        """
        states = several("transaction", transaction, str)
        unknown = sorted(set(states or ()) - set(STATES))
        if unknown:
            raise ValueError(f"transaction: {unknown[0]!r} is none of {', '.join(STATES)}")
        all_offsets, offsets_of = EVERYTHING, {}
        if isinstance(offsets, Mapping):
            offsets_of = {_place(place): _range("offsets", given, _number) for place, given in offsets.items()}
            if not offsets_of:
                raise ValueError("offsets names no partition")
        elif offsets is not None:
            all_offsets = _range("offsets", offsets, _number)
        return cls(
            topics=_set("topics", topics, str),
            partitions=_set("partitions", partitions, int),
            offsets=all_offsets,
            offsets_of=offsets_of,
            times=EVERYTHING if times is None else _range("times", times, _milliseconds),
            producer_ids=several("producer_id", producer_id, int),
            states=None if states is None else tuple(map(STATES.index, states)),
            control=control,
        )

    # Partitions ------------------------------------------------------------------------------------------------------

    def selects(self, topic: str | None, partition: int | None) -> bool:
        """Whether records of a partition may be selected; None: a file that is in no partition's directory."""
        return (
            (self.topics is None or topic in self.topics)
            and (self.partitions is None or partition in self.partitions)
            and (not self.offsets_of or (topic, partition) in self.offsets_of)
        )

    def check(self, there: Collection[Place]) -> None:
        """Check that what is named exists.

        Args:
            there: the partitions of the source.

        Raises:
            LookupError: a topic or a partition does not.
        """
        topics = sorted({topic for topic, _ in there})
        for topic in sorted((self.topics or frozenset()) - set(topics)):
            raise LookupError(f"there is no topic {topic!r}; {_listed('the topics are', topics)}")
        within = {number for topic, number in there if self.topics is None or topic in self.topics}
        for number in sorted((self.partitions or frozenset()) - within):
            raise LookupError(f"no topic has a partition {number}; {_listed('there are', map(str, sorted(within)))}")
        for place in sorted(set(self.offsets_of) - set(there)):
            raise LookupError(f"offsets: there is no partition {place[0]}-{place[1]}")
        if self.offsets_of and not any(self.selects(*place) for place in there):
            raise LookupError("offsets: none of its partitions is among the topics and partitions that are named")

    def offsets_in(self, topic: str | None, partition: int | None) -> Range:
        """The offsets of a partition."""
        if not self.offsets_of or topic is None or partition is None:
            return self.offsets
        return self.offsets_of[topic, partition]

    # Batches and records ---------------------------------------------------------------------------------------------

    def batches(self, found: Batches, offsets: Range) -> Bools:
        """Which batches may contain selected records, whatever the states of their transactions.

        Args:
            offsets: of the partition.
        """
        low, high = _bounds(offsets)
        chosen = (found.last_offset >= low) & (found.base_offset < high)
        if not self.control:
            chosen &= ~found.is_control
        if self.producer_ids is not None:
            chosen &= np.isin(found.producer_id, self.producer_ids)
        if self.times[0] is not None:  # of the records' timestamps only the newest is in the header
            chosen &= found.max_timestamp >= self.times[0]
        return chosen

    def by_states(self, states: Int8) -> Bools | None:
        """Which batches are selected by the states of their transactions; None: all."""
        return None if self.states is None else np.isin(states, self.states)

    def records(self, found: Records, offsets: Range) -> Bools | None:
        """Which records of selected batches are selected; None: all.

        Args:
            offsets: of the partition.
        """
        (low, high), (first, end) = _bounds(offsets), _bounds(self.times)
        chosen = (found.offset >= low) & (found.offset < high)
        if self.times != EVERYTHING:
            chosen &= (found.timestamp >= first) & (found.timestamp < end)
        return None if chosen.all() else chosen

    def one(self, offset: int, timestamp: int, offsets: Range) -> bool:
        """Whether a single record is selected."""
        (low, high), (first, end) = _bounds(offsets), _bounds(self.times)
        timely = self.times == EVERYTHING or first <= timestamp < end
        return low <= offset < high and timely


def _bounds(given: Range) -> tuple[int, int]:
    low, high = given
    return -INT64 - 1 if low is None else low, INT64 if high is None else high


def narrowed(one: Range, other: Range) -> Range:
    """What two ranges have in common."""
    lows = [low for low in (one[0], other[0]) if low is not None]
    highs = [high for high in (one[1], other[1]) if high is not None]
    return max(lows, default=None), min(highs, default=None)


# Arguments -----------------------------------------------------------------------------------------------------------


def several(name: str, given: T | Iterable[T] | None, kind: type[T]) -> tuple[T, ...] | None:
    """One value or several, as a tuple."""
    if given is None:
        return None
    found = (given,) if isinstance(given, kind) else tuple(given)  # type: ignore[arg-type]
    for one in found:
        if not isinstance(one, kind) or isinstance(one, bool):
            raise TypeError(f"{name}: {one!r} is no {kind.__name__}")
    if not found:
        raise ValueError(f"{name} is empty, so nothing is selected; leave it out to select everything")
    return found


def _set(name: str, given: T | Iterable[T] | None, kind: type[T]) -> frozenset[T] | None:
    found = several(name, given, kind)
    return None if found is None else frozenset(found)


def _range(name: str, given: Any, bound: Any) -> Range:
    try:
        first, end = given
    except (TypeError, ValueError):
        raise TypeError(f"{name} is a pair, from and up to without: (100, 200) or (100, None), not {given!r}") from None
    low, high = (None if one is None else bound(name, one) for one in (first, end))
    if low is not None and high is not None and low >= high:
        raise ValueError(f"{name}: nothing lies in ({first}, {end})")
    return low, high


def _number(name: str, given: Any) -> int:
    if not isinstance(given, int) or isinstance(given, bool):
        raise TypeError(f"{name}: {given!r} is no int")
    return given


def _milliseconds(name: str, given: Any) -> int:
    if not isinstance(given, datetime):
        return _number(name, given)
    if given.tzinfo is None:
        raise ValueError(f"{name}: {given.isoformat()} has no time zone, such as datetime.UTC")
    return epoch_ms(given)


def epoch_ms(time: datetime) -> int:
    """Epoch milliseconds; between two of them, the later one."""
    whole, rest = divmod(time - _EPOCH, timedelta(milliseconds=1))
    return whole + bool(rest)


def _place(given: Any) -> Place:
    try:
        topic, partition = given
    except (TypeError, ValueError):
        topic = partition = None
    if not isinstance(topic, str) or not isinstance(partition, int):
        raise TypeError(f"offsets: {given!r} is no pair of topic and partition, such as ('orders', 0)")
    return topic, partition


def _listed(what: str, names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    return f"{what} {', '.join(found[:10])}{more}" if found else "there are none at all"
