"""Spark: Kafka's bytes as tables, and the audit of log directories as a PySpark job.

    from kafkawire import spark
    audit = spark.audit(["fleet/"])           # the same answer as that of transactions.audit
    spark.transactions(["fleet/"], session)   # every transaction, as a table

    from kafkawire.spark import register, from_kafka_message, to_kafka_message
    register(session)
    records = session.read.format("kafka_segment").load("kafka-logs/")
    records.select(from_kafka_message("value", "TransactionLogValue", version="prefix"))

Needs the `spark` extra, and Java 17 or newer (or the `spark-jre` extra, which brings one).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.errors import MissingExtraError
from kafkawire.spark.versions import UnsupportedPySparkError, check_pyspark

try:
    import pyarrow  # noqa: F401
    import pyspark  # noqa: F401

    check_pyspark()
except UnsupportedPySparkError:
    raise
except ImportError:
    raise MissingExtraError("kafkawire.spark", "spark") from None

from kafkawire.spark.audit_dataframes import TableOutput, audit_tables
from kafkawire.spark.audit_job import audit
from kafkawire.spark.functions import from_kafka_message, register_functions, to_kafka_message
from kafkawire.spark.message_tables import message_table
from kafkawire.spark.session import local_session, session_on
from kafkawire.spark.shipping import ship
from kafkawire.spark.topics import read_topic, stream_topic
from kafkawire.spark.transaction_table import transactions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "TableOutput",
    "audit",
    "audit_tables",
    "from_kafka_message",
    "local_session",
    "message_table",
    "read_topic",
    "register",
    "session_on",
    "ship",
    "stream_topic",
    "to_kafka_message",
    "transactions",
]


def register(spark: SparkSession, *, push_filters: bool = False) -> None:
    """Register the data sources of this package in a session, `kafka_segment`, `kafka_pcap` and `kafka_index`, and for
    its SQL the functions `from_kafka_message` and `to_kafka_message`.

    Args:
        push_filters: filters on topic, partition, offset and timestamp choose the files of `kafka_segment`; this sets
            `spark.sql.python.filterPushdown.enabled`. Spark (4.1 to 4.3) gives a table that one query reads twice, with
            different filters, the tasks of one of them: such a query needs a `load` for each.
    """
    from kafkawire.spark import filter_pushdown
    from kafkawire.spark.capture_source import KafkaPcap
    from kafkawire.spark.index_source import KafkaIndex
    from kafkawire.spark.segment_reader import PrunedSegmentReader
    from kafkawire.spark.segment_source import KafkaSegment

    register_functions(spark)
    case_sensitive = spark.conf.get("spark.sql.caseSensitive") == "true"
    if push_filters:
        spark.conf.set(filter_pushdown.SETTING, "true")
    for source in (KafkaSegment, KafkaPcap, KafkaIndex):
        # Sources run in processes that do not know the session's settings: these travel with the class.
        settings: dict[str, object] = {"case_sensitive": True} if case_sensitive else {}
        if source is KafkaSegment and push_filters:
            settings["item_reader"] = PrunedSegmentReader
        spark.dataSource.register(type(source.__name__, (source,), settings) if settings else source)
