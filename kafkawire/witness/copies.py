"""Two sets of log directories -> rows: partition by partition what the copies have in common, and where they differ."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kafkawire import offsets
from kafkawire.logdir import LogDirectory
from kafkawire.offsets import Replica
from kafkawire.records.array_types import Int8, Int64
from kafkawire.rows import ComparedPartition, CopyDifference, DamageRow, Row
from kafkawire.witness.comparison import EXTRA, LOST, NAMES, by_offsets, counted, differences
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.held import CopyOfPartition, copy_of, newest_first
from kafkawire.witness.record_order import by_order, ordered_records

#: Differences that are listed unless another number is given; all are counted.
MOST_DIFFERENCES = 1000


class CopyComparison:
    """Compares the partitions of two sets of log directories.

    Args:
        a, b: the directories. Where one has several copies of a partition, the newest is compared.
        by: `offsets`, `order`, or None: by offsets where cluster or topic have one id in both, otherwise by order.
        prefix: in front of the names that topics have in B, as a mirror names them.
        topic: only this one, by its name in A.
        most: differences that are listed, at most.

    Attributes:
        found: number of batches and records that break a promise, once `rows` has ended. incomplete: sentences on what
            was not compared.
    """

    def __init__(
        self,
        a: LogDirectory,
        b: LogDirectory,
        *,
        by: str | None = None,
        prefix: str = "",
        topic: str | None = None,
        most: int = MOST_DIFFERENCES,
    ) -> None:
        self._a, self._b, self._by, self._prefix, self._topic = a, b, by, prefix, topic
        self._left = most
        self.found = 0
        self.incomplete: list[str] = []

    def rows(self) -> Iterator[Row]:
        """A `ComparedPartition` for each partition, each with its `CopyDifference`s and `DamageRow`s behind it.

        Raises:
            OSError: a file cannot be read.
        """
        in_a, in_b = _places(self._a), {_unprefixed(place, self._prefix) for place in _places(self._b)} - {None}
        for place in sorted(in_a | {one for one in in_b if one is not None}):
            if self._topic in (None, place[0]):
                yield from self._partition(place)

    def _partition(self, place: Place) -> Iterator[Row]:
        topic, number = place
        there = self._prefix + topic
        one, other = _newest(self._a, place), _newest(self._b, (there, number))
        name = there if self._prefix else None
        if one is None or other is None:
            self.incomplete.append(f"{topic}-{number}: only {'B' if one is None else 'A'} has a copy")
            has, kinds = (one or other), {"no_copy": 0}
            assert has is not None
            yield ComparedPartition(
                topic=topic,
                partition=number,
                topic_b=name,
                by=self._by or "offsets",
                a=None if one is None else one.partition.path,
                b=None if other is None else other.partition.path,
                of_a={} if one is None else kinds,
                of_b={} if other is None else kinds,
            )
            return
        by = self._by or ("offsets" if _same_log(one, other) else "order")
        a, b = (copy_of(each, same=True) for each in (one, other))
        if by == "offsets":
            of_a, of_b = by_offsets(a, b), by_offsets(b, a)
            of_b[of_b == LOST] = EXTRA
            spans = [(each.batches["base"], each.batches["last"]) for each in (a, b)]
            for each in (one, other):
                if each.old_batches:
                    text = f"{each.old_batches} batches of message format 0 or 1 are compared by --by order only"
                    self.incomplete.append(f"{each.partition.path}: {text}")
            damage = [*one.damage, *one.support_damage, *other.damage, *other.support_damage]
        else:
            records = [ordered_records(each) for each in (one, other)]
            of_a, of_b = by_order(*records)
            spans = [(each.offset, each.offset) for each in records]
            damage = [row for each in records for row in each.damage]
        yield ComparedPartition(
            topic=topic,
            partition=number,
            topic_b=name,
            by=by,
            a=a.path,
            b=b.path,
            in_a=len(of_a),
            in_b=len(of_b),
            same=counted(of_a).get("same", 0),
            of_a=counted(of_a),
            of_b=counted(of_b),
        )
        self.found += int(np.count_nonzero(of_a >= LOST) + np.count_nonzero(of_b >= LOST))
        yield from self._differences("a", place, a, of_a, spans[0])
        yield from self._differences("b", place, b, of_b, spans[1])
        for row in dict.fromkeys(damage):
            yield self._noted(row)

    def _noted(self, row: DamageRow) -> DamageRow:
        if not row.harmless:
            self.incomplete.append(f"{row.file}: {row.detail or row.reason}")
        return row

    def _differences(
        self, side: str, place: Place, copy: CopyOfPartition, kinds: Int8, span: tuple[Int64, Int64]
    ) -> Iterator[CopyDifference]:
        for one in differences(kinds, *span):
            if self._left <= 0:
                return
            self._left -= 1
            yield CopyDifference(
                side=side,
                difference=NAMES[one.kind],
                topic=place[0],
                partition=place[1],
                first_offset=one.first_offset,
                last_offset=one.last_offset,
                number=one.number,
                file=copy.segment(one.first_offset),
            )


def _places(directory: LogDirectory) -> set[Place]:
    return {
        (one.topic, one.partition)
        for one in directory.partitions
        if one.topic is not None and one.partition is not None and not one.state and one.segments
    }


def _unprefixed(place: Place, prefix: str) -> Place | None:
    return (place[0].removeprefix(prefix), place[1]) if place[0].startswith(prefix) else None


def _newest(directory: LogDirectory, place: Place) -> Replica | None:
    try:
        found = offsets.replicas(directory, *place)
    except LookupError:
        return None
    return next(iter(newest_first(one for one in found if one.partition.segments)), None)


def _same_log(one: Replica, other: Replica) -> bool:
    """Whether two copies are of one log: the topic, or without its id the cluster, has one id in both."""
    ids = one.partition.topic_id, other.partition.topic_id
    if None not in ids:
        return ids[0] == ids[1]
    clusters = one.partition.broker.cluster_id, other.partition.broker.cluster_id
    return clusters[0] is not None and clusters[0] == clusters[1]
