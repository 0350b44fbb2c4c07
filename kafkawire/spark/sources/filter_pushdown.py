"""Filters of a query on topic, partition, offset and timestamp: files that have no such row are not read.

Spark evaluates all filters again: what is pruned here has only to be right, not complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from kafkawire.logdir import Selection
from kafkawire.spark.sources.offset_options import RequestedRange

#: The setting without which Spark refuses sources that take filters.
SETTING = "spark.sql.python.filterPushdown.enabled"
_MS = 1000


class Pruned(NamedTuple):
    """What rows have to have; None: anything.

    Attributes:
        first, end: of the offsets, half open. `since`: the least timestamp, in ms.
    """

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first: int | None = None
    end: int | None = None
    since: int | None = None

    def has(self, topic: str, partition: int) -> bool:
        """Whether a partition may have such rows."""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )

    def selection(self, offsets: RequestedRange) -> Selection:
        """What files are chosen by, of those that have the offsets."""
        firsts = [one for one in (offsets.first, self.first) if one is not None]
        ends = [one for one in (offsets.end, self.end) if one is not None]
        first, end = max(firsts, default=None), min(ends, default=None)
        return Selection(
            offsets=None if first is None and end is None else (first, end),
            times=None if self.since is None else (self.since, None),
        )


def pruned(filters: Iterable[Filter], *, case_sensitive: bool) -> Pruned:
    """What filters, all of which hold, ask for."""
    found = Pruned()
    for one in filters:
        path: tuple[str, ...] = getattr(one, "attribute", ())
        if len(path) != 1:
            continue
        name = path[0] if case_sensitive else path[0].lower()
        if isinstance(one, (EqualTo, EqualNullSafe)):
            found = _equal(found, name, (one.value,))
        elif isinstance(one, In):
            found = _equal(found, name, tuple(one.value))
        elif isinstance(one, (GreaterThan, GreaterThanOrEqual)):
            found = _at_least(found, name, one.value, beyond=isinstance(one, GreaterThan))
        elif isinstance(one, (LessThan, LessThanOrEqual)) and name == "offset" and isinstance(one.value, int):
            end = one.value + isinstance(one, LessThanOrEqual)
            found = found._replace(end=end if found.end is None else min(found.end, end))
    return found


def _equal(found: Pruned, name: str, values: tuple[Any, ...]) -> Pruned:
    if name == "topic" and all(isinstance(one, str) for one in values):
        topics = frozenset(values)
        return found._replace(topics=topics if found.topics is None else found.topics & topics)
    if not values or not all(isinstance(one, int) for one in values):
        return found
    if name == "partition":
        partitions = frozenset(values)
        return found._replace(partitions=partitions if found.partitions is None else found.partitions & partitions)
    if name == "offset":
        end = max(values) + 1
        found = found._replace(end=end if found.end is None else min(found.end, end))
    return _at_least(found, name, min(values), beyond=False)


def _at_least(found: Pruned, name: str, value: Any, *, beyond: bool) -> Pruned:
    if name == "offset" and isinstance(value, int):
        return found._replace(first=max(found.first or 0, value + beyond))
    if name == "timestamp":
        if isinstance(value, datetime) and value.tzinfo is not None:
            value = int(value.timestamp() * _MS) - 1
        if isinstance(value, int):
            return found._replace(since=max(found.since or 0, value))
    return found
