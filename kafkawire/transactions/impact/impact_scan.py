"""Counts what open transactions hold back in a copied partition: reads its log again, from the first of them on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from kafkawire.errors import KafkaWireError
from kafkawire.logdir import Partition
from kafkawire.logdir.splits import batches_from, each_batch
from kafkawire.records import Batch
from kafkawire.records.array_types import Int64
from kafkawire.records.columns import Batches
from kafkawire.transactions.facts import Open
from kafkawire.transactions.impact.held_back import (
    COMPACTED_TOPICS,
    HeldLog,
    HeldLogCounter,
    KeyRepetition,
    PartitionImpact,
    TopicPolicy,
    impact_of,
)


def with_impacts(
    partition: Partition,
    opens: Sequence[Open],
    topics: Mapping[str, TopicPolicy] | None,
    show_records: int = 0,
    check: Callable[[], None] | None = None,
) -> tuple[Open, ...]:
    """The open transactions of a replica, each with its impact.

    Args:
        opens: all of the replica.
        topics: settings of the topics that have some of their own; None: they are not known.
        show_records: number of records of each transaction to keep.
        check: called again and again; what it raises ends the reading.
    """
    if not opens:
        return ()
    topic, log_start = partition.topic, partition.log_start_offset or 0
    cleaned = partition.broker.cleaned.get((topic, partition.partition))
    unknown = []
    if topics is not None or topic in COMPACTED_TOPICS:
        policy = (topics or {}).get(topic) or TopicPolicy.of(topic, {})
    else:
        policy = TopicPolicy(deleted=None)
        unknown.append("the topic's settings: no __cluster_metadata was read")
    policy = replace(
        policy, compacted=policy.compacted or cleaned is not None, tiered=policy.tiered or bool(partition.tiers)
    )
    facts = PartitionImpact(
        held=_held(partition, opens, policy, show_records, check),
        policy=policy,
        cleaned_offset=cleaned,
        unknown=tuple(unknown),
    )
    starts = sorted(max(one.start_offset, log_start) for one in opens)
    return tuple(
        replace(
            one,
            impact=impact_of(
                one.producer_id,
                one.start_offset,
                starts,
                facts,
                log_start=log_start,
                last_stable_offset=None,
                high_watermark=partition.high_watermark,
            ),
        )
        for one in opens
    )


def _held(
    partition: Partition,
    opens: Sequence[Open],
    policy: TopicPolicy,
    show_records: int,
    check: Callable[[], None] | None,
) -> HeldLog:
    """The log of a replica from its first open transaction on."""
    starts = {one.producer_id: one.start_offset for one in opens}
    counter = HeldLogCounter(starts, partition.local_start_offset or 0, partition.high_watermark, show_records)
    if policy.compacted:
        counter.repetition = KeyRepetition()
    active = partition.segments[-1] if partition.segments else None
    cuts, producers = np.array(counter.cuts), np.array(sorted(counter.starts))
    closed = 0
    for file, item in batches_from(partition.segments, counter.cuts[0], counter.lack, check_crc=False):
        if check is not None:
            check()
        size = _add(counter, item, cuts, producers)
        if file is not active:
            closed += size
            _sample(counter, item)
    counter.closed_bytes = closed
    return counter.held(whole=True)


def _add(counter: HeldLogCounter, item: Batches | Batch, cuts: Int64, producers: Int64) -> int:
    """Count batches; returns the bytes of those that are held."""
    if isinstance(item, Batch):
        counter.add(item)
        return item.size if item.last_offset >= counter.cuts[0] else 0
    base, control = item.base_offset, item.is_control
    held = item.last_offset >= counter.cuts[0]
    below = held if counter.end is None else held & (base < counter.end)
    at = np.searchsorted(cuts, np.maximum(base, cuts[0]), side="right") - 1
    first = int(at[0])  # offsets ascend
    sizes = np.bincount(at[below] - first, item.size[below])
    records = np.bincount(at[below] - first, np.where(control, 0, item.record_count)[below])
    for number in np.flatnonzero(sizes).tolist():
        counter.add_sums(first + number, int(records[number]), int(sizes[number]))
    own = held & item.transactional & ~control & np.isin(item.producer_id, producers)
    for index in np.flatnonzero(own).tolist():
        counter.add_data(item.batch(index))
    counter.read_to = max(counter.read_to, int(item.last_offset[-1]) + 1)
    return int(item.size[held].sum())


def _sample(counter: HeldLogCounter, item: Batches | Batch) -> None:
    if counter.repetition is None:
        return
    for batch in each_batch(item):
        if counter.repetition.full:
            return
        if not batch.is_control and batch.last_offset >= counter.cuts[0]:
            try:
                counter.repetition.add(batch)
            except KafkaWireError as error:
                counter.lack(f"the records of the batch at offset {batch.base_offset}: {error}", counted=False)
