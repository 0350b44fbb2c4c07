"""The rows of `kafkawire compare`, and what they amount to. Pure.

The comparison of a partition may come from one task or from many: `Side` adds up the results, and `ComparedRows` makes
rows of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkawire.offsets import Replica
from kafkawire.rows import ComparedPartition, CopyDifference, DamageRow, MirroredOffset, Row
from kafkawire.witness.copy_comparison import NAMES, UNPROVEN, UNREADABLE, Side
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.held import segment_at, segments_of


class CopyNote(NamedTuple):
    """What the rows state of a copy, once all of it was read.

    Attributes:
        path: of the copy. segments: first offset and path of each. damage: of its files.
        old: number of batches of magic 0 and 1, which are not compared.
    """

    path: str
    segments: tuple[tuple[int, str], ...] = ()
    damage: tuple[DamageRow, ...] = ()
    old: int = 0

    @classmethod
    def of(cls, replica: Replica) -> CopyNote:
        """The note on a replica whose offsets were walked over."""
        damage = (*replica.damage, *replica.support_damage)
        return cls(replica.partition.path, segments_of(replica), damage, replica.old_batches)


class ComparedRows:
    """Makes the rows of partitions.

    Args:
        most: differences that are listed, at most.

    Attributes:
        found: number of batches, records and statements of a mirror that break a promise.
        incomplete: sentences on what was not compared.
    """

    def __init__(self, most: int) -> None:
        self.left = most
        self.found = 0
        self.incomplete: list[str] = []

    def alone(
        self, place: Place, topic_b: str | None, by: str, one: Replica | None, other: Replica | None
    ) -> ComparedPartition:
        """A partition of which one side at most has a copy."""
        self.incomplete.append(f"{place[0]}-{place[1]}: only {'B' if one is None else 'A'} has a copy")
        kinds = {"no_copy": 0}
        return ComparedPartition(
            topic=place[0],
            partition=place[1],
            topic_b=topic_b,
            by=by,
            a=None if one is None else one.partition.path,
            b=None if other is None else other.partition.path,
            of_a={} if one is None else kinds,
            of_b={} if other is None else kinds,
        )

    def partition(
        self,
        place: Place,
        topic_b: str | None,
        by: str,
        copies: tuple[CopyNote, CopyNote],
        sides: tuple[Side, Side],
        *,
        statements: Iterable[MirroredOffset] = (),
        syncs: tuple[int, int] = (0, 0),
    ) -> Iterator[Row]:
        """The rows of a partition.

        Args:
            place: in A. topic_b: its name in B, where that is another one. by: see `ComparedPartition`.
            copies: of A and of B. sides: what each is in the other.
            statements, syncs: of a mirror; number of offset-syncs, and of those that are not known.
        """
        statements = list(statements)
        a, b = (side.finish() for side in sides)
        yield ComparedPartition(
            topic=place[0],
            partition=place[1],
            topic_b=topic_b,
            by=by,
            a=copies[0].path,
            b=copies[1].path,
            in_a=sum(a.counts.values()),
            in_b=sum(b.counts.values()),
            same=a.counts.get("same", 0),
            of_a=a.counts,
            of_b=b.counts,
            syncs=syncs[0],
            syncs_unknown=syncs[1],
        )
        for copy in copies:
            if copy.old:
                text = f"{copy.old} batches of message format 0 or 1 are compared by --by order only"
                self.incomplete.append(f"{copy.path}: {text}")
        unproven = sum(side.counts.get(NAMES[UNPROVEN], 0) for side in sides)
        if unproven:
            self.incomplete.append(f"{place[0]}-{place[1]}: {unproven} not there, and no checkpoint shows compaction")
        unread = sum(side.counts.get(NAMES[UNREADABLE], 0) for side in sides)
        if unread:
            self.incomplete.append(f"{place[0]}-{place[1]}: {unread} damaged in the other copy, or in no file of it")
        self.found += a.broken + b.broken + sum(row.result in ("other_record", "skips") for row in statements)
        for name, copy, side in zip("ab", copies, sides, strict=True):
            yield from self._differences(name, place, copy, side)
        yield from statements
        for row in dict.fromkeys((*copies[0].damage, *copies[1].damage)):
            if not row.harmless:
                self.incomplete.append(f"{row.file}: {row.detail or row.reason}")
            yield row

    def _differences(self, name: str, place: Place, copy: CopyNote, side: Side) -> Iterator[CopyDifference]:
        for one in side.differences[: self.left]:
            self.left -= 1
            yield CopyDifference(
                side=name,
                difference=NAMES[one.kind],
                topic=place[0],
                partition=place[1],
                first_offset=one.first_offset,
                last_offset=one.last_offset,
                number=one.number,
                file=(segment_at(copy.segments, one.first_offset) or copy.path) if copy.segments else None,
            )
