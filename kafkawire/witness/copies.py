"""`CopyComparison`: two sets of log directories, or one and a lake table -> rows that state what they have in common,
partition by partition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kafkawire import offsets
from kafkawire.logdir import LogDirectory
from kafkawire.offsets import Replica
from kafkawire.rows import Row
from kafkawire.witness.compared_rows import ComparedRows, CopyNote
from kafkawire.witness.copy_comparison import EXTRA, LOST, REPEATED, Run, Side, by_offsets, runs_of
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.held import CopyOfPartition, copy_of, newest_first, segments_of
from kafkawire.witness.lake_copies import LakeTable
from kafkawire.witness.mirror_offsets import MirrorOffsets
from kafkawire.witness.record_order import by_order, ordered_records
from kafkawire.witness.table_comparison import by_table

#: Differences that are listed unless another number is given; all are counted.
MOST_DIFFERENCES = 1000


class Pair(NamedTuple):
    """The copies of a partition that are compared: the newest of A and of B, None where there is none. `topic`: its
    name in B."""

    topic: str
    a: Replica | None
    b: Replica | None


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
        stated: what the rows so far amount to.
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
        self.most = most
        self._mirror: MirrorOffsets | None = None
        self.stated = ComparedRows(most)

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
            self.incomplete.extend(self._mirror.problems)

    def places(self) -> list[Place]:
        """What is compared, by its names in A."""
        there = self._b.places() if isinstance(self._b, LakeTable) else _places(self._b)
        in_b = {_unprefixed(place, self._prefix) for place in there} - {None}
        found = _places(self._a) | {one for one in in_b if one is not None}
        # A lake table has the topics that someone wrote to it.
        left_out = isinstance(self._b, LakeTable) and self._topic is None
        return sorted(one for one in found if self._topic in (None, one[0]) and not (left_out and one not in in_b))

    @property
    def found(self) -> int:
        """Number of batches, records and statements of a mirror that break a promise, once `rows` has ended."""
        return self.stated.found

    @property
    def incomplete(self) -> list[str]:
        """Sentences on what was not compared."""
        return self.stated.incomplete

    def pair(self, place: Place) -> Pair:
        """The copies of a partition.

        Raises:
            OSError: a file cannot be read.
        """
        there = self._prefix + place[0]
        other = None if isinstance(self._b, LakeTable) else _newest(self._b, (there, place[1]))
        return Pair(there, _newest(self._a, place), other)

    def by_offsets(self, pair: Pair) -> bool:
        """Whether batches at the same offsets are compared."""
        if isinstance(self._b, LakeTable) or pair.a is None or pair.b is None:
            return False
        return (self._by or ("offsets" if _same_log(pair.a, pair.b) else "order")) == "offsets"

    def topic_b(self, topic: str) -> str | None:
        """The name of a topic in B, where that is another one."""
        return self._prefix + topic if self._prefix else None

    def partition(self, place: Place) -> Iterator[Row]:
        """The rows of one partition."""
        pair = self.pair(place)
        if pair.a is not None and isinstance(self._b, LakeTable):
            yield from self._with_table(place, pair.topic, pair.a, self._b)
        elif pair.a is None or pair.b is None:
            yield self.stated.alone(place, self.topic_b(place[0]), self._by or "offsets", pair.a, pair.b)
        elif self.by_offsets(pair):
            a, b = (copy_of(each, same=True) for each in (pair.a, pair.b))
            sides = Side(self.most), Side(self.most)
            for side, runs in zip(sides, both_ways(a, b), strict=True):
                side.add(runs)
            notes = CopyNote.of(pair.a), CopyNote.of(pair.b)
            yield from self.stated.partition(place, self.topic_b(place[0]), "offsets", notes, sides)
        else:
            yield from self._ordered(place, pair.topic, pair.a, pair.b)

    def _ordered(self, place: Place, there: str, one: Replica, other: Replica) -> Iterator[Row]:
        records = [ordered_records(each) for each in (one, other)]
        sides = [
            Side(self.most).add(runs_of(kinds, each.offset, each.offset))
            for each, kinds in zip(records, by_order(*records), strict=True)
        ]
        notes = [
            CopyNote(each.partition.path, segments_of(each), found.damage)
            for each, found in zip((one, other), records, strict=True)
        ]
        checked = None if self._mirror is None else self._mirror.checked(place, there, *records)
        yield from self.stated.partition(
            place,
            self.topic_b(place[0]),
            "order",
            (notes[0], notes[1]),
            (sides[0], sides[1]),
            statements=() if checked is None else checked.rows,
            syncs=(0, 0) if checked is None else (checked.syncs, checked.unknown),
        )

    def _with_table(self, place: Place, there: str, one: Replica, table: LakeTable) -> Iterator[Row]:
        rows = table.rows((there, place[1]))
        copy, records = copy_of(one, same=True), ordered_records(one, headers=False)
        of_a, of_b = by_table(records, rows, copy, content=table.has_content)
        order = np.argsort(of_b == REPEATED, kind="stable")  # repeated records come last, as neighbours
        sides = (
            Side(self.most).add(runs_of(of_a, records.offset, records.offset)),
            Side(self.most).add(runs_of(of_b[order], rows.offset[order], rows.offset[order])),
        )
        damage = tuple(dict.fromkeys((*records.damage, *one.damage)))
        notes = CopyNote(copy.path, copy.segments, damage), CopyNote(table.path)
        yield from self.stated.partition(place, self.topic_b(place[0]), "offsets", notes, sides)


def both_ways(a: CopyOfPartition, b: CopyOfPartition) -> tuple[Iterator[Run], Iterator[Run]]:
    """What the batches of A are in B, and those of B in A, by offsets."""
    of_a, of_b = by_offsets(a, b), by_offsets(b, a)
    of_b[of_b == LOST] = EXTRA
    one, other = a.batches, b.batches
    return runs_of(of_a, one["base"], one["last"]), runs_of(of_b, other["base"], other["last"])


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
