"""Files as rows: what `kafkawire dump` prints, and every reader of a log directory may build on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kafkawire import rows
from kafkawire.errors import RecordError
from kafkawire.logdir import small_files
from kafkawire.records import MAX_BATCH_BYTES, Batch, Control, Damage
from kafkawire.records.control import MALFORMED

if TYPE_CHECKING:
    from kafkawire.logdir.files import LogFile


def rows_of(
    file: LogFile,
    *,
    deep: bool = False,
    payloads: bool = False,
    check_crc: bool = True,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> Iterator[rows.Row]:
    """The rows of one file; none for files that hold no entries (locks, files whose names Kafka does not give).

    Args:
        deep: each batch's records after the batch.
        payloads: keys, values and headers of the records, decoded where the topic is internal.
    """
    if file.kind in ("log", "kraft-snapshot"):
        place = file.place
        for item in file.batches(check_crc=check_crc, max_batch_bytes=max_batch_bytes):
            yield from _batch_rows(item, place, deep, payloads)
        return
    readers = _READERS.get(file.kind)
    if readers is None:
        return
    read, row = readers
    try:
        data = file.read_bytes()
    except RecordError as error:
        yield _damage(Damage(0, "too_large", str(error)), file)
        return
    for entry in read(data):
        yield _damage(entry, file) if isinstance(entry, Damage) else row(entry, file)


def _batch_rows(item: Batch | Damage, place: rows.Place, deep: bool, payloads: bool) -> Iterator[rows.Row]:
    if isinstance(item, Damage):
        yield rows.Damage.of(item, **place)
        return
    control, problem = None, None
    try:
        control = item.control
    except RecordError as error:
        control, problem = Control(MALFORMED), error
    yield rows.Batch.of(item, control, **place)
    try:
        if problem:
            raise problem
        if deep:
            for record in item.records:
                yield rows.Record.of(record, item, control, payload=payloads, **place)
    except RecordError as error:
        yield rows.Damage.of(Damage(item.position, "bad_records", str(error), item.position + item.size), **place)


def _damage(damage: Damage, file: LogFile) -> rows.Damage:
    return rows.Damage.of(damage, **file.place)


def _place(entry: small_files.Entry, file: LogFile) -> dict[str, Any]:
    return {**file.place, "position": entry.position}


def _index(entry: small_files.OffsetEntry, file: LogFile) -> rows.Row:
    offset = (file.offset or 0) + entry.relative_offset
    return rows.Index(**_place(entry, file), offset=offset, log_position=entry.log_position)


def _time_index(entry: small_files.TimeEntry, file: LogFile) -> rows.Row:
    offset = (file.offset or 0) + entry.relative_offset
    return rows.TimeIndex(**_place(entry, file), timestamp=entry.timestamp, offset=offset)


def _aborted(entry: small_files.AbortedEntry, file: LogFile) -> rows.Row:
    aborted = entry.aborted
    return rows.TxnIndex(
        **_place(entry, file),
        version=entry.version,
        producer_id=aborted.producer_id,
        first_offset=aborted.first_offset,
        last_offset=aborted.last_offset,
        last_stable_offset=aborted.last_stable_offset,
    )


def _snapshot(entry: small_files.SnapshotEntry, file: LogFile) -> rows.Row:
    producer = entry.producer
    return rows.Snapshot(
        **_place(entry, file),
        offset=file.offset,
        producer_id=producer.producer_id,
        epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_offset=producer.last_offset,
        offset_delta=producer.offset_delta,
        timestamp=producer.timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_first_offset=producer.current_txn_first_offset,
    )


def _epoch(entry: small_files.EpochLine, file: LogFile) -> rows.Row:
    return rows.Epoch(**_place(entry, file), epoch=entry.epoch, start_offset=entry.start_offset)


def _checkpoint(entry: small_files.OffsetLine, file: LogFile) -> rows.Row:
    place = _place(entry, file) | {"topic": entry.topic, "partition": entry.partition}
    return rows.Checkpoint(**place, name=file.name, offset=entry.offset)


def _property(entry: small_files.Property, file: LogFile) -> rows.Row:
    return rows.Metadata(**_place(entry, file), name=entry.name, value=entry.value)


#: kind of file -> reader of its bytes, row of what the reader yields
_READERS: dict[str, tuple[Callable[[bytes], Iterator[Any]], Callable[[Any, LogFile], rows.Row]]] = {
    "index": (small_files.offset_index, _index),
    "timeindex": (small_files.time_index, _time_index),
    "txnindex": (small_files.aborted_transactions, _aborted),
    "snapshot": (small_files.producer_snapshot, _snapshot),
    "epochs": (small_files.leader_epochs, _epoch),
    "checkpoint": (small_files.offset_checkpoint, _checkpoint),
    "partition-metadata": (small_files.properties, _property),
    "meta-properties": (small_files.properties, _property),
    "quorum-state": (small_files.json_properties, _property),
}
