"""The data source `kafka_pcap`: captures as tables, batch or streaming.

    register(spark)
    spark.read.format("kafka_pcap").load("captures/*.pcapng").where("api = 'Produce' AND latency_ms > 500")

A row an exchange (`rows`: "exchanges", the default), as `kafkawire capture` prints them, or a frame ("frames"). Spark
promises no order of rows: sort by `file` and `packet`.

Paths are captures (pcap or pcapng, compressed or not), folders of them, globs of these, or URIs of a store. In a
folder, names that begin with "." or "_" are passed over. A file that is no capture, cannot be read to its end or
has no Kafka connection is a row with a `problem`.

Options, case-insensitive:

- `rows`: exchanges or frames
- `mode`: PERMISSIVE, the default; or FAILFAST: a file that is no capture, or is damaged, fails the job
- `maxPartBytes`: larger files are read by several tasks (32 MiB by default), each of which walks over all packets and
  owns a share of the connections, by their ends: TCP has no other borders. One connection is one task, and so is a
  compressed file.
- `body`: "true" adds the columns `request` and `response`, whole messages as JSON; to frames `data`, their bytes.
  Bodies are decoded if the table has these columns: Spark does not pass the columns of a query to a source in Python
- `records`: "true" decodes record batches in bodies; `noPayloads`: "true" leaves them out; `showSecrets`: "true" shows
  passwords and tokens in bodies and frames
- `keylog`: TLS key logs, with commas, which the workers can read; secrets in a pcapng are used in any case
- `decodeAs`: encapsulations on further UDP ports, with semicolons: `udp.port==8473,vxlan`
- `schemaDirectory`: a folder of message schemas of one's own, over Kafka's; the driver reads it
- `api`, `connection`: names and numbers, with commas: only these
- `startingTimestamp`, `endingTimestamp`: epoch milliseconds; only exchanges whose requests are not before the first,
  and before the second

As a stream: a folder that new captures come into.

    spark.readStream.format("kafka_pcap").load("captures/")

A capture is read as a whole, once it is closed: TCP's connections end where it does. Closed is what has not been
written to for `settleSeconds` (10 by default; "0" where captures are moved into the folder when they are whole). A
stream's offset lists the captures that have been read: {path: [bytes, checksum of the first of them]}. So another
capture under a name that was there before (a ring of files, as `tcpdump -W` writes it) is read as well; one that
grew after it had been read is a row with a `problem`. With `maxFilesPerTrigger` or `maxBytesPerTrigger`, the captures
that were written first are read first, at least one at a time.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from kafkawire.logdir.located_file import known_size
from kafkawire.logdir.log_files import LogFile, log_file
from kafkawire.spark.errors import without_trace
from kafkawire.spark.sources.capture_reader import CapturePart, CaptureReader, captures, parts_of
from kafkawire.spark.sources.source_base import BYTES, FILES, LimitedStream, SourceOptions, StrictSource, limit_of

#: path -> bytes, and the checksum of the first of them
Offset = dict[str, list[int]]

_SETTLE_SECONDS = 10
#: Bytes at the beginning that identify a capture: its header and the times of the first packets.
_HEAD_BYTES = 4096


class CaptureStream(LimitedStream):
    """See the module."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        super().__init__(options, (FILES, BYTES))
        self.reader = CaptureReader(schema, options)
        self.settle_seconds = options.number("settleSeconds", _SETTLE_SECONDS, least=0)
        self._ends: Offset = {}
        self._target: Offset | None = None
        self._modified: dict[str, float] = {}
        self._known: dict[str, tuple[int, float, int]] = {}

    def initialOffset(self) -> Offset:
        return {}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._listed({})

    def latestOffset(self, start: Offset | None = None, limit: object = None) -> Offset:
        # PySpark 4.1 passes no start: then the last offset of this reader, which is lost with a restart.
        before = self._ends if start is None else start
        self._ends = self._listed(before) if self._target is None else before | self._target
        asked = limit_of(limit)
        return dict(self._ends) if asked is None else self._admitted(before, *asked)

    def _listed(self, before: Offset) -> Offset:
        """The offset after all closed files."""
        found = ((file.path, self._closed(file, before.get(file.path))) for file in captures(self.reader.options.paths))
        return {path: known for path, known in found if known is not None}

    def _admitted(self, before: Offset, option: str, limit: int) -> Offset:
        """The offset after as many files as the limit permits, but one at least."""
        chosen = {path: known for path, known in before.items() if path in self._ends}
        new = [path for path, known in self._ends.items() if known != before.get(path)]
        taken = 0
        for path in sorted(new, key=lambda path: (self._modified.get(path, 0), path)):
            taken += 1 if option == FILES else self._ends[path][0]
            if taken > limit and chosen != before:
                break
            chosen[path] = self._ends[path]
        return chosen

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        there = {file.path: file for file in captures(self.reader.options.paths)}
        return self.reader.tasks(
            part
            for path, known in end.items()
            if known != start.get(path)
            for part in self._parts(there.get(path), path, start.get(path), known)
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.reader.read(partition)

    def _closed(self, file: LogFile, before: list[int] | None) -> list[int] | None:
        """The offset entry of a closed file; of a file that is still written to, the previous entry."""
        try:
            self._modified[file.path] = modified = file.modified
            if time.time() - modified < self.settle_seconds:
                return before
            size = file.size
            known = self._known.get(file.path)
            if known is None or known[:2] != (size, modified):
                self._known[file.path] = known = size, modified, _checksum(file, size)
            return [size, known[2]]
        except FileNotFoundError:
            return before  # gone since it was listed; if it was never read, there is nothing to report
        except OSError:
            return [known_size(file), 0] if before is None else before  # `_parts` reports one that was never read

    def _parts(
        self, file: LogFile | None, path: str, start: list[int] | None, known: list[int]
    ) -> Iterator[CapturePart]:
        size, checksum = known
        if file is None:
            yield CapturePart(log_file(path), problem="the file is gone before it was read")
            return
        try:
            if file.size < size or _checksum(file, size) != checksum:
                yield CapturePart(file, problem="another file stands where a capture was, before that was read")
            elif start is not None and start[0] < size and _checksum(file, start[0]) == start[1]:
                grown = size - start[0]
                yield CapturePart(
                    file, problem=f"the file grew by {grown} bytes after it had been read; they are not read"
                )
            else:
                yield from parts_of(file, self.reader.part_bytes, size)
        except OSError as error:
            yield CapturePart(file, problem=error.strerror or str(error))


def _checksum(file: LogFile, size: int) -> int:
    with file.opened() as opened:
        return zlib.crc32(opened.read(min(size, _HEAD_BYTES)))


class KafkaPcap(StrictSource):
    """See the module."""

    item_reader = CaptureReader
    shared = ("rows", "mode", "columns", "maxPartBytes", "body", "records", "noPayloads", "showSecrets", "keylog",
              "decodeAs", "schemaDirectory", "api", "connection", "startingTimestamp", "endingTimestamp")  # fmt: skip
    stream_only = ("settleSeconds", FILES, BYTES)

    @classmethod
    def name(cls) -> str:
        return "kafka_pcap"

    @without_trace()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return CaptureStream(schema, self.of_stream())
