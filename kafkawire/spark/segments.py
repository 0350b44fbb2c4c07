"""The data source `kafka_segment`: log directories as tables.

    register(spark)
    spark.read.format("kafka_segment").option("rows", "records").load("kafka-logs/")

One row a record (`rows`: "records", the default), or a batch ("batches"; "headers" does the same and trusts lengths
instead of checksums, which spares the payload). Damage is a row as well, whose `error` says what is wrong; in all
others it is null. With `mode` FAILFAST damage fails the job. Rows of one file are in order; files are in no order.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from kafkawire import logdir
from kafkawire.errors import KafkaWireError, RecordError
from kafkawire.logdir import LogFile
from kafkawire.records import Batch, Damage
from kafkawire.spark.shares import file_size, share_out

#: Rows of one Arrow batch, and bytes of keys and values after which one ends: what bounds a worker's memory.
BATCH_ROWS = 10_000
BATCH_BYTES = 32 << 20

_PLACE = "file string, topic string, partition int, position long"
_PRODUCER = "producer_id long, producer_epoch short, sequence int, transactional boolean, control string"
BATCH_SCHEMA = (
    f"{_PLACE}, base_offset long, last_offset long, records int, codec string, size int, timestamp long, "
    f"timestamp_type string, leader_epoch int, {_PRODUCER}, coordinator_epoch int, error string"
)
RECORD_SCHEMA = (
    f"{_PLACE}, offset long, timestamp long, timestamp_type string, {_PRODUCER}, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, error string"
)

Row = dict[str, Any]


class Segments(InputPartition):
    """One task: the segments that it reads."""

    def __init__(self, files: list[LogFile]) -> None:
        super().__init__(None)
        self.files = files


class KafkaSegment(DataSource):
    """See the module."""

    @classmethod
    def name(cls) -> str:
        return "kafka_segment"

    def schema(self) -> str:
        return RECORD_SCHEMA if _rows_option(self.options) == "records" else BATCH_SCHEMA

    def reader(self, schema: StructType) -> SegmentReader:
        return SegmentReader(schema, dict(self.options))


class SegmentReader(DataSourceReader):
    """Reads the columns of `schema`, which may be fewer than there are."""

    def __init__(self, schema: StructType, options: dict[str, str]) -> None:
        self.schema = schema
        self.options = {name.lower(): value for name, value in options.items()}
        self.rows = _rows_option(self.options)
        mode = self.options.get("mode", "PERMISSIVE").upper()
        if mode not in ("PERMISSIVE", "FAILFAST"):
            raise ValueError(f"mode is PERMISSIVE or FAILFAST, not {mode}")
        self.fail_fast = mode == "FAILFAST"

    def partitions(self) -> Sequence[InputPartition]:
        paths = json.loads(self.options["paths"]) if "paths" in self.options else [self.options.get("path", "")]
        directory = logdir.open(*(path.removeprefix("file:") for path in paths))
        files = [file for partition in directory.partitions for file in partition.segments]
        return [Segments(share) for share in share_out(files, file_size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Segments):
            return  # Spark makes one partition of nothing out of none
        arrow = to_arrow_schema(self.schema, timezone="UTC")
        for batch in _in_batches(row for file in partition.files for row in self._rows(file)):
            columns = [pa.array([row.get(field.name) for row in batch], field.type) for field in arrow]
            yield pa.RecordBatch.from_arrays(columns, schema=arrow)

    def _rows(self, file: LogFile) -> Iterator[Row]:
        try:
            for item in file.batches(check_crc=self.rows != "headers"):
                if isinstance(item, Damage):
                    if not item.harmless:
                        yield self._damage(file, item.position, f"{item.reason}: {item.detail}", item)
                else:
                    yield from self._batch_rows(file, item)
        except OSError as error:
            yield self._damage(file, 0, f"unreadable: {error.strerror or error}", error)

    def _batch_rows(self, file: LogFile, batch: Batch) -> Iterator[Row]:
        row = {**_place(file, batch.position), **_batch(batch)}
        try:
            control = batch.control
        except RecordError as error:
            yield self._damage(file, batch.position, str(error), error)
            return
        if control is not None:
            row |= {"control": control.name, "coordinator_epoch": control.coordinator_epoch}
        if self.rows != "records":
            yield row
            return
        try:
            for record in batch.records:
                headers = [{"key": _text(header.key), "value": header.value} for header in record.headers]
                yield row | {
                    "offset": record.offset,
                    "timestamp": record.timestamp,
                    "sequence": record.sequence,
                    "key": record.key,
                    "value": record.value,
                    "headers": headers,
                }
        except RecordError as error:
            yield self._damage(file, batch.position, str(error), error)

    def _damage(self, file: LogFile, position: int, text: str, cause: object) -> Row:
        if self.fail_fast:
            raise SegmentError(f"{file.path}: at byte {position}: {text}") from (
                cause if isinstance(cause, BaseException) else None
            )
        return {**_place(file, position), "error": text}


class SegmentError(KafkaWireError):
    """Damage, in mode FAILFAST."""


def _rows_option(options: Any) -> str:
    rows = str(options.get("rows", "records")).lower()
    if rows not in ("records", "batches", "headers"):
        raise ValueError(f"rows is records, batches or headers, not {rows}")
    return rows


def _in_batches(rows: Iterator[Row]) -> Iterator[list[Row]]:
    while batch := list(islice(rows, 1)):
        held = _bytes(batch[0])
        for row in islice(rows, BATCH_ROWS - 1):
            batch.append(row)
            held += _bytes(row)
            if held >= BATCH_BYTES:
                break
        yield batch


def _bytes(row: Row) -> int:
    return len(row.get("key") or b"") + len(row.get("value") or b"")


def _place(file: LogFile, position: int) -> Row:
    return {"file": _text(file.path), "topic": _text(file.topic or ""), "partition": file.partition,
            "position": position}  # fmt: skip


def _batch(batch: Batch) -> Row:
    return {
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "records": batch.record_count,
        "codec": batch.codec,
        "size": batch.size,
        "timestamp": batch.max_timestamp,
        "timestamp_type": batch.timestamp_type,
        "leader_epoch": batch.partition_leader_epoch,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "sequence": batch.base_sequence,
        "transactional": batch.transactional,
    }


def _text(text: str) -> str:
    """Text that Arrow can hold: bytes that are no UTF-8 become U+FFFD."""
    return text if text.isascii() else os.fsencode(text).decode("utf-8", "replace")
