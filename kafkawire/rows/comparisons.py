"""Rows of `kafkawire compare`: what two copies of a partition have in common, and where they differ."""

from __future__ import annotations

from msgspec import field

from kafkawire.rows.base import Row


class ComparedPartition(Row, frozen=True, kw_only=True):
    """Two copies of a partition. `in_a` and `in_b` are the sums of `of_a` and `of_b`.

    Attributes:
        topic, partition: in A. topic_b: in B, where it has another name.
        by: `offsets` (batches at the same offsets) or `order` (committed records in the same order).
        a, b: paths of the copies; None: there is none.
        in_a, in_b: number of batches, or of records, in each.
        same: number of those that are in both.
        of_a: what those of A are in B -> number: same, expired (below the log start offset), compacted, behind (B ends
            before them), before (A has them before the first that both have), uncommitted (above a high watermark),
            unreadable, compaction_not_proven (nothing is there, and the cleaner has not reached the place), no_copy;
            lost and changed break a promise. of_b: the reverse: extra, repeated and reordered do.
        syncs: number of MirrorMaker's offset-syncs of the partition; syncs_unknown: of those whose records are not in
            both copies.
    """

    kind: str = "compared"
    topic: str
    partition: int
    topic_b: str | None = None
    by: str
    a: str | None = None
    b: str | None = None
    in_a: int = 0
    in_b: int = 0
    same: int = 0
    of_a: dict[str, int] = field(default_factory=dict)
    of_b: dict[str, int] = field(default_factory=dict)
    syncs: int = 0
    syncs_unknown: int = 0


class CopyDifference(Row, frozen=True, kw_only=True):
    """Consecutive batches or records of one copy that the other copy lacks or holds otherwise.

    Attributes:
        side: the copy that has them: a or b. difference: as in `of_a` and `of_b` of `ComparedPartition`.
        first_offset, last_offset: of the first and the last of them, in that copy. number: of batches, or of records.
        file: the segment of the first.
    """

    kind: str = "difference"
    side: str
    difference: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    number: int
    file: str | None = None


class MirroredOffset(Row, frozen=True, kw_only=True):
    """An offset of A and the offset of B that MirrorMaker 2 recorded for it, compared with the records of both copies.

    Attributes:
        said_by: sync (a record of A is that of B) or checkpoint (the offset at which a group of A continues in B).
        result: same; other_record (of a sync: two other records are there); skips (of a checkpoint: the group misses
            records); unknown (of a checkpoint: no record is in both copies).
        group: of a checkpoint. topic, partition: in A. offset_a, offset_b: the two offsets that the row of MirrorMaker
            equates.
        missed, again: number of records that the group misses, and gets once more, of those that are once in each copy.
    """

    kind: str = "mirrored"
    said_by: str
    result: str
    group: str | None = None
    topic: str
    partition: int
    offset_a: int
    offset_b: int
    missed: int | None = None
    again: int | None = None
