"""Rows as a Parquet file (see `rows.arrow`). Rows are written in groups: a file of any size costs little memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import msgspec

from kafkawire.cli.formatting import json_bytes
from kafkawire.cli.output_file import open_output
from kafkawire.errors import MissingExtraError
from kafkawire.rows.base import Columns

if TYPE_CHECKING:
    import pyarrow as pa

#: Rows of a group, and its bytes, about.
GROUP_ROWS = 1 << 15
GROUP_BYTES = 8 << 20
#: Fields whose texts are the same in many rows: each text is written once a group, and a number a row.
REPEATED = frozenset(
    ("kind", "file", "topic", "codec", "timestamp_type", "control", "reason", "connection", "client", "broker", "api")
)
#: Fields whose numbers are nearly all different.
DISTINCT = frozenset(
    ("position", "base_offset", "last_offset", "offset", "crc", "time_ns", "response_time_ns", "latency_ms", "packet",
     "response_packet")
)  # fmt: skip


def write_parquet(
    rows: Iterable[msgspec.Struct], kinds: Sequence[type[msgspec.Struct]], path: str, unset: Iterable[str] = ()
) -> None:
    """Writes rows into a file. `rows`: the rows; `rows.Columns` may be among them. `kinds`: the classes of the rows.
    `unset`: fields that no row has this time. Raises MissingExtraError: pyarrow is not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq

        from kafkawire.rows import arrow
    except ImportError:
        raise MissingExtraError("Parquet", "arrow") from None
    schema = _with_dictionaries(arrow.schema(kinds, unset))
    # What does not repeat would be hashed for nothing.
    hashed = [field.name for field in schema if not pa.types.is_string(field.type) and field.name not in DISTINCT]
    with open_output(path) as file, pq.ParquetWriter(file, schema, use_dictionary=hashed) as writer:
        for group in _groups(_tables(rows, schema)):
            writer.write_table(group)
            del group  # before the next is read


def _with_dictionaries(schema: pa.Schema) -> pa.Schema:
    """The schema, with texts that repeat as dictionaries."""
    import pyarrow as pa

    repeated = [field for field in schema if field.name in REPEATED and pa.types.is_string(field.type)]
    for field in repeated:
        schema = schema.set(schema.get_field_index(field.name), field.with_type(pa.dictionary(pa.int32(), pa.string())))
    return schema


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Several tables in one: a group of rows of the file."""
    import pyarrow as pa

    group: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        group.append(table)
        rows += len(table)
        size += table.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield pa.concat_tables(group)
            group = []
            rows = size = 0
    if group:
        yield pa.concat_tables(group)


def _tables(rows: Iterable[msgspec.Struct], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows as tables: those that come as columns, and between them what comes one by one."""
    import pyarrow as pa

    from kafkawire.rows import arrow

    for many, found in groupby(rows, lambda row: isinstance(row, Columns)):
        if many:
            yield from (_table(item, schema) for item in found if isinstance(item, Columns))
        else:
            yield from (pa.Table.from_batches([batch]) for batch in arrow.batches(found, schema, json_bytes))


def _table(found: Columns, schema: pa.Schema) -> pa.Table:
    """Columns as a table; a field without an array is null in all rows."""
    import pyarrow as pa

    arrays = [found.arrays.get(field.name) for field in schema]
    columns = [
        pa.nulls(found.length, field.type)
        if array is None
        else array
        if array.type == field.type
        else array.dictionary_encode()
        for field, array in zip(schema, arrays, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)
