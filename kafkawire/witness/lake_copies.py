"""A lake table with columns of offsets, as a copy of topics: Parquet files; Delta and Iceberg, by their libraries."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafkawire.errors import KafkaWireError
from kafkawire.records.array_types import Int64
from kafkawire.witness.contents import UInt64
from kafkawire.witness.exchange_rows import Place
from kafkawire.witness.record_order import digest_of

# pyarrow is imported where there is a table: its import takes longer than the comparison of small logs.
if TYPE_CHECKING:
    import pyarrow as pa

#: The columns with topic, partition and offset of each record, unless others are named.
OFFSET_COLUMNS = ("topic", "partition", "offset")
_KEY_AND_VALUE = ("key", "value")
_VERSION = re.compile(r"v?(\d+)[-.]")


class LakeTableError(KafkaWireError):
    """A table that cannot be read as a copy of topics."""


class TableRows(NamedTuple):
    """The rows of a partition, by offset. `digest`: of key and value; zeros where the table does not have both."""

    offset: Int64
    digest: UInt64


class LakeTable:
    """A table.

    Args:
        path: of a Parquet file, a folder of them, a Delta table or an Iceberg table.
        columns: with topic, partition and offset.

    Attributes:
        path, columns: as given. kind: parquet, delta or iceberg. has_content: it has key and value of each record.

    Raises:
        LakeTableError: it has no such columns, cannot be read, or its library is not installed.
        OSError: a file cannot be read.
    """

    def __init__(self, path: str, columns: tuple[str, str, str] = OFFSET_COLUMNS) -> None:
        self.path = path
        self.kind = kind_of(path) or "parquet"
        self.columns = columns
        with _reading(path):
            self._source = _source(path, self.kind)
            names = self._source.schema.names
        missing = [name for name in columns if name not in names]
        if missing:
            found = ", ".join(names[:20])
            raise LakeTableError(f"{path}: no column {', '.join(missing)}; it has {found} (--offset-columns)")
        self.has_content = all(
            name in names and _is_bytes(self._source.schema.field(name).type) for name in _KEY_AND_VALUE
        )

    def places(self) -> set[Place]:
        """The topics and partitions in it."""
        import pyarrow as pa

        topic, partition, _ = self.columns
        found: set[Place] = set()
        for batch in self._batches([topic, partition]):
            table = pa.table(batch).group_by([topic, partition]).aggregate([])
            found.update(zip(table[topic].to_pylist(), table[partition].to_pylist(), strict=True))
        if any(None in place for place in found):
            raise LakeTableError(f"{self.path}: rows without a topic or a partition")
        return {(str(name), int(number)) for name, number in found}

    def rows(self, place: Place) -> TableRows:
        """The rows of a partition."""
        import pyarrow as pa

        offset = self.columns[2]
        columns = [offset, *(_KEY_AND_VALUE if self.has_content else ())]
        offsets, digests = [], []
        for batch in self._batches(columns, place):
            found = batch.column(offset)
            if found.null_count:
                raise LakeTableError(f"{self.path}: rows of {place[0]}-{place[1]} without an offset")
            offsets.append(found.cast(pa.int64()).to_numpy(zero_copy_only=False))
            digests.append(np.fromiter(self._digests(batch), np.uint64, len(batch)))
        at = np.concatenate([np.empty(0, np.int64), *offsets])
        digest = np.concatenate([np.empty(0, np.uint64), *digests])
        order = np.argsort(at, kind="stable")
        return TableRows(at[order], digest[order])

    def _digests(self, batch: pa.RecordBatch) -> Iterator[int]:
        if not self.has_content:
            yield from np.zeros(len(batch), np.uint64).tolist()
            return
        import pyarrow as pa

        key, value = (batch.column(name).cast(pa.large_binary()) for name in _KEY_AND_VALUE)
        for pair in zip(key, value, strict=True):
            yield digest_of(one.as_py() for one in pair)

    def _batches(self, columns: list[str], place: Place | None = None) -> Iterable[pa.RecordBatch]:
        """Columns of all rows, or of those of a partition."""
        with _reading(self.path):
            yield from self._source.batches(columns, None if place is None else (self.columns[:2], place))


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turns the exceptions of each library into the reason why the table cannot be read."""
    try:
        yield
    except (LakeTableError, OSError, MemoryError):
        raise
    except Exception as error:
        text = next(iter(str(error).splitlines()), "")
        raise LakeTableError(f"{path}: {text or type(error).__name__}") from error


#: The columns of topic and partition, and what they have to be.
_Wanted = tuple[tuple[str, ...], Place]


class _Files:
    """Files of Parquet, and Delta tables, which are such files."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.schema: pa.Schema = dataset.schema

    def batches(self, columns: list[str], wanted: _Wanted | None) -> Iterable[pa.RecordBatch]:
        import pyarrow.compute as pc

        chosen = None
        if wanted is not None:
            (topic, partition), place = wanted
            chosen = (pc.field(topic) == place[0]) & (pc.field(partition) == place[1])
        yield from self._dataset.to_batches(columns=columns, filter=chosen)


class _Iceberg:
    """The newest snapshot of an Iceberg table, without rows that were deleted."""

    def __init__(self, path: str) -> None:
        newest = newest_metadata((Path(path) / "metadata").glob("*.metadata.json"))
        self._table = _library("pyiceberg.table", path).StaticTable.from_metadata(str(newest))
        self._expressions = _library("pyiceberg.expressions", path)
        self.schema: pa.Schema = self._table.schema().as_arrow()

    def batches(self, columns: list[str], wanted: _Wanted | None) -> Iterable[pa.RecordBatch]:
        of, chosen = self._expressions, self._expressions.AlwaysTrue()
        if wanted is not None:
            (topic, partition), place = wanted
            chosen = of.And(of.EqualTo(topic, place[0]), of.EqualTo(partition, place[1]))
        yield from self._table.scan(row_filter=chosen, selected_fields=tuple(columns)).to_arrow_batch_reader()


def kind_of(path: str) -> str | None:
    """Which kind of table a path is; None: no table."""
    where = Path(path)
    if where.is_file():
        return "parquet" if where.suffix == ".parquet" else None
    if (where / "_delta_log").is_dir():
        return "delta"
    if any((where / "metadata").glob("*.metadata.json")):
        return "iceberg"
    return "parquet" if next(where.rglob("*.parquet"), None) is not None else None


def _source(path: str, kind: str) -> _Files | _Iceberg:
    if kind == "iceberg":
        return _Iceberg(path)
    if kind == "delta":
        return _Files(_library("deltalake", path).DeltaTable(path).to_pyarrow_dataset())
    import pyarrow.dataset as ds

    return _Files(ds.dataset(path, format="parquet", partitioning="hive"))


def newest_metadata(files: Iterable[Path]) -> Path:
    """The metadata file with the highest version: `00002-UUID.metadata.json` of catalogs, `v2.metadata.json` of Hadoop
    tables. Times of copied files are those of the copy.

    Raises:
        LakeTableError: a name without a version.
    """
    versions: dict[int, Path] = {}
    for file in files:
        found = _VERSION.match(file.name)
        if found is None:
            raise LakeTableError(f"{file}: no version in the name of an Iceberg table's metadata")
        versions[int(found[1])] = file
    return versions[max(versions)]


def _library(name: str, path: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise LakeTableError(f"{path}: such a table needs {package}: pip install {package}") from None


def _is_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    checks = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_string, pa.types.is_large_string)
    return any(check(kind) for check in checks)
