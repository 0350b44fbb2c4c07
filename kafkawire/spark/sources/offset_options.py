"""The options that choose partitions and offsets, in the terms of Spark's Kafka source, and their offsets in a replica.

At most one of `subscribe` (topics, with commas), `subscribePattern` (a regular expression that matches whole names) and
`assign` (JSON: `{"orders":[0,1]}`) chooses partitions; without, all are read. At most one of

- `startingOffsets`: "earliest", "latest" (streams only), or JSON: `{"orders":{"0":23,"1":-2}}`; -2 is the
  earliest, -1 the latest offset
- `startingTimestamp`: epoch milliseconds
- `startingOffsetsByTimestamp`: JSON: `{"orders":{"0":1700000000000}}`

is the beginning, and one of `endingOffsets`, `endingTimestamp`, `endingOffsetsByTimestamp` (batches only) the end,
exclusive. JSON names each partition that is read. A timestamp means the offset of the first record that is not
older. Where there is none, an end is the log's end; a beginning is an error, unless
`startingOffsetsByTimestampStrategy` is "latest": then it is the log's end, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple

import msgspec

from kafkawire._java_numbers import INT32, INT64, whole_number
from kafkawire.logdir import Partition
from kafkawire.logdir.seek import offset_of_time
from kafkawire.logdir.splits import end_offset
from kafkawire.records import Damage
from kafkawire.spark.sources.source_base import SourceOptions, shown

SUBSCRIPTIONS = ("subscribe", "subscribePattern", "assign")
STARTS = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
STRATEGY = "startingOffsetsByTimestampStrategy"
ENDS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")

LATEST, EARLIEST = -1, -2
_SYMBOLS = {"earliest": EARLIEST, "latest": LATEST}

Place = tuple[str, int]


class Subscription(NamedTuple):
    """The topics or partitions that are read; all, where no option chooses.

    Attributes:
        option: the option's name. `pattern`: of whole names of topics.
    """

    option: str = ""
    topics: frozenset[str] | None = None
    pattern: re.Pattern[str] | None = None
    assigned: frozenset[Place] | None = None

    def selects(self, topic: str | None, partition: int | None) -> bool:
        """Whether a partition is read; None: a file that is in no partition's directory."""
        return (
            (self.topics is None or topic in self.topics)
            and (self.pattern is None or (topic is not None and self.pattern.fullmatch(topic) is not None))
            and (self.assigned is None or (topic, partition) in self.assigned)
        )

    def check(self, there: Iterable[Place]) -> None:
        """Check that everything that is named exists.

        Raises:
            ValueError: a topic or a partition that does not.
        """
        places = set(there)
        topics = {topic for topic, _ in places}
        missing = [topic for topic in sorted(self.topics or ()) if topic not in topics]
        missing += [f"{topic}-{number}" for topic, number in sorted((self.assigned or set()) - places)]
        if missing:
            raise ValueError(f"{self.option} names {', '.join(missing)}, but the paths contain no such partition")


class Bound(NamedTuple):
    """A beginning or an end.

    Attributes:
        option: the option's name.
        value: of all partitions, or of each: an offset, EARLIEST, LATEST, or a timestamp (`timed`).
        latest: whether the log's end is a beginning where no record is as new.
    """

    option: str
    value: int | dict[Place, int]
    timed: bool = False
    latest: bool = True

    def check(self, there: Iterable[Place]) -> None:
        """Check that JSON names the partitions that are read, and no others.

        Raises:
            ValueError: it does not.
        """
        if isinstance(self.value, dict):
            places = set(there)
            for verb, wrong in (("does not name", places - set(self.value)), ("names", set(self.value) - places)):
                if wrong:
                    names = ", ".join(f"{topic}-{number}" for topic, number in sorted(wrong))
                    raise ValueError(
                        f"{self.option} {verb} {names}; it must name each partition that is read, no other"
                    )

    def of(self, partition: Partition) -> int:
        """The offset in a replica: EARLIEST, LATEST, or a number.

        Raises:
            ValueError: no record is as new, for a beginning. OSError: a file cannot be read.
        """
        value = self.value
        if isinstance(value, dict):
            value = value.get((partition.topic, partition.partition), EARLIEST)
        if not self.timed:
            return value
        offset = offset_of_time(partition.segments, value)
        if offset is None and not self.latest:
            raise ValueError(
                f"{self.option}: no record of {partition.path} is as new as {value}; "
                f'with {STRATEGY} "latest", the log\'s end is the beginning'
            )
        return LATEST if offset is None else offset


class RequestedRange(NamedTuple):
    """The offsets that are read of a replica, half open; None: no bound. `problem`: requested offsets that
    the replica does not have."""

    first: int | None = None
    end: int | None = None
    problem: Damage | None = None


ALL_OFFSETS = RequestedRange()


class Bounds(NamedTuple):
    """The beginning and the end of what is read; None: all that is there."""

    start: Bound | None = None
    end: Bound | None = None

    def check(self, there: Iterable[Place]) -> None:
        """See `Bound.check`."""
        places = list(there)
        for bound in self:
            if bound is not None:
                bound.check(places)

    def of(self, partition: Partition) -> RequestedRange:
        """The offsets of a replica.

        Raises:
            ValueError, OSError: as in `Bound.of`.
        """
        if self.start is None and self.end is None:
            return ALL_OFFSETS
        low = EARLIEST if self.start is None else self.start.of(partition)
        high = LATEST if self.end is None else self.end.of(partition)
        log_start, log_end = partition.local_start_offset or 0, end_offset(partition.segments)
        missing = []
        if 0 <= low < log_start:
            missing.append(f"it begins at {log_start}, after the starting offset {low}")
        if low > log_end or high > log_end:
            missing.append(f"it ends at {log_end}, before the {'starting' if low > log_end else 'ending'} offset "
                           f"{low if low > log_end else high}")  # fmt: skip
        first = {EARLIEST: None, LATEST: log_end}.get(low, low)
        damage = Damage(0, "out_of_range", "; ".join(missing)) if missing else None
        return RequestedRange(first, None if high == LATEST else high, damage)


# From options --------------------------------------------------------------------------------------------------------

_Number = Annotated[int, msgspec.Meta(ge=0, le=INT32)]
_Offset = Annotated[int, msgspec.Meta(ge=EARLIEST, le=INT64)]
_Timestamp = Annotated[int, msgspec.Meta(ge=0, le=INT64)]


def subscription(options: SourceOptions) -> Subscription:
    """The partitions that the options choose.

    Raises:
        ValueError: more than one option chooses, or one has an invalid value.
    """
    name, text = _one_of(options, SUBSCRIPTIONS)
    if name == "subscribe":
        topics = frozenset(filter(None, map(str.strip, text.split(","))))
        if not topics:
            raise ValueError("subscribe names no topic")
        return Subscription(name, topics=topics)
    if name == "subscribePattern":
        try:
            return Subscription(name, pattern=re.compile(text))
        except re.error as error:
            raise ValueError(f"subscribePattern is not a regular expression: {error}: {shown(text)}") from None
    if name == "assign":
        found = _json(name, text, dict[str, list[_Number]], '{"orders":[0,1]}')
        return Subscription(
            name, assigned=frozenset((topic, one) for topic, numbers in found.items() for one in numbers)
        )
    return Subscription()


def bounds(options: SourceOptions, *, stream: bool = False) -> Bounds:
    """The beginning and the end that the options choose.

    Raises:
        ValueError: more than one option chooses the same, or one has an invalid value.
    """
    start = _bound(options, STARTS, EARLIEST, None if stream else LATEST)
    end = _bound(options, ENDS, LATEST, EARLIEST)
    strategy = options.choice(STRATEGY, ("error", "latest"))
    if start is not None:
        start = start._replace(latest=strategy == "latest")
    if start and end and start.timed == end.timed:
        each = [(start.value, end.value)] if isinstance(start.value, int) and isinstance(end.value, int) else []
        if isinstance(start.value, dict) and isinstance(end.value, dict):
            each = [(start.value[place], end.value[place]) for place in start.value.keys() & end.value.keys()]
        if any(0 <= high < low for low, high in each):
            raise ValueError(f"{start.option} is after {end.option}")
    return Bounds(start, end)


def _bound(options: SourceOptions, names: tuple[str, ...], default: int, refused: int | None) -> Bound | None:
    """The bound that one of the three options gives. `refused`: what an end of a range cannot be."""
    name, text = _one_of(options, names)
    if not name:
        return None
    by_offset, by_time, _ = names
    if name == by_time:
        timestamp = whole_number(text.strip(), INT64)
        if timestamp is None:
            raise ValueError(f"{name} is a timestamp in epoch milliseconds, not {shown(text)}")
        return Bound(name, timestamp, timed=True)
    if name != by_offset:
        return Bound(name, _each(name, text, _Timestamp, '{"orders":{"0":1700000000000}}'), timed=True)
    value = _SYMBOLS.get(text.strip().lower())
    found = _each(name, text, _Offset, 'earliest, latest or {"orders":{"0":23}}') if value is None else value
    if refused is not None and refused in (found.values() if isinstance(found, dict) else (found,)):
        raise ValueError(f"{name} cannot be {'latest' if refused == LATEST else 'earliest'} in a batch")
    return None if found == default else Bound(name, found)


def _each(name: str, text: str, kind: Any, example: str) -> dict[Place, int]:
    found = _json(name, text, dict[str, dict[_Number, kind]], example)
    return {(topic, number): value for topic, of in found.items() for number, value in of.items()}


def _json(name: str, text: str, kind: Any, example: str) -> Any:
    try:
        found = msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"{name} is {example}, not {shown(text)}: {error}") from None
    if not any(found.values()):
        raise ValueError(f"{name} names no partition")
    return found


def _one_of(options: SourceOptions, names: tuple[str, ...]) -> tuple[str, str]:
    """The one of these options that is given, and its value; empty where none is.

    Raises:
        ValueError: more than one is given.
    """
    given = [(name, text) for name in names if (text := options.text(name)) is not None]
    if len(given) > 1:
        raise ValueError(f"only one of {', '.join(name for name, _ in given)} can be given")
    return given[0] if given else ("", "")
