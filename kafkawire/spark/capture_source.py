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
"""

from __future__ import annotations

from pyspark.sql.datasource import DataSourceStreamReader
from pyspark.sql.types import StructType

from kafkawire.spark.admission import BYTES, FILES
from kafkawire.spark.capture_reader import CaptureReader
from kafkawire.spark.capture_streams import CaptureStream
from kafkawire.spark.errors import without_trace
from kafkawire.spark.sources import StrictSource


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
