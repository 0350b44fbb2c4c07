"""`Scan`: a source as an Arrow stream, which can be read any number of times."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import pyarrow as pa

from kafkawire.errors import ScanError
from kafkawire.records import Damage
from kafkawire.rows import DamageRow, RowOrigin

if TYPE_CHECKING:
    from polars import LazyFrame

#: What happens to places that cannot be read: an exception after the last row, or nothing but `Scan.problems`.
Errors = Literal["raise", "collect"]
#: Problems that are kept.
MOST_PROBLEMS = 1000


class Problems:
    """What could not be read: the first ones, and their number."""

    def __init__(self) -> None:
        self.found: list[DamageRow] = []
        self.count = 0

    def add(self, damage: Damage, **origin: Any) -> None:
        """Add damage that is not harmless.

        Args:
            damage: the damage. origin: its place, with the attributes of `RowOrigin`.
        """
        if not damage.harmless:
            self.count += 1
            if len(self.found) < MOST_PROBLEMS:
                self.found.append(DamageRow.of(damage, **cast(RowOrigin, origin)))


class ScanSource(Protocol):
    """What is scanned, with what is read of it."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""

    def batches(self, problems: Problems) -> Iterator[pa.RecordBatch]:
        """The rows, read anew. What cannot be read is added to the problems."""

    def narrowed(self, columns: list[str], bounds: Any) -> ScanSource:
        """The source with fewer columns, and without rows that the bounds exclude.

        Args:
            columns: in their order. bounds: a `scanning.polars_source.Bounds`.
        """


class Scan:
    """The rows of a source as an Arrow stream; made by `kafkawire.scan`. Nothing is read before rows are asked for.

    Whatever takes Arrow streams (the `__arrow_c_stream__` of the Arrow PyCapsule interface) takes a `Scan`. Each stream
    reads the source anew, and has in memory about one batch.

    Attributes:
        schema: the columns, a `pyarrow.Schema`.
    """

    def __init__(self, source: ScanSource, *, batch_size: int, errors: Errors) -> None:
        self.schema = source.schema
        self._source = source
        self._batch_size = batch_size
        self._errors = errors
        self._problems = Problems()

    @property
    def problems(self) -> tuple[DamageRow, ...]:
        """What the last stream could not read so far: the first 1,000 places, as `kafkawire dump` prints them."""
        return tuple(self._problems.found)

    @property
    def problem_count(self) -> int:
        """How many places the last stream could not read so far."""
        return self._problems.count

    def __iter__(self) -> Generator[pa.RecordBatch, None, None]:
        """The rows as Arrow batches.

        Raises:
            ScanError: after the last batch, places could not be read (unless `errors` is "collect").
        """
        return self._read(self._source)

    def _read(self, source: ScanSource) -> Generator[pa.RecordBatch, None, None]:
        self._problems = problems = Problems()
        return self._batches(source, problems)

    def _batches(self, source: ScanSource, problems: Problems) -> Generator[pa.RecordBatch, None, None]:
        rows = 0
        for batch in source.batches(problems):
            rows += batch.num_rows
            for at in range(0, batch.num_rows, self._batch_size):
                yield batch.slice(at, self._batch_size)
        if problems.count and self._errors == "raise":
            raise ScanError(tuple(problems.found), problems.count, rows)

    def reader(self) -> pa.RecordBatchReader:
        """The rows as a `pyarrow.RecordBatchReader`, which can be read once. It raises what iteration does."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def lazy(self) -> LazyFrame:
        """A Polars `LazyFrame`. A query reads the columns that it needs, and leaves out what its filters of offsets,
        timestamps, topics, partitions, producers and transactions exclude.

        Raises:
            ImportError: Polars is not installed.
        """
        from kafkawire.scanning.polars_source import lazy_frame

        return lazy_frame(self.schema, lambda columns, bounds: self._read(self._source.narrowed(columns, bounds)))

    def __repr__(self) -> str:
        return f"Scan({', '.join(self.schema.names)})"
