"""`copied_holds`: the transactions of a topic that blocked read_committed consumers the longest, by copies of log
directories."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from msgspec.structs import replace

from kafkawire.logdir import outcomes_of
from kafkawire.logdir.file_rows import damage_as_rows
from kafkawire.logdir.offset_scan import gaps_between
from kafkawire.logdir.splits import batches_of
from kafkawire.messages import TransactionLogKey, TransactionLogValue
from kafkawire.offsets.group_records import GroupLog, lacked
from kafkawire.offsets.leading_replica import Leading, LeadingReplicas
from kafkawire.offsets.longest_holds import LongestHolds, longest
from kafkawire.records import Batch
from kafkawire.records.columns import Batches, header_arrays
from kafkawire.rows import DamageRow, Hold
from kafkawire.transactions.facts import TRANSACTION_STATE, MissingOffsets


def copied_holds(
    replicas: LeadingReplicas, topic: str, partitions: Iterable[int], most: int
) -> Iterator[Hold | DamageRow]:
    """The longest holds of partitions, the longest first, and before them what is damaged. `replicas`: of the log
    directories of one cluster. `partitions`: numbers; each has a copy. `most`: number of holds."""
    found: list[Hold] = []
    for number in partitions:
        leading = replicas.of(topic, number)
        if leading is None:
            yield DamageRow(topic=topic, partition=number, reason="missing", detail="no copy of it is here")
            continue
        holds = LongestHolds(topic, number, most, cut=bool(leading.partition.local_start_offset))
        for item in _batches(leading):
            if isinstance(item, DamageRow):
                yield item
            else:
                holds.take(item)
        found = longest([*found, *holds.finish()], most)
    names = yield from _names(replicas, {one.producer_id for one in found})
    yield from (replace(one, transactional_id=names.get(one.producer_id)) for one in found)


def _batches(leading: Leading) -> Iterator[Batches | Batch | DamageRow]:
    """The batches of a copy; damage, and what the copy lacks: a transaction or its marker may be there."""
    partition, outcomes = leading.partition, outcomes_of(leading.partition)
    missing = DamageRow(topic=partition.topic, partition=partition.partition, reason="missing")
    for lack in (*lacked(partition, outcomes), *(() if leading.doubt is None else (leading.doubt,))):
        yield replace(missing, detail=lack)
    reached = partition.local_start_offset
    for file in partition.segments:
        items: Iterator[Batches | Batch | DamageRow] = damage_as_rows(file, batches_of(file))
        for item in items:
            if isinstance(item, DamageRow):
                reached = None  # the row shows that offsets are missing
                yield item
                continue
            found = item.measured() if isinstance(item, Batch) else item
            base, last = header_arrays(found, "base_offset", "last_offset")
            known = max(int(base[0]) if reached is None else reached, outcomes.cleaned_to)
            for begin, end in gaps_between(base, last + 1, known):
                yield replace(missing, file=file.path, detail=str(MissingOffsets(file.path, begin, end)))
            reached = max(reached or 0, int(last.max()) + 1)
            yield item


def _names(replicas: LeadingReplicas, producers: set[int]) -> Generator[DamageRow, None, dict[int, str]]:
    """The transactional ids of producers, by the coordinators' records."""
    names: dict[int, str] = {}
    for number in replicas.numbers(TRANSACTION_STATE) if producers else ():
        leading = replicas.of(TRANSACTION_STATE, number)
        if leading is None:
            continue
        log = GroupLog(leading.partition)
        for record in log.records():
            key, value = record.key, record.value
            if isinstance(key, TransactionLogKey) and isinstance(value, TransactionLogValue):
                for producer in {value.producer_id, value.previous_producer_id} & producers:
                    names.setdefault(producer, key.transactional_id)
        for problem in log.problems:
            yield DamageRow(topic=TRANSACTION_STATE, partition=number, reason="unreadable", detail=problem)
    return names
