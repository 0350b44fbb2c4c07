"""`register`: the data sources and SQL functions of this package in a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkawire.spark.functions.column_functions import register_functions
from kafkawire.spark.session.query_columns import use_query_columns
from kafkawire.spark.session.shipping import check_workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, *, push_filters: bool = False) -> None:
    """Register the data sources of this package in a session, `kafka_segment`, `kafka_pcap` and `kafka_index`, and for
    its SQL the functions `from_kafka_message` and `to_kafka_message`. Batch reads of `kafka_segment` read the columns
    that their query uses, except through Spark Connect.

    Args:
        push_filters: filters on topic, partition, offset and timestamp choose the files of `kafka_segment`; this sets
            `spark.sql.python.filterPushdown.enabled`. Spark (4.1 to 4.3) gives a table that one query reads twice, with
            different filters, the tasks of one of them: such a query needs a `load` for each.
    """
    from kafkawire.spark.capture_source import KafkaPcap
    from kafkawire.spark.index_source import KafkaIndex
    from kafkawire.spark.segment_source import KafkaSegment
    from kafkawire.spark.sources import filter_pushdown
    from kafkawire.spark.sources.segment_reader import TRANSACTION, PrunedSegmentReader

    check_workers(spark)
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
    use_query_columns(spark, KafkaSegment.name(), always=TRANSACTION)
