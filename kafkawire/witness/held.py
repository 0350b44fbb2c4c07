"""`CopyOfPartition`: the batches that a copy of a partition holds, as packed rows, and the status of each offset. Pure
but for the walk over the replica's files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkawire.offsets import Replica
from kafkawire.offsets.lineage import lineage
from kafkawire.offsets.statuses import UNREADABLE
from kafkawire.records.array_types import Int8, Int64
from kafkawire.records.columns import Batches
from kafkawire.records.control import COMMIT
from kafkawire.records.marker_columns import markers
from kafkawire.witness.contents import contents, record_checksums
from kafkawire.witness.packed_rows import PackedRows

#: A batch of data in a log. `content`: NOT_COMPARABLE where compaction has rewritten it. `state`: of its transaction,
#: by the codes of `transaction_states`.
HELD = np.dtype(
    [
        ("base", "<i8"), ("last", "<i8"), ("producer_id", "<i8"), ("epoch", "<i2"), ("sequence", "<i4"),
        ("records", "<i4"), ("content", "<u8"), ("codec", "i1"), ("state", "i1"), ("position", "<i8"),
    ]
)  # fmt: skip
Held = npt.NDArray[np.void]
#: A marker in a log. `committed`: -1 for a control batch of another form.
MARKER = np.dtype([("base", "<i8"), ("producer_id", "<i8"), ("epoch", "<i2"), ("committed", "i1")])


class CopyOfPartition(NamedTuple):
    """What a copy holds.

    Attributes:
        path: of the copy. batches: `HELD`, by offset. markers: `MARKER`, by offset.
        first, code: runs of offsets: where each begins, and its status.
        end: the offset after the last run; offsets that are truncated have one. log_end: the one after the last batch.
        compacted_to: what the cleaner has come across, offsets below it.
        same: whether the copy is of the log that the captures show: the cluster or the topic has the same id in both.
        sound: whether all of the copy could be read.
        commits: whether the high watermark is known.
        diverges_at: from this offset on a newer copy has other leader epochs; None: nowhere.
        segments: first offset and path of each.
    """

    path: str
    batches: PackedRows
    markers: PackedRows
    first: Int64
    code: Int8
    end: int
    log_end: int
    compacted_to: int
    same: bool
    sound: bool
    commits: bool
    diverges_at: int | None
    segments: tuple[tuple[int, str], ...]

    def segment(self, offset: int) -> str:
        """The file that has an offset; the copy's path where none has."""
        return segment_at(self.segments, offset) or self.path

    def status(self, offsets: Int64) -> Int8:
        """The status of each offset; those at or above `end` get -1."""
        if not len(self.first):
            return np.full(len(offsets), -1, np.int8)
        at = np.maximum(np.searchsorted(self.first, offsets, side="right") - 1, 0)
        end = self.end if self.diverges_at is None else min(self.end, self.diverges_at)
        return np.where((offsets >= 0) & (offsets < end), self.code[at], np.int8(-1)).astype(np.int8)

    def unreadable(self, first: int, end: int) -> bool:
        """Whether an offset from one up to another, without it, is damaged or in no file."""
        after = np.append(self.first[1:], self.end)
        return bool(((self.first < end) & (after > first) & (self.code == UNREADABLE)).any())


def segment_at(segments: tuple[tuple[int, str], ...], offset: int) -> str | None:
    """The path of the segment that has an offset."""
    return next((path for base, path in reversed(segments) if base <= offset), None)


def newest_first(copies: Iterable[Replica]) -> list[Replica]:
    """The copies of a partition: the one whose log counts first.

    Raises:
        OSError: a file cannot be read.
    """

    def age(one: Replica) -> tuple[int, int, int]:
        lines = lineage(one.partition)
        last = (lines[-1].epoch, lines[-1].start_offset) if lines else (-1, -1)
        return *last, one.bounds.log_end_offset

    return sorted(copies, key=age, reverse=True)


def copy_of(replica: Replica, *, same: bool) -> CopyOfPartition:
    """Reads a replica.

    Args:
        same: see `CopyOfPartition`.

    Raises:
        OSError: a file cannot be read.
    """
    found: list[Held] = []
    ended: list[Held] = []

    def look(batches: Batches) -> None:
        if batches.is_control.any():
            ended.append(markers_of(batches))
        found.append(data_of(replica, batches))

    first, code, end = [], [], 0
    for runs in replica.runs(look=look):
        first.append(runs.first)
        code.append(runs.code)
        end = int(runs.end[-1])
    return viewed(
        replica,
        in_order(np.concatenate([np.empty(0, HELD), *found])),
        np.concatenate([np.empty(0, np.int64), *first]),
        np.concatenate([np.empty(0, np.int8), *code]),
        end,
        markers=np.concatenate([np.empty(0, MARKER), *ended]),
        same=same,
    )


def data_of(replica: Replica, batches: Batches) -> Held:
    """The batches of data (`HELD`) among those of a replica."""
    data = batches.where(~batches.is_control & (batches.record_count >= 0))
    return packed(data, replica.outcomes.states(data)) if len(data) else np.empty(0, HELD)


def in_order(batches: Held) -> Held:
    """Batches by offset. In a damaged log several may have one offset: the first counts."""
    if (np.diff(batches["base"]) > 0).all():
        return batches
    _, kept = np.unique(batches["base"], return_index=True)
    found: Held = batches[kept]
    return found


def viewed(
    replica: Replica, batches: Held, first: Int64, code: Int8, end: int, *, markers: Held | None = None, same: bool
) -> CopyOfPartition:
    """What was read of a replica, once all of it was looked at.

    Args:
        batches, first, code, end, markers, same: see `CopyOfPartition`.
    """
    one = replica.partition
    return CopyOfPartition(
        path=one.path,
        batches=PackedRows.of(batches),
        markers=PackedRows.of(np.empty(0, MARKER) if markers is None else markers),
        first=first,
        code=code,
        end=end,
        log_end=replica.bounds.log_end_offset,
        compacted_to=one.broker.cleaned.get((one.topic, one.partition), 0),
        same=same,
        sound=all(row.harmless for row in (*replica.damage, *replica.support_damage)),
        commits=one.high_watermark is not None,
        diverges_at=replica.bounds.diverges_at,
        segments=segments_of(replica),
    )


def segments_of(replica: Replica) -> tuple[tuple[int, str], ...]:
    """First offset and path of each segment."""
    return tuple((file.offset or 0, file.path) for file in replica.partition.segments)


def markers_of(found: Batches) -> Held:
    """The markers of transactions among batches."""
    plain = markers(found)
    at = np.concatenate((plain.at, plain.others))
    rows = np.empty(len(at), MARKER)
    rows["base"], rows["producer_id"], rows["epoch"] = (
        column[at] for column in (found.base_offset, found.producer_id, found.producer_epoch)
    )
    rows["committed"] = np.append(plain.type == COMMIT, np.full(len(plain.others), -1))
    return rows[np.argsort(rows["base"], kind="stable")]


def packed(found: Batches, states: Int8) -> Held:
    """Batches as rows."""
    rows = np.empty(len(found), HELD)
    rows["base"], rows["last"] = found.base_offset, found.last_offset
    rows["producer_id"], rows["epoch"], rows["sequence"] = found.producer_id, found.producer_epoch, found.base_sequence
    rows["records"], rows["codec"], rows["state"], rows["position"] = (
        found.record_count,
        found.codec,
        states,
        found.position,
    )
    whole = (found.record_count == found.last_offset_delta + 1) & ~found.delete_horizon
    checksum = record_checksums(np.frombuffer(found.data, np.uint8), found.start, found.size, found.crc)
    rows["content"] = contents(checksum, found.size, found.record_count.astype(np.int64), found.base_timestamp, whole)
    return rows
