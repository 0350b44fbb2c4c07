"""The story of one offset: what it is on each replica, its batch, its transaction, and the coordinator's records."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from kafkawire.logdir import LogDirectory, LogFile, Selection
from kafkawire.logdir.file_rows import damage_as_rows
from kafkawire.logdir.seek import start_position
from kafkawire.logdir.splits import batches_of
from kafkawire.logdir.tiers import COPY_FINISHED, segment_id
from kafkawire.logdir.transaction_states import STATES
from kafkawire.offsets.coordinator_story import CoordinatorStory
from kafkawire.offsets.lineage import tier_copies
from kafkawire.offsets.offset_summary import ranges
from kafkawire.offsets.replica import Replica, replicas
from kafkawire.records import Batch
from kafkawire.records.batch import readable_control
from kafkawire.records.columns import HEADERS_WINDOW, Batches
from kafkawire.records.marker_columns import markers
from kafkawire.rows import BatchRow, DamageRow, OffsetStanding, Row, StatusRange, TransactionStory

_SENTENCES = {
    "none": "a record outside of transactions",
    "committed": "a record of a committed transaction",
    "aborted": "a record of an aborted transaction: read_committed consumers skip it",
    "open": "a record of an open transaction",
    "unknown": "a record of a transaction whose outcome is not known: {why}",
    "marker": "the marker that ends a transaction: consumers get no record at this offset",
    "control": "a control record of the broker: consumers get no record at this offset",
    "compacted": "compaction has removed it",
    "above_high_watermark": "not below the high watermark, {high}: not replicated yet, and consumers do not get it",
}
_OTHER_EPOCH, _UNFINISHED = "of another leader epoch", "its copying is not finished, or its deletion has begun"
#: What a standing has of the range that the offset is in.
_OF_RANGE = (
    "status", "transaction", "control", "coordinator_epoch", "first_offset", "last_offset", "reason", "segment",
    "position",
)  # fmt: skip
_WAITS = "; read_committed consumers stop at the last stable offset, {stable}"
_MAY_WAIT = "; read_committed consumers may stop at offset {stable}: {why}"


def story(directory: LogDirectory, topic: str, partition: int, offset: int) -> Iterator[Row]:
    """The rows on one offset: an `OffsetStanding` of each replica, then of the first replica that has it the
    `BatchRow`, the `TransactionStory`, and the `CoordinatorStep`s; then a `DamageRow` for each damage that may hide
    more of it: in files beside the log, in the part of the log where the transaction is, in the coordinator's log.

    Args:
        directory: log directories and tiers.
        topic, partition: where.
        offset: which.

    Raises:
        LookupError: the partition is not there, or its log ends before the offset; with a sentence.
        OSError: a file cannot be read.
    """
    found = replicas(directory, topic, partition)
    end = max(one.bounds.end_offset for one in found)
    if not 0 <= offset < end:
        raise LookupError(f"{topic}-{partition} has no offset {offset}: its log ends at {end}")
    source: tuple[Replica, LogFile, Batch] | None = None
    batches: list[Batch | None] = []
    for one in found:
        place = batch_at(list(one.partition.segments), offset)
        batches.append(place[1] if place else None)
        yield _standing(one, offset, batches[-1])
        source = source or ((one, *place) if place else None)
    for one, batch in zip(found, batches, strict=True):
        yield from _left_out(one, offset, batch)
    damage: list[DamageRow] = []
    if source is not None:
        yield from _of_batch(directory, *source, offset, damage)
    for one in found:
        damage += (*one.support_damage, *(one.undecided if _is_undecided(one, offset) else ()))
    yield from dict.fromkeys(damage)


def _standing(replica: Replica, offset: int, batch: Batch | None) -> OffsetStanding:
    bounds, outcomes = replica.bounds, replica.outcomes
    here = _range_of(replica, offset)
    standing = OffsetStanding(
        file=bounds.file,
        topic=bounds.topic,
        partition=bounds.partition,
        broker=bounds.broker,
        offset=offset,
        status="none",
        detail=f"this log ends at offset {bounds.end_offset}",
    )
    if here is None:
        return standing
    readable = here.status == "record"
    stable, undecided = offset < bounds.last_stable_offset, _is_undecided(replica, offset)
    committed = here.transaction in ("none", "committed")
    unknown = here.transaction == "unknown" or (committed and undecided)
    text = _SENTENCES.get(here.transaction or here.status, "").format(
        why=outcomes.why(offset) or "its marker may be among what is missing", high=bounds.high_watermark
    )
    if readable and undecided:
        text += _MAY_WAIT.format(stable=bounds.last_stable_offset, why=outcomes.why(bounds.last_stable_offset))
    elif readable and not stable:
        text += _WAITS.format(stable=bounds.last_stable_offset)
    return replace(
        standing,
        **{name: getattr(here, name) for name in _OF_RANGE},
        leader_epoch=None if batch is None else batch.partition_leader_epoch,
        read_committed=None if readable and unknown else readable and stable and committed,
        read_uncommitted=readable,
        detail=here.detail or text,
    )


def _is_undecided(replica: Replica, offset: int) -> bool:
    """Whether it is not known on which side of the last stable offset an offset is."""
    outcomes = replica.outcomes
    return outcomes.last_stable_offset <= offset < outcomes.last_stable_at_most and outcomes.undecided is not None


def _range_of(replica: Replica, offset: int) -> StatusRange | None:
    """The range that an offset is in, as far as its segment goes."""
    bases = [file.offset or 0 for file in replica.partition.segments]
    first = max((base for base in bases if base <= offset), default=0)
    end = min((base for base in bases if base > offset), default=None)
    found = ranges(replica.runs(first, end), {})
    return next((one for one in found if one.first_offset <= offset <= one.last_offset), None)


def batch_at(segments: list[LogFile], offset: int) -> tuple[LogFile, Batch] | None:
    """The batch that covers an offset, and its segment; None where there is none."""
    wanted = Selection(offsets=(offset, None))
    for file in reversed([one for one in segments if (one.offset or 0) <= offset]):
        try:
            for item in file.batches(start=start_position(file, wanted)):
                batch = item.measured() if isinstance(item, Batch) else None
                if batch is not None and batch.base_offset <= offset <= batch.last_offset:
                    return file, batch
        except OSError:
            return None  # the range of the offset is unreadable
        return None
    return None


def _left_out(replica: Replica, offset: int, batch: Batch | None) -> Iterator[OffsetStanding]:
    """The offset in segments of tiers that are no part of the log there. `batch`: the log's at the offset. A finished
    copy of it is part of the log, or will be: each segment is copied before it is deleted locally."""
    metadata = replica.partition.tier_metadata()
    for copy, file in tier_copies(replica.partition):
        if not copy.base <= offset < copy.end:
            continue
        found = batch_at([file], offset)
        if found is None:
            continue
        known = metadata.get(segment_id(file))
        finished = known is None or known.state == COPY_FINISHED
        if finished and batch is not None and batch.partition_leader_epoch == found[1].partition_leader_epoch:
            continue
        yield OffsetStanding(
            **file.place,
            offset=offset,
            status="left_out",
            leader_epoch=found[1].partition_leader_epoch,
            detail=f"a copy in a tier that is no part of the log: {_OTHER_EPOCH if finished else _UNFINISHED}",
            segment=file.path,
            position=found[1].position,
        )


def _of_batch(
    directory: LogDirectory, replica: Replica, file: LogFile, batch: Batch, offset: int, damage: list[DamageRow]
) -> Iterator[Row]:
    """The rows on the batch and its transaction. `damage` gets what may hide more of it."""
    state = replica.outcomes.state(batch)
    yield BatchRow.of(batch, readable_control(batch), STATES[state], **file.place)
    if not batch.transactional or batch.producer_id < 0:
        return
    found, hiding = _transaction(replica, batch, offset)
    records = CoordinatorStory(directory, replica.partition.broker, found)
    yield replace(found, transactional_id=records.transactional_id)
    yield from records.steps()
    damage += (*hiding, *records.damage)


def _transaction(replica: Replica, batch: Batch, offset: int) -> tuple[TransactionStory, list[DamageRow]]:
    """The transaction that an offset's batch is part of, from its first batch to its marker; and the damage after the
    producer's marker before it, which may hide some of its batches."""
    bounds = replica.bounds
    one = TransactionStory(
        file=bounds.file,
        topic=bounds.topic,
        partition=bounds.partition,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        transaction=STATES[replica.outcomes.state(batch)],
    )
    empty = one
    damage: list[DamageRow] = []
    for file in replica.partition.segments:
        for item in damage_as_rows(file, batches_of(file, window=HEADERS_WINDOW)):
            if isinstance(item, DamageRow) and not item.harmless:
                damage.append(item)
            if not isinstance(item, Batches):
                continue
            plain = markers(item)
            epochs = dict(zip(plain.at.tolist(), plain.coordinator_epoch.tolist(), strict=True))
            for at in np.flatnonzero((item.producer_id == batch.producer_id) & item.transactional).tolist():
                base, when = int(item.base_offset[at]), int(item.max_timestamp[at])
                if not item.is_control[at]:
                    one = replace(
                        one,
                        first_offset=base if one.first_offset is None else one.first_offset,
                        last_offset=int(item.last_offset[at]),
                        batches=one.batches + 1,
                        records=one.records + int(item.record_count[at]),
                        first_timestamp=when if one.first_timestamp is None else one.first_timestamp,
                        last_timestamp=when,
                    )
                elif base < offset:
                    one = empty
                    damage.clear()
                else:
                    one = replace(one, marker_offset=base, marker_timestamp=when, coordinator_epoch=epochs.get(at))
                    return one, damage
    return one, damage
