"""Topics of a live cluster through Spark's own Kafka source, so that none of them is silently empty.

    state = read_topic(spark, "broker:9092", "__transaction_state")
    state.select(from_kafka_message("value", "TransactionLogValue", version="prefix"))

Spark's Kafka source finds no partition of an internal topic with its default way of looking up offsets:
no error, and no row. With the older way (`spark.sql.streaming.kafka.useDeprecatedOffsetFetching`) it finds them; but
then a topic that does not exist is as empty. So both functions set the one and look for the other. The setting is the
session's, and has to stay: Spark asks for offsets when a query runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.errors import AnalysisException, PySparkException

from kafkawire.spark.errors import SparkError, first_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OFFSET_FETCHING = "spark.sql.streaming.kafka.useDeprecatedOffsetFetching"
_CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"


def read_topic(
    spark: SparkSession,
    bootstrap_servers: str,
    topic: str,
    options: Mapping[str, str] | None = None,
    *,
    allow_empty: bool = False,
) -> DataFrame:
    """A topic as a table, in the columns of Spark's Kafka source: key, value, topic, partition, offset, timestamp, ...

    Args:
        bootstrap_servers: host:port, with commas.
        topic: one; internal topics (`__transaction_state`, `__consumer_offsets`) as well.
        options: more for the source, such as `kafka.security.protocol`, `startingOffsets`.
        allow_empty: without, a topic that has no record, or does not exist, is an error. The check costs a small job.

    Raises:
        SparkError: the session has no Kafka source, the brokers cannot be reached, or there is no record.
    """
    return _loaded(spark, spark.read, bootstrap_servers, topic, options, allow_empty)


def stream_topic(
    spark: SparkSession,
    bootstrap_servers: str,
    topic: str,
    options: Mapping[str, str] | None = None,
    *,
    allow_empty: bool = False,
) -> DataFrame:
    """A topic as a stream, in the columns of `read_topic`; by default from the topic's beginning on.

    Args:
        bootstrap_servers, topic, options, allow_empty: see `read_topic`.
    """
    given = {"startingOffsets": "earliest", **(options or {})}
    return _loaded(spark, spark.readStream, bootstrap_servers, topic, given, allow_empty)


def _loaded(
    spark: SparkSession,
    reader: Any,
    bootstrap_servers: str,
    topic: str,
    options: Mapping[str, str] | None,
    allow_empty: bool,
) -> DataFrame:
    spark.conf.set(OFFSET_FETCHING, "true")
    given = {**(options or {}), "kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
    if "," in topic:
        raise ValueError(f"one topic at a time, not {topic!r}: of several, one could be missing unnoticed")
    try:
        if not allow_empty:
            # All of it, whatever part the caller asks for.
            whole = {
                name: value for name, value in given.items() if not name.lower().startswith(("starting", "ending"))
            }
            if not spark.read.format("kafka").options(**whole).load().take(1):
                raise SparkError(f"{topic} has no record at {bootstrap_servers}, or does not exist")
        frame: DataFrame = reader.format("kafka").options(**given).load()
    except AnalysisException as error:
        if "kafka" not in str(error).lower() or "data source" not in str(error).lower():
            raise SparkError(f"{topic} at {bootstrap_servers}: {first_line(error)}") from error
        package = f"{_CONNECTOR}:{pyspark.__version__}"
        raise SparkError(f"this session has no Kafka source: start it with spark.jars.packages={package}") from error
    except PySparkException as error:
        raise SparkError(f"{topic} at {bootstrap_servers}: {first_line(error)}") from error
    return frame
