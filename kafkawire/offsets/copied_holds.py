"""`copied_holds`: the transactions of a topic that blocked read_committed consumers the longest, by copies of log
directories."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

from msgspec.structs import replace

from kafkawire.logdir.splits import batches_of
from kafkawire.messages import TransactionLogKey, TransactionLogValue
from kafkawire.offsets.copied_batches import copied_batches
from kafkawire.offsets.group_records import GroupLog
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.longest_holds import LongestHolds, longest
from kafkawire.rows import DamageRow, Hold
from kafkawire.transactions.facts import TRANSACTION_STATE


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
        for item in copied_batches(leading, batches_of):
            if isinstance(item, DamageRow):
                yield item
            else:
                holds.take(item)
        found = longest([*found, *holds.finish()], most)
    names = yield from _names(replicas, {one.producer_id for one in found})
    yield from (replace(one, transactional_id=names.get(one.producer_id)) for one in found)


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
