"""The data source `kafka_index`: the files beside the segments, as a table.

    spark.read.format("kafka_index").option("kinds", "snapshot,txnindex").load("kafka-logs/")

A row an entry of offset, time and transaction indexes, producer snapshots, checkpoints and properties: the rows of
`kafkawire dump`, in one table; `kind` determines which columns have a value. Entries that disagree with the log beside
them are damage, with rows of their own.

Options, case-insensitive: `kinds`, which of index, timeindex, txnindex, snapshot, epoch, checkpoint, metadata, damage
are wanted (all by default; the table has the columns of these); `mode`: PERMISSIVE, the default, or FAILFAST: damage
fails the job; `tierKeys`: files with the private keys (PEM) of an encrypted tier, with commas between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql.types import StructType

from kafkawire import logdir, rows
from kafkawire.logdir import LogFile
from kafkawire.logdir.located_file import known_size
from kafkawire.rows import arrow
from kafkawire.spark.errors import SourceError
from kafkawire.spark.sources.source_base import TIER_KEYS, ItemReader, SourceOptions, StrictSource

#: kind of row -> kinds of the files that contain it.
_FILES = {
    "index": ("index",),
    "timeindex": ("timeindex",),
    "txnindex": ("txnindex",),
    "snapshot": ("snapshot",),
    "epoch": ("epochs",),
    "checkpoint": ("checkpoint",),
    "metadata": ("partition-metadata", "meta-properties", "quorum-state", "clean-shutdown", "rsm-manifest"),
}
KINDS = (*_FILES, "damage")


class IndexReader(ItemReader[LogFile]):
    """An item is a file."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        super().__init__(schema, options)
        self.kinds = frozenset(options.several("kinds", KINDS))

    @staticmethod
    def table(options: SourceOptions) -> pa.Schema:
        return arrow.schema([rows.LOG_ROWS[kind] for kind in options.several("kinds", KINDS)])

    def items(self) -> Iterator[LogFile]:
        of = {kind for wanted, kinds in _FILES.items() if self.kinds & {wanted, "damage"} for kind in kinds}
        return (
            file
            for file in logdir.open(*self.options.paths, tier_keys=self.options.texts(TIER_KEYS)).files
            if file.kind in of
        )

    def size_of(self, item: LogFile) -> int:
        return known_size(item)

    def batches(self, items: Iterable[LogFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        return arrow.batches((row for file in items for row in self._rows(file)), schema)

    def _rows(self, file: LogFile) -> Iterator[rows.Row]:
        try:
            for row in file:
                if isinstance(row, rows.DamageRow) and not row.harmless:
                    self._fail(row)
                if getattr(row, "kind", None) in self.kinds:
                    yield row
        except OSError as error:
            damage = rows.DamageRow(**file.place, reason="unreadable", detail=error.strerror or str(error))
            self._fail(damage)
            if "damage" in self.kinds:
                yield damage

    def _fail(self, damage: rows.DamageRow) -> None:
        if self.options.fail_fast:
            raise SourceError(f"{damage.file}: at byte {damage.position or 0}: {damage.reason}: {damage.detail}")


class KafkaIndex(StrictSource):
    """See the module."""

    item_reader = IndexReader
    shared = ("kinds", "mode", "columns", TIER_KEYS)

    @classmethod
    def name(cls) -> str:
        return "kafka_index"
