"""Segments as lines of JSON, many batches at a time: what `rows_of` gives, without a row for each record.

The native engine writes plain batches of magic 2 (`native/src/rows`). Everything else comes as rows, the way of
`rows_of`, in its place: damage, other magics, batches that cannot be read, markers of unknown kinds. Names and order of
the fields, and the words in them, are taken from a row that is made for the purpose, so that there is one place that
says what a row is; a field that the engine does not know leaves all of the work to `rows_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec import UNSET

from kafkawire import rows
from kafkawire.logdir.located import BATCHES, Located, ascending
from kafkawire.logdir.options import Options
from kafkawire.logdir.rows_of import log_rows, record_options, rows_of
from kafkawire.records import CODECS, CONTROL_TYPES, Batch, Damage, Record, build, read
from kafkawire.records.control import ABORT, COMMIT
from kafkawire.wire.backend import native

#: Fields whose values are the same in all rows of a file.
_CONSTANT = ("kind", "file", "topic", "partition", "decoded")
#: Lines are handed out in pieces of about so many bytes.
_PIECE = 2 << 20


def lines_of(
    file: Located, options: Options, *, encode: Callable[[Any], bytes], printable: Callable[[], bytes]
) -> Iterator[rows.Row | rows.Lines]:
    """`rows_of`, with runs of batches and records written as lines where the native engine can.

    Args:
        encode: writes a value as JSON: the rows as they would be written, if they were made.
        printable: gives a byte for each character, 0 for those that `encode` escapes although JSON does not ask for it.

    Raises:
        OSError: the file cannot be read.
    """
    writer = writer_of(file, options, encode, printable)
    if writer is None:
        yield from rows_of(file, options)
    else:
        yield from _lines(file, options, writer)


def writer_of(
    file: Located, options: Options, encode: Callable[[Any], bytes], printable: Callable[[], bytes]
) -> Any | None:
    """The native writer of a file's rows; None where there is none, or where it cannot write what is asked for."""
    plain = options.indexes == "show" and options.selection.all and options.metadata and options.max_bytes is None
    if native is None or file.kind not in BATCHES or not plain:
        return None
    stamped, created = _sample(append_time=0), _sample()
    batch = rows.Batch.of(created, None, **file.place)
    record = rows.Record.of(Record(), created, None, **record_options(file, options))
    if record.decoded not in (None, UNSET):
        return None  # internal topics
    try:
        return native.LogRows(
            _fields(batch, encode),
            _fields(record, encode) if options.deep else [],
            list(rows.field_names(rows.Header)),
            list(map(encode, CODECS)),
            (encode(created.timestamp_type), encode(stamped.timestamp_type)),
            (encode(CONTROL_TYPES[ABORT]), encode(CONTROL_TYPES[COMMIT])),
            printable() if options.deep and options.payloads else b"",
            not options.payloads,
            options.max_batch_bytes,
        )
    except ValueError:
        return None


def _sample(append_time: int | None = None) -> Batch:
    (batch,) = read(build([Record()], append_time=append_time))
    assert isinstance(batch, Batch)
    return batch


def _fields(row: rows.Row, encode: Callable[[Any], bytes]) -> list[tuple[str, bytes | None]]:
    """The fields that such rows have, and the JSON of those that are constant."""
    found = ((name, getattr(row, name)) for name in rows.field_names(type(row)))
    return [(name, encode(value) if name in _CONSTANT else None) for name, value in found if value is not UNSET]


def _lines(file: Located, options: Options, writer: Any) -> Iterator[rows.Row | rows.Lines]:
    from kafkawire.records.columns import Batches, batches

    following = file.least_offset
    with file.source() as source:
        for item in batches(source, check_crc=options.check_crc, max_batch_bytes=options.max_batch_bytes):
            if isinstance(item, Batches):
                yield from _run(item, file, options, writer, following)
                following = int(item.last_offset[-1]) + 1
            else:
                yield from _as_rows(item, file, options, following)
                following = item.last_offset + 1 if isinstance(item, Batch) else following


def _as_rows(item: Batch | Damage, file: Located, options: Options, following: int) -> Iterator[rows.Row]:
    return log_rows(ascending([item], following), file, options)


def _run(found: Any, file: Located, options: Options, writer: Any, following: int) -> Iterator[rows.Row | rows.Lines]:
    """The lines of batches (`columns.Batches`); rows for those that the engine refuses, and where offsets go back."""
    import numpy as np

    data = np.frombuffer(found.data, np.uint8)
    expected = np.concatenate([np.array([following]), found.last_offset[:-1] + 1])
    aside = np.flatnonzero(found.base_offset < expected).tolist()
    at = 0
    for stop in [*found.start[aside].tolist(), len(data)]:
        while at < stop:
            lines, after, refused = writer.lines(data, found.origin, at, stop, _PIECE)
            if len(lines):
                yield rows.Lines(found.origin + at, lines.data)
            at = after
            if refused:
                at = yield from _one(found, at, file, options, expected)
        if stop < len(data):
            at = yield from _one(found, at, file, options, expected)


def _one(found: Any, at: int, file: Located, options: Options, expected: Any) -> Any:
    """The rows of the batch at `at`; returns where it ends."""
    index = int(found.start.searchsorted(at))
    batch = found.batch(index)
    yield from _as_rows(batch, file, options, int(expected[index]))
    return at + batch.size
