"""Every offset of a partition explained: why offsets are missing, where consumers stop, what is lost.

```python
directory = logdir.open("kafka-logs/")
for replica in offsets.replicas(directory, "orders", 0):
    replica.bounds.high_watermark, replica.bounds.last_stable_offset
    for row in offsets.explain(replica):             # at most 40 ranges, and totals
        ...
    for row in offsets.explain(replica, most=None):  # all ranges, each of one status
        ...
for row in offsets.story(directory, "orders", 0, 4711):
    ...                                              # one offset: its batch, transaction, coordinator's records
```
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkawire.errors import MissingExtraError, RecordError

try:
    import numpy as _numpy  # noqa: F401
except ImportError:
    raise MissingExtraError("kafkawire.offsets", "arrow") from None

from kafkawire.logdir.file_rows import damage_as_rows
from kafkawire.offsets.equal_records import EqualRecordSearch
from kafkawire.offsets.offset_summary import OffsetSummary, ranges
from kafkawire.offsets.partial_transactions import PartialTransactions
from kafkawire.offsets.replica import Replica, replicas
from kafkawire.offsets.statuses import Runs
from kafkawire.offsets.story import story
from kafkawire.records import Damage
from kafkawire.rows import DamageRow, EqualRecords, Row, RowOrigin

__all__ = ["MOST_RANGES", "Replica", "Runs", "explain", "replicas", "story"]

#: The number of ranges of a replica unless another is given.
MOST_RANGES = 40


def explain(
    replica: Replica,
    first: int = 0,
    end: int | None = None,
    *,
    most: int | None = MOST_RANGES,
    equal_records: bool = False,
) -> Iterator[Row]:
    """What the offsets of a replica are: a `ReplicaBounds`, `StatusRange`s, `StatusTotal`s, `PartialTransaction`s and
    their total, `EqualRecords` and `DamageRow`s. The ranges follow one another; the sums of ranges and of totals are
    the number of offsets.

    Args:
        first, end: the offsets from one up to another, without it; None: the end. Partial transactions are those of
            whole logs only.
        most: ranges, and partial transactions, at most; neighbours are merged. None: all, as they are read.
        equal_records: search for records that repeat earlier ones; reads all records.

    Raises:
        OSError: a file cannot be read.
    """
    bounds = replica.bounds
    place: RowOrigin = {"file": bounds.file, "topic": bounds.topic, "partition": bounds.partition}
    yield bounds
    summary = OffsetSummary(most or 1)
    parts = PartialTransactions(replica.outcomes, place, most)
    whole = first == 0 and end is None

    def counted() -> Iterator[Runs]:
        for runs in replica.runs(first, end, parts.add if whole else None):
            summary.add(runs)
            yield runs

    if most is None:
        for row in ranges(counted(), place):
            yield row
            yield from parts.drain()
    else:
        for _ in counted():
            pass
        yield from summary.ranges(place)
    yield from summary.totals(place)
    yield from parts.finish()
    damage = [*replica.damage, *replica.support_damage, *replica.undecided]
    if equal_records:
        for found in _equal_records(replica, place):
            if isinstance(found, DamageRow):
                damage.append(found)
            elif found.last_offset >= first and (end is None or found.first_offset < end):
                yield found
    yield from dict.fromkeys(damage)


def _equal_records(replica: Replica, origin: RowOrigin) -> Iterator[EqualRecords | DamageRow]:
    """The records of a replica that repeat earlier ones, and what of it cannot be read."""
    search = EqualRecordSearch(replica.outcomes, origin)
    for file in replica.partition.segments:
        for item in damage_as_rows(file, file.batches()):
            if isinstance(item, DamageRow):
                yield item
                continue
            try:
                yield from search.add(item)
            except RecordError as error:
                damage = Damage(item.position, "bad_records", str(error), item.position + item.size)
                yield DamageRow.of(damage, **file.place)
    yield from search.finish()
