"""Rows as a Parquet file (see `rows.arrow`). Rows are written in groups: a file of any size costs little memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kafkawire.cli.text import json_bytes
from kafkawire.errors import MissingExtraError


def write_parquet(
    rows: Iterable[msgspec.Struct], kinds: Sequence[type[msgspec.Struct]], path: str, unset: Iterable[str] = ()
) -> None:
    """Writes rows of the classes in `kinds` into a file; `unset` names fields that no row has this time.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    try:
        import pyarrow.parquet as pq

        from kafkawire.rows import arrow
    except ImportError:
        raise MissingExtraError("Parquet", "arrow") from None
    schema = arrow.schema(kinds, unset)
    with pq.ParquetWriter(path, schema) as writer:
        for batch in arrow.batches(rows, schema, json_bytes):
            writer.write_batch(batch)
