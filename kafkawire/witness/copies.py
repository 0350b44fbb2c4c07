"""Two sets of log directories, or one and a lake table -> rows: what of each partition they have in common."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

import numpy as np

from kafkawire import offsets
from kafkawire.logdir import LogDirectory
from kafkawire.offsets import Replica
from kafkawire.records.array_types import Int8, Int64
from kafkawire.rows import ComparedPartition, CopyDifference, DamageRow, MirroredOffset, Row
from kafkawire.witness.comparison import EXTRA, LOST, NAMES, REPEATED, UNPROVEN, by_offsets, counted, differences
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.held import CopyOfPartition, copy_of, newest_first
from kafkawire.witness.lake_tables import LakeTable
from kafkawire.witness.mirror_offsets import MirrorOffsets
from kafkawire.witness.record_order import by_order, ordered_records
from kafkawire.witness.table_comparison import by_table

#: Differences that are listed unless another number is given; all are counted.
MOST_DIFFERENCES = 1000


class CopyComparison:
    """Compares the partitions of two sets of log directories, or of log directories and a lake table.

    Args:
        a: the directories. b: others, or a table. Where one has several copies of a partition, the newest is compared.
        by: `offsets`, `order`, or None: by offsets with a table, and where cluster or topic have one id in both;
            otherwise by order.
        prefix: in front of the names that topics have in B, as a mirror names them.
        topic: only this one, by its name in A.
        most: differences that are listed, at most.

    Attributes:
        found: number of batches, records and statements of a mirror that break a promise, once `rows` has ended.
        incomplete: sentences on what was not compared.
    """

    def __init__(
        self,
        a: LogDirectory,
        b: LogDirectory | LakeTable,
        *,
        by: str | None = None,
        prefix: str = "",
        topic: str | None = None,
        most: int = MOST_DIFFERENCES,
    ) -> None:
        self._a, self._b, self._by, self._prefix, self._topic = a, b, by, prefix, topic
        self._left = most
        self._mirror: MirrorOffsets | None = None
        self.found = 0
        self.incomplete: list[str] = []

    def rows(self) -> Iterator[Row]:
        """A `ComparedPartition` for each partition, each with its `CopyDifference`s, `MirroredOffset`s and `DamageRow`s
        after it.

        Raises:
            OSError: a file cannot be read. LakeTableError: a table cannot be read.
        """
        self.begin()
        for place in self.places():
            yield from self.partition(place)

    def begin(self) -> None:
        """Reads what partitions share: the topics of a mirror.

        Raises:
            OSError: a file cannot be read.
        """
        if isinstance(self._b, LogDirectory):
            self._mirror = MirrorOffsets(self._a, self._b)
            self.incomplete += self._mirror.problems

    def places(self) -> list[Place]:
        """What is compared, by its names in A."""
        there = self._b.places() if isinstance(self._b, LakeTable) else _places(self._b)
        in_b = {_unprefixed(place, self._prefix) for place in there} - {None}
        found = _places(self._a) | {one for one in in_b if one is not None}
        # A lake table has the topics that someone wrote to it.
        left_out = isinstance(self._b, LakeTable) and self._topic is None
        return sorted(one for one in found if self._topic in (None, one[0]) and not (left_out and one not in in_b))

    def partition(self, place: Place) -> Iterator[Row]:
        """The rows of one partition."""
        topic, number = place
        there = self._prefix + topic
        one = _newest(self._a, place)
        if isinstance(self._b, LakeTable):
            yield from self._with_table(place, there, one, self._b)
            return
        other = _newest(self._b, (there, number))
        if one is None or other is None:
            yield self._alone(place, one, other)
            return
        by = self._by or ("offsets" if _same_log(one, other) else "order")
        a, b = (copy_of(each, same=True) for each in (one, other))
        said: list[MirroredOffset] = []
        syncs = syncs_unknown = 0
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
            if self._mirror is not None:
                syncs, syncs_unknown, said = self._mirror.checked(place, there, *records)
        yield ComparedPartition(
            topic=topic,
            partition=number,
            topic_b=there if self._prefix else None,
            by=by,
            a=a.path,
            b=b.path,
            **_counts(of_a, of_b),
            syncs=syncs,
            syncs_unknown=syncs_unknown,
        )
        self._unproven(place, of_a, of_b)
        self.found += _broken(of_a, of_b) + sum(row.result in ("other_record", "skips") for row in said)
        yield from self._differences("a", place, a, of_a, spans[0])
        yield from self._differences("b", place, b, of_b, spans[1])
        yield from said
        for row in dict.fromkeys(damage):
            yield self._noted(row)

    def _alone(self, place: Place, one: Replica | None, other: Replica | None) -> ComparedPartition:
        """A partition of which only one side has a copy."""
        topic, number = place
        self.incomplete.append(f"{topic}-{number}: only {'B' if one is None else 'A'} has a copy")
        kinds = {"no_copy": 0}
        return ComparedPartition(
            topic=topic,
            partition=number,
            topic_b=self._prefix + topic if self._prefix else None,
            by=self._by or "offsets",
            a=None if one is None else one.partition.path,
            b=None if other is None else other.partition.path,
            of_a={} if one is None else kinds,
            of_b={} if other is None else kinds,
        )

    def _with_table(self, place: Place, there: str, one: Replica | None, table: LakeTable) -> Iterator[Row]:
        topic, number = place
        if one is None:
            yield self._alone(place, None, None)
            return
        rows = table.rows((there, number))
        copy, records = copy_of(one, same=True), ordered_records(one, headers=False)
        of_a, of_b = by_table(records, rows, copy, content=table.has_content)
        yield ComparedPartition(
            topic=topic,
            partition=number,
            topic_b=there if self._prefix else None,
            by="offsets",
            a=copy.path,
            b=table.path,
            **_counts(of_a, of_b),
        )
        self.found += _broken(of_a, of_b)
        self._unproven(place, of_a, of_b)
        yield from self._differences("a", place, copy, of_a, (records.offset, records.offset))
        order = np.argsort(of_b == REPEATED, kind="stable")  # what is there again comes last, as neighbours
        yield from self._differences("b", place, None, of_b[order], (rows.offset[order], rows.offset[order]))
        for row in dict.fromkeys((*records.damage, *one.damage)):
            yield self._noted(row)

    def _unproven(self, place: Place, *kinds: Int8) -> None:
        """Notes what compaction may have removed, or not."""
        number = sum(int(np.count_nonzero(one == UNPROVEN)) for one in kinds)
        if number:
            self.incomplete.append(f"{place[0]}-{place[1]}: {number} not there, and no checkpoint shows compaction")

    def _noted(self, row: DamageRow) -> DamageRow:
        if not row.harmless:
            self.incomplete.append(f"{row.file}: {row.detail or row.reason}")
        return row

    def _differences(
        self, side: str, place: Place, copy: CopyOfPartition | None, kinds: Int8, span: tuple[Int64, Int64]
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
                file=None if copy is None else copy.segment(one.first_offset),
            )


class _Counts(TypedDict):
    in_a: int
    in_b: int
    same: int
    of_a: dict[str, int]
    of_b: dict[str, int]


def _counts(of_a: Int8, of_b: Int8) -> _Counts:
    same = counted(of_a).get("same", 0)
    return {"in_a": len(of_a), "in_b": len(of_b), "same": same, "of_a": counted(of_a), "of_b": counted(of_b)}


def _broken(of_a: Int8, of_b: Int8) -> int:
    return int(np.count_nonzero(of_a >= LOST) + np.count_nonzero(of_b >= LOST))


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
