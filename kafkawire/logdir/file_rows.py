"""Files as rows: the output of `kafkawire dump`, and the basis of every reader of a log directory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

from msgspec import UNSET

from kafkawire import rows
from kafkawire.errors import RecordError
from kafkawire.logdir import indexes, text_files
from kafkawire.logdir.entries import FileEntry
from kafkawire.logdir.entry_rows import row_of
from kafkawire.logdir.index_checks import CHECKS, LogIndexCheck, sanity
from kafkawire.logdir.located_file import BATCHES, LocatedFile
from kafkawire.logdir.read_options import Options
from kafkawire.logdir.seek import start_position
from kafkawire.records import Batch, Control, Damage, Source
from kafkawire.records.control import MALFORMED, control_of
from kafkawire.records.internal_topics import CLUSTER_METADATA

#: An index of more bytes is none: segment.index.bytes is an int32.
_MAX_INDEX = 1 << 31

T = TypeVar("T")

DEFAULT = Options()

#: kind of file -> reader of its bytes
_SMALL: dict[str, Callable[[bytes], Iterator[Any]]] = {
    "snapshot": indexes.producer_snapshot,
    "epochs": text_files.leader_epochs,
    "checkpoint": text_files.offset_checkpoint,
    "partition-metadata": text_files.properties,
    "meta-properties": text_files.properties,
    "quorum-state": text_files.json_properties,
    "clean-shutdown": text_files.json_properties,
    "rsm-manifest": text_files.json_object,
}
#: kind of file -> reader of its bytes, chunk by chunk
_INDEXES: dict[str, Callable[[Source], Iterator[Any]]] = {
    "index": indexes.offset_index,
    "timeindex": indexes.time_index,
    "txnindex": indexes.aborted_transactions,
}


def rows_of(file: LocatedFile, options: Options = DEFAULT) -> Iterator[rows.Row]:
    """The rows of one file; none for files that hold no entries (locks, files whose names Kafka does not give).

    Damage has rows in its place; an index's disagreements with the log beside it are damage too.

    Raises:
        OSError: the file cannot be read.
    """
    if file.kind in BATCHES:
        if options.indexes == "show":
            yield from log_rows(selected_batches(file, options), file, options)
    elif file.kind in _INDEXES:
        yield from _index_rows(file, options)
    elif file.kind in _SMALL and options.indexes == "show":
        yield from _small_rows(file, options)


def selected_batches(file: LocatedFile, options: Options = DEFAULT) -> Iterator[Batch | Damage]:
    """The batches of a segment (or KRaft snapshot) that are selected, and the damage between them."""
    selection = options.selection_of(file.topic)
    end = selection.offsets[1] if selection.offsets else None
    beyond = 0
    for item in file.batches(
        start=start_position(file, selection),
        end=options.max_bytes,
        check_crc=options.check_crc,
        max_batch_bytes=options.max_batch_bytes,
    ):
        if isinstance(item, Damage):
            if options.max_bytes is None or item.resumed_at is not None:
                yield item
            continue
        if options.max_bytes is not None and item.position + item.size > options.max_bytes:
            return
        item = item.measured()
        if end is not None and item.base_offset >= end:
            beyond += 1
            if beyond > 1:  # one may be damaged: the base offset is not under the checksum
                return
        elif selection.batch(item):
            yield item


def record_options(file: LocatedFile, options: Options) -> dict[str, Any]:
    """The arguments of `rows.RecordRow.of` for all records of a file."""
    return {
        "payload": options.payloads,
        "metadata": options.metadata,
        "decode_as": CLUSTER_METADATA if file.kind == "kraft-snapshot" else options.messages_of(file.topic),
        "show_secrets": options.show_secrets,
        "topic_names": options.topic_names,
        **file.place,
    }


def log_rows(found: Iterable[Batch | Damage], file: LocatedFile, options: Options) -> Iterator[rows.Row]:
    """The rows of batches of a file, and of the damage between them. `found`: batches and damage, in order. `options`:
    which rows and fields to make."""
    place = file.place
    shown = record_options(file, options)
    selection, view = options.selection_of(file.topic), options.view
    first = None if view is None else view.offsets[0]
    everything = selection.all and first is None
    for item in found:
        seen = item if view is None or isinstance(item, Damage) else view.reads(item)
        if isinstance(seen, Damage):
            yield rows.DamageRow.of(seen, **place)
        if isinstance(item, Damage) or isinstance(seen, Damage) or not seen:
            continue
        transaction = view.state(item) if view is not None and view.shown else UNSET
        control, problem = None, None
        try:
            control = item.control
        except RecordError as error:
            control, problem = Control(MALFORMED), error
        yield rows.BatchRow.of(item, control, transaction, **place)
        try:
            if problem:
                raise problem
            if options.deep and (options.metadata or control is None):
                for record in item.records:
                    if everything or (selection.record(record) and (first is None or record.offset >= first)):
                        # Snapshots of the metadata log begin with a batch of several kinds (KIP-853).
                        own = control if control is None or item.record_count == 1 else control_of(record)
                        yield rows.RecordRow.of(record, item, own, transaction=transaction, **shown)
        except RecordError as error:
            damage = Damage(item.position, "bad_records", str(error), item.position + item.size)
            yield rows.DamageRow.of(damage, **place)


def damage_as_rows(file: LocatedFile, items: Iterable[T | Damage]) -> Iterator[T | rows.DamageRow]:
    """What is read of a file, with rows for damage, and for what cannot be read of it any further."""
    try:
        for item in items:
            yield rows.DamageRow.of(item, **file.place) if isinstance(item, Damage) else item
    except OSError as error:
        yield rows.DamageRow(**file.place, reason="unreadable", detail=error.strerror or str(error))


def _index_rows(file: LocatedFile, options: Options) -> Iterator[rows.Row]:
    if options.indexes == "sanity":
        yield from _checked(file, "sanity", sanity(file))
        return
    with file.source() as source:
        if source.size > _MAX_INDEX:
            detail = f"{source.size} bytes; an index has {_MAX_INDEX} at most"
            yield rows.DamageRow.of(Damage(0, "too_large", detail), **file.place)
            return
        with CHECKS[file.kind](file) as check:
            if options.indexes == "verify":
                yield from _checked(file, "verify", chain(_verified(source, file, check), check.absent()))
                return
            for item in _verified(source, file, check):
                row = rows.DamageRow.of(item, **file.place) if isinstance(item, Damage) else row_of(item, file)
                if options.selection.row(row):
                    yield row


def _verified(source: Source, file: LocatedFile, check: LogIndexCheck) -> Iterator[FileEntry | Damage]:
    """The entries, each followed by its damage."""
    for entry in _INDEXES[file.kind](source):
        yield entry
        damage = None if isinstance(entry, Damage) else check.entry(entry)
        if damage is not None:
            yield damage
    damage = check.end()
    if damage is not None:
        yield damage


def _checked(file: LocatedFile, name: str, found: Iterator[FileEntry | Damage]) -> Iterator[rows.Row]:
    """The damage that a check finds, and the check's row."""
    entries = wrong = 0
    for item in found:
        if isinstance(item, Damage):
            wrong += 1
            yield rows.DamageRow.of(item, **file.place)
        else:
            entries += 1
    yield rows.Check(**file.place, check=name, passed=not wrong, entries=entries)


def _small_rows(file: LocatedFile, options: Options) -> Iterator[rows.Row]:
    data = file.content()
    for entry in [data] if isinstance(data, Damage) else _SMALL[file.kind](data):
        row = rows.DamageRow.of(entry, **file.place) if isinstance(entry, Damage) else row_of(entry, file)
        if options.selection.row(row):
            yield row
