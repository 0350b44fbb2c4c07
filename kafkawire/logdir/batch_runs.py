"""Segments in runs of batches: what `rows_of` gives, many plain batches at a time and all else as rows in its place.

A batch is plain if it has magic 2 and a writer takes it: as lines of JSON (`jsonl`), or as columns (`segment_arrays`).
All others are rows of `rows_of`: damage, other magics, batches that go back in offset, and batches that the writer
refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkawire import rows
from kafkawire.logdir.file_rows import log_rows, record_options
from kafkawire.logdir.located_file import BATCHES, LocatedFile, ascending
from kafkawire.logdir.read_options import Options
from kafkawire.logdir.seek import start_position
from kafkawire.logdir.selected_batches import before_end, selected
from kafkawire.records import INTERNAL_TOPICS, Batch, Damage, RecordMessages

if TYPE_CHECKING:
    from kafkawire.records.array_types import Int8
    from kafkawire.records.columns import Batches

T = TypeVar("T")

#: Writes some batches from one index up to another, or the first of them: what it made of them (None: nothing), the
#: index of the first that is not among them, and whether that one was refused. Last the states of all their
#: transactions, where these are shown.
Write = Callable[["Batches", int, int, "Int8 | None"], tuple[T | None, int, bool]]


class Fields(NamedTuple):
    """The fields of the rows of a file, in their order. `record` is empty where records have no rows."""

    batch: tuple[str, ...]
    record: tuple[str, ...]


def fields_of(file: LocatedFile, options: Options) -> Fields | None:
    """The fields of a file whose batches may come in runs; None for any other file, and where batches or records are
    picked or decoded one by one."""
    by_key = options.selection.key is not None
    plain = options.indexes == "show" and not by_key and options.metadata and options.max_bytes is None
    if file.kind not in BATCHES or not plain:
        return None
    given = record_options(file, options)
    decoder = given["decode_as"] or given["topic"]
    if options.payloads and (isinstance(decoder, RecordMessages) or decoder in INTERNAL_TOPICS):
        return None
    shown = {"transaction": options.transaction}
    of_record = {"payload": options.payloads, "metadata": options.metadata, **shown}
    return Fields(rows.BatchRow.fields(**shown), rows.RecordRow.fields(**of_record) if options.deep else ())


def runs_of(file: LocatedFile, options: Options, write: Write[T]) -> Iterator[rows.Row | T]:
    """The rows of a segment, or what `write` makes of them. `options`: how it is read. `write`: writes a run of plain
    batches, from one index to another. Raises OSError: the file cannot be read."""
    from kafkawire.records.columns import HEADERS_WINDOW, WINDOW, Batches, batches

    selection = options.selection
    end = selection.offsets[1] if selection.offsets else None
    beyond = 0
    following = file.least_offset
    window = WINDOW if options.deep else HEADERS_WINDOW
    with file.source() as source:
        for item in batches(
            source,
            start=max(start_position(file, selection), file.begin),
            check_crc=options.check_crc,
            max_batch_bytes=options.max_batch_bytes,
            window=window,
        ):
            if end is not None and not isinstance(item, Damage):
                item, beyond = before_end(item, end, beyond)
            if isinstance(item, Batches):
                yield from _run(item, file, options, write, following)
                following = int(item.last_offset[-1]) + 1 if len(item) else following
            else:
                yield from _as_rows(item, file, options, following)
                following = item.last_offset + 1 if isinstance(item, Batch) else following
            if beyond > 1:  # one may be damaged: the base offset is not under the checksum
                return


def _as_rows(item: Batch | Damage, file: LocatedFile, options: Options, following: int) -> Iterator[rows.Row]:
    found = (one.measured() if isinstance(one, Batch) else one for one in ascending([item], following))
    chosen = (one for one in found if isinstance(one, Damage) or options.selection.batch(one))
    return log_rows(chosen, file, options)


def _run(
    found: Batches, file: LocatedFile, options: Options, write: Write[T], following: int
) -> Iterator[rows.Row | T]:
    """The output for batches: runs of the writer, and rows for batches that it refuses, where offsets go back, where a
    control batch has several records, and where a view reads only a part of a batch."""
    import numpy as np

    if not len(found):
        return
    expected = np.concatenate([np.array([following]), found.last_offset[:-1] + 1])
    aside, states = found.base_offset < expected, None
    if not options.selection.all:
        whole, parts = selected(found, options.selection, deep=options.deep)
        aside |= parts
        chosen = whole | aside
        found, expected, aside = found.where(chosen), expected[chosen], aside[chosen]
    if options.deep:  # each record of a control batch has a kind of its own
        aside |= found.is_control & (found.record_count > 1)
    if options.view is not None:
        seen = options.view.see(found)
        aside |= seen.lost | seen.parted
        if not (seen.kept | aside).all():
            chosen = seen.kept | aside
            found, expected, aside = found.where(chosen), expected[chosen], aside[chosen]
            seen = seen._replace(states=seen.states[chosen])
        states = seen.states if options.view.shown else None
    at = 0
    for stop in [*np.flatnonzero(aside).tolist(), len(found)]:
        while at < stop:
            made, at, refused = write(found, at, stop, states)
            if made is not None:
                yield made
            if refused:
                yield from _as_rows(found.batch(at), file, options, int(expected[at]))
                at += 1
        if stop < len(found):
            yield from _as_rows(found.batch(at), file, options, int(expected[at]))
            at += 1
