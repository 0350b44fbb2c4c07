"""The data source `kafka_segment`: log directories as tables, batch or streaming.

    register(spark)
    spark.read.format("kafka_segment").option("rows", "records").load("kafka-logs/")

One row a record (`rows`: "records", the default), or a batch ("batches"; "headers" does the same and trusts lengths
instead of checksums, which spares the payload). Damage is a row with an `error`, which is null in all other
rows. Spark promises no order of rows: sort by `position` and `offset`.

Paths are log directories, folders of several, partitions, segments, globs of these, or URIs of a store (s3://, gs://,
hdfs://). Options, case-insensitive:

- `rows`: records, batches or headers
- `format`: "kafka" for the columns of Spark's Kafka source: key, value, topic, partition, offset, timestamp,
  timestampType and headers. Control records have no rows, and `mode` is FAILFAST unless it is given.
- `columns`: names of columns, separated by commas; only these are read
- `mode`: PERMISSIVE, the default; or FAILFAST: damage fails the job
- `maxPartBytes`: larger segments are split (32 MiB by default). Parts begin at batches that `.index` files name, or,
  without one, that a walk over headers finds; a compressed batch is never split.
- `showSecrets`: "true" shows the values of `__cluster_metadata` that hold SCRAM keys, tokens or passwords, which are
  `[redacted]` otherwise
- `isolationLevel`: "read_committed" for what a consumer of that level gets: committed data from the log start offset up
  to the last stable offset, without markers; "read_uncommitted" for all data up to the high watermark. Data with
  an unknown outcome is an `unknown_outcome` in `error`
- `replicas`: "one", the default, reads of each log the replica that reaches furthest (`copied_logs`); "all" reads all
- `tierKeys`: files with the private keys (PEM) of an encrypted tier, with commas between; workers read them, too
- `includeHeaders`: "false" leaves out the column `headers`
- `failOnDataLoss`: "true": offsets that were removed before they were read, records that a later leader cut off, and a
  topic that was created again fail the query; "false": with FAILFAST they are a warning, otherwise a row. By default
  `mode` decides.
- `minPartitions`: as many tasks at least, if there are as many parts
- `subscribe`, `startingOffsets` and the other options of `offset_options`: which partitions and offsets are read

`kafka.isolation.level` is `isolationLevel`. Options of Spark's Kafka source without an effect here, such as
`kafka.bootstrap.servers`, are passed over, with a warning.

As a stream (`spark.readStream`) growing directories are read on; see `segment_streams`.

There is one column more, `transaction`, which is read where `columns` or a schema names it: none, committed, aborted,
open or unknown. For it and for `isolationLevel` the driver reads the headers of the partitions first.

Only the columns of the table are decoded; the option `columns` and a schema leave out others. So does a query, in a
session whose optimizer has the rule of `query_columns`: the rows must not depend on the columns. A schema may also
choose other types, see `column_projection`.
"""

from __future__ import annotations

from types import MappingProxyType

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from kafkawire.spark.errors import without_trace
from kafkawire.spark.sources.offset_options import ENDS, STARTS, STRATEGY, SUBSCRIPTIONS
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.segment_streams import SegmentStream
from kafkawire.spark.sources.source_base import BYTES, FILES, OFFSETS, TIER_KEYS, StrictSource

#: Options of Spark's Kafka source (`KafkaSourceProvider`) without an effect here, beside those that begin so: `kafka.`.
IGNORED = (
    "groupIdPrefix",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
)


class KafkaSegment(StrictSource):
    """See the module."""

    item_reader = SegmentReader
    shared = (
        "rows",
        "format",
        "columns",
        "mode",
        "maxPartBytes",
        "showSecrets",
        "isolationLevel",
        "replicas",
        "includeHeaders",
        "failOnDataLoss",
        "minPartitions",
        TIER_KEYS,
        *SUBSCRIPTIONS,
        *STARTS,
        STRATEGY,
    )
    batch_only = ENDS
    ignored = IGNORED
    #: A batch query passes over this option of streams, as that of Spark's Kafka source does.
    ignored_in_batches = (OFFSETS,)
    synonyms = MappingProxyType({"kafka.isolation.level": "isolationLevel"})
    stream_only = ("highWatermark", FILES, BYTES, OFFSETS)

    @classmethod
    def name(cls) -> str:
        return "kafka_segment"

    @without_trace()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return SegmentStream(schema, self.of_stream())
