"""The batches of a copy of a partition, and what the copy lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from kafkawire.logdir import LogFile, Outcomes, Partition, outcomes_of
from kafkawire.logdir.file_rows import damage_as_rows
from kafkawire.logdir.offset_scan import gaps_between
from kafkawire.offsets.leading_replica import Leading
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import Batches, header_arrays
from kafkawire.rows import DamageRow
from kafkawire.transactions.facts import MissingOffsets

B = TypeVar("B", bound="Batches | Batch")


class MissingBefore:
    """Offsets that are missing before and between batches, where no cleaner has been.

    Args:
        start: the offset at which the batches begin; None where it is not known.
        cleaned_to: the offset up to which a cleaner has been.
    """

    def __init__(self, start: int | None, cleaned_to: int) -> None:
        self._reached, self._cleaned_to = start, cleaned_to

    def damaged(self) -> None:
        """Takes damage, of which it is known that offsets are missing."""
        self._reached = None

    def take(self, item: Batches | Batch) -> Iterator[tuple[int, int]]:
        """The next batches. Returns the first offset of each missing range, and the one after its last."""
        found = item.measured() if isinstance(item, Batch) else item
        base, last = header_arrays(found, "base_offset", "last_offset")
        reached = int(base[0]) if self._reached is None else self._reached
        self._reached = max(reached, int(last.max()) + 1)
        return gaps_between(base, last + 1, max(reached, self._cleaned_to))


def copied_batches(leading: Leading, read: Callable[[LogFile], Iterable[B | Damage]]) -> Iterator[B | DamageRow]:
    """The batches of a copy in order; rows of damage, and of what the copy lacks: what is sought may be there.

    Args:
        read: of a segment.
    """
    partition, outcomes = leading.partition, outcomes_of(leading.partition)

    def missing(detail: str, file: str | None = None) -> DamageRow:
        place = partition.topic, partition.partition
        return DamageRow(file=file, topic=place[0], partition=place[1], reason="missing", detail=detail)

    yield from map(missing, lacked(partition, outcomes))
    if leading.doubt is not None:
        yield missing(leading.doubt)
    before = MissingBefore(partition.local_start_offset, outcomes.cleaned_to)
    for file in partition.segments:
        items: Iterator[B | DamageRow] = damage_as_rows(file, read(file))
        for item in items:
            if isinstance(item, DamageRow):
                before.damaged()
            else:
                for start, end in before.take(item):
                    yield missing(str(MissingOffsets(file.path, start, end)), file.path)
            yield item


def lacked(partition: Partition, outcomes: Outcomes) -> Iterator[str]:
    """What a copy of a partition lacks by the files beside its segments, a sentence each."""
    start, high = partition.log_start_offset or 0, partition.high_watermark or 0
    if start < (local := partition.local_start_offset or 0):
        yield f"{partition.path}: offsets {start} to {local - 1} are in no file that was given"
    if high > outcomes.high_watermark:
        yield f"{partition.path}: the log ends at offset {outcomes.high_watermark}, below its high watermark {high}"
    for path, damage in outcomes.damage:
        yield f"{path}: {damage.detail or damage.reason}"
