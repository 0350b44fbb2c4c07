"""Segments as lines of JSON, many batches at a time: what `rows_of` gives, without a row for each record.

The native engine writes plain batches of magic 2 (`native/src/rows`); `batch_runs` has the rules for all others. It
refuses batches that cannot be read, and markers of unknown kinds. The types of the rows give the names and the order of
the fields; a field that the engine does not know leaves all of the work to `rows_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kafkawire import rows
from kafkawire.logdir.batch_runs import fields_of, runs_of
from kafkawire.logdir.file_rows import rows_of
from kafkawire.logdir.located_file import LocatedFile
from kafkawire.logdir.read_options import Options
from kafkawire.logdir.transaction_states import STATES
from kafkawire.rows.native_lines import log_rows

if TYPE_CHECKING:
    from kafkawire.records.array_types import Int8
    from kafkawire.records.columns import Batches

#: Bytes of the lines that are written in one call, roughly.
_PIECE = 2 << 20


def lines_of(
    file: LocatedFile,
    options: Options,
    *,
    encode: Callable[[Any], bytes],
    printable: Callable[[], bytes],
    threads: int = 1,
) -> Iterator[rows.Row | rows.Lines]:
    """`rows_of`, with runs of batches and records written as lines where the native engine can.

    Args:
        encode: writes a value as JSON: the rows as they would be written, if they were made.
        printable: gives a byte for each character, 0 for those that `encode` escapes although JSON does not ask for it.
        threads: how many write lines side by side; their order is that of one.

    Raises:
        OSError: the file cannot be read.
    """
    writer = writer_of(file, options, encode, printable, threads)
    if writer is None:
        yield from rows_of(file, options)
        return

    def write(found: Batches, first: int, stop: int, states: Int8 | None) -> tuple[rows.Lines | None, int, bool]:
        import numpy as np

        data = np.frombuffer(found.data, np.uint8)
        of_chosen = None if states is None else states[first:stop]
        lines, count, refused = writer.lines(data, found.origin, found.start[first:stop], of_chosen, _PIECE)
        made = rows.Lines(found.origin + int(found.start[first]), lines.data) if len(lines) else None
        return made, first + count, refused

    yield from runs_of(file, options, write)


def writer_of(
    file: LocatedFile,
    options: Options,
    encode: Callable[[Any], bytes],
    printable: Callable[[], bytes],
    threads: int = 1,
) -> Any | None:
    """The native writer of a file's rows; None where there is none, or where it cannot write these rows. `options`:
    which rows and fields to make. `encode`: writes a value as JSON. `printable`, `threads`: see `lines_of`."""
    fields = fields_of(file, options)
    if fields is None:
        return None
    return log_rows(
        fields.batch,
        fields.record,
        file.place,
        encode=encode,
        states=STATES,
        printable=printable() if options.deep and options.payloads else None,
        max_batch_bytes=options.max_batch_bytes,
        threads=threads,
    )
