"""The records of a partition that a read_committed consumer gets, from parts of its log that are read independently.

Each part is scanned alone (`logdir.transaction_states`); `decide` joins the scans of a partition to the offset up to
which records can be passed on, and the outcomes of its transactions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kafkawire.errors import RecordError
from kafkawire.logdir import LogFile, Outcomes
from kafkawire.logdir.cleaning import NOT_CLEANED, Cleaned
from kafkawire.logdir.isolation import ongoing_in
from kafkawire.logdir.splits import batches_of
from kafkawire.logdir.transaction_states import TransactionScan
from kafkawire.records import Batch, Damage
from kafkawire.records.columns import Batches, records
from kafkawire.spark.sources.log_points import Header, header_of

#: Reason of damage in records whose batch has the right checksum.
BAD_RECORDS = "bad_records"
#: No leader epoch.
_NONE = -2


class Scanned(NamedTuple):
    """A part of a segment.

    Attributes:
        stop: the position after its last batch; 0 without a batch. `last`: that batch.
        base: the offset at which the segment begins, of the first part of a segment where a cleaner has been: where
            offsets are missing before it, a segment may be missing.
        ongoing: the transactions that were open there, by the segment's snapshot; None: there is none.
        epochs: the leader epochs of its batches, each with its first offset here.
    """

    scan: TransactionScan
    stop: int = 0
    base: int = -1
    ongoing: dict[int, int] | None = None
    epochs: tuple[tuple[int, int], ...] = ()
    last: Header | None = None


class Decided(NamedTuple):
    """What is known of a partition from an offset on.

    Attributes:
        end: records before it can be passed on: the last stable offset, or where reading had to stop.
        held: why reading had to stop; empty where nothing did.
        outcomes: of the transactions; those before `end` are known.
    """

    end: int
    held: str
    outcomes: Outcomes


def scan_part(
    file: LogFile,
    start: int,
    end: int | None,
    first: int,
    limit: int | None,
    *,
    decode: bool = False,
    cleaned: Cleaned = NOT_CLEANED,
) -> Scanned:
    """Scan the batches that begin in a range of bytes of a segment, up to the first damage.

    Args:
        start, end: positions of batches; None: the end of the file.
        first, limit: offsets: batches that end before `first`, or begin at `limit` or after it, are passed over.
        decode: look at the records, too: what a checksum covers may still be no records.
        cleaned: where compaction may have been in the log.

    Raises:
        OSError: the file cannot be read.
    """
    scan, stop = TransactionScan(cleaned=cleaned), 0
    final: Header | None = None
    epochs: list[tuple[int, int]] = []
    most = np.iinfo(np.int64).max if limit is None else limit
    for found in batches_of(file, start, end):
        if scan.end is not None and scan.end >= most:
            break
        if isinstance(found, Damage):
            if found.harmless:
                continue
            scan.damage(f"{file.path}: at byte {found.position}: {found.reason}: {found.detail}")
            break
        if isinstance(found, Batch):
            batch = found.measured()
            if batch.last_offset < first or batch.base_offset >= most:
                continue
            broken = _broken(batch) if decode else None
            if broken is None:
                scan.add(batch)
                stop, final = batch.position + batch.size, header_of(batch)
        else:
            wanted = (found.last_offset >= first) & (found.base_offset < most)
            chosen = found if wanted.all() else found.where(wanted)
            broken = _first_broken(chosen) if decode else None
            if broken is not None:
                chosen = chosen.where(chosen.position < broken.position)
            if len(chosen):
                scan.add(chosen)
                changes = np.flatnonzero(np.diff(chosen.leader_epoch, prepend=epochs[-1][0] if epochs else _NONE))
                found_at = zip(chosen.leader_epoch[changes].tolist(), chosen.base_offset[changes].tolist(), strict=True)
                epochs += found_at
                stop, final = int(chosen.position[-1] + chosen.size[-1]), header_of(chosen, -1)
        if broken is not None:
            scan.damage(f"{file.path}: at byte {broken.position}: {broken.reason}: {broken.detail}")
            break
    if start or (file.offset or 0) > cleaned.to or not cleaned.to:
        return Scanned(scan, stop, epochs=tuple(epochs), last=final)
    return Scanned(scan, stop, file.offset or 0, ongoing_in(file.beside("snapshot"), []), tuple(epochs), final)


def _broken(batch: Batch) -> Damage | None:
    try:
        for _ in batch.records:
            pass
    except RecordError as error:
        return Damage(batch.position, BAD_RECORDS, str(error))
    return None


def _first_broken(found: Batches) -> Damage | None:
    """The first batch of data whose records cannot be read."""
    return next((damage for part in records(found.where(~found.is_control)) for damage in part.damage), None)


def decide(
    scans: Iterable[Scanned], start: int, limit: int | None = None, *, cleaned: Cleaned = NOT_CLEANED
) -> Decided:
    """Join the scans of a partition, in the order of its log.

    Args:
        start, limit: the offset from which records are wanted, and the high watermark.
        cleaned: where compaction may have been; elsewhere missing offsets end what can be passed on.
    """
    whole = TransactionScan(start, cleaned=cleaned)
    for one in scans:
        if whole.first is not None and whole.end is not None and whole.end < one.base:
            if one.ongoing is None:
                whole.skip(one.base)
            else:
                whole.settle(
                    one.base, {producer: first for producer, first in one.ongoing.items() if producer in whole.open}
                )
        whole.take(one.scan)
        if limit is not None and whole.end is not None and whole.end >= limit:
            break
    found = whole.finish()
    first = min(found.problems, key=lambda problem: problem.offset, default=None)
    ends = [found.end, *found.unknown.first.tolist(), *found.ongoing.first.tolist()]
    if first is not None:
        ends.append(first.offset)
    return Decided(max(start, min(ends)), "" if first is None else first.text, found)
