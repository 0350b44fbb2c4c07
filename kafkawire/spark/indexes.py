"""The data source `kafka_index`: what stands beside the segments, as a table.

    spark.read.format("kafka_index").option("kinds", "snapshot,txnindex").load("kafka-logs/")

A row an entry of offset, time and transaction indexes, producer snapshots, checkpoints and properties: the rows of
`kafkawire dump`, in one table; `kind` tells which columns have a value. Entries that disagree with the log beside them
are damage, with rows of their own.

Options, case-insensitive: `kinds`, which of index, timeindex, txnindex, snapshot, epoch, checkpoint, metadata, damage
are wanted (all by default; the table has the columns of these); `mode`: PERMISSIVE, the default, or FAILFAST: damage
fails the job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from kafkawire import logdir, rows
from kafkawire.logdir import LogFile
from kafkawire.rows import arrow
from kafkawire.spark.shares import file_size, share_out
from kafkawire.spark.sources import Options, SourceError

#: kind of row -> kinds of the files that have such.
_FILES = {
    "index": ("index",),
    "timeindex": ("timeindex",),
    "txnindex": ("txnindex",),
    "snapshot": ("snapshot",),
    "epoch": ("epochs",),
    "checkpoint": ("checkpoint",),
    "metadata": ("partition-metadata", "meta-properties", "quorum-state", "clean-shutdown"),
}
KINDS = (*_FILES, "damage")


class Files(InputPartition):
    """One task: the files that it reads."""

    def __init__(self, files: list[LogFile]) -> None:
        super().__init__(None)
        self.files = files


class KafkaIndex(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return "kafka_index"

    def schema(self) -> StructType:
        kinds = [rows.LOG_ROWS[kind] for kind in Options(self.options).several("kinds", KINDS)]
        return from_arrow_schema(arrow.schema(kinds))

    def reader(self, schema: StructType) -> IndexReader:
        return IndexReader(schema, Options(self.options))


class IndexReader(DataSourceReader):
    """Reads the columns of `schema`, which may be fewer than there are."""

    def __init__(self, schema: StructType, options: Options) -> None:
        self.schema = schema
        self.options = options
        self.kinds = frozenset(options.several("kinds", KINDS))

    def partitions(self) -> Sequence[InputPartition]:
        of = {kind for wanted, kinds in _FILES.items() if self.kinds & {wanted, "damage"} for kind in kinds}
        files = [file for file in logdir.open(*self.options.paths).files if file.kind in of]
        return [Files(share) for share in share_out(files, file_size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Files):  # Spark makes one partition of nothing out of none
            columns = to_arrow_schema(self.schema, timezone="UTC")
            yield from arrow.batches((row for file in partition.files for row in self._rows(file)), columns)

    def _rows(self, file: LogFile) -> Iterator[rows.Row]:
        try:
            for row in file:
                if isinstance(row, rows.Damage) and not row.harmless:
                    self._fail(row)
                if getattr(row, "kind", None) in self.kinds:
                    yield row
        except OSError as error:
            damage = rows.Damage(**file.place, reason="unreadable", detail=error.strerror or str(error))
            self._fail(damage)
            if "damage" in self.kinds:
                yield damage

    def _fail(self, damage: rows.Damage) -> None:
        if self.options.fail_fast:
            raise SourceError(f"{damage.file}: at byte {damage.position or 0}: {damage.reason}: {damage.detail}")
