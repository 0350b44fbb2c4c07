"""What kafkawire.spark does on PySpark 3.5 and 4.0; test_spark_older_pyspark runs it, and reads what it prints."""

from __future__ import annotations

import importlib
import json
from typing import Any
from uuid import UUID

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import kafkawire.spark as kafkawire_spark
from kafkawire.messages import (
    DescribeClientQuotasResponse,
    EndTxnMarker,
    FetchRequest,
    MetadataResponse,
    ProduceRequest,
    TransactionLogValue,
)
from kafkawire.messages import describe_client_quotas_response as quotas
from kafkawire.messages import metadata_response as metadata
from kafkawire.messages import produce_request as produce
from kafkawire.messages.fetch_request import FetchTopic
from kafkawire.messages.transaction_log_value import PartitionsSchema
from kafkawire.spark import from_kafka_message, message_table, to_kafka_message
from kafkawire.wire.message import Message

MOST = (1 << 63) - 1
STATE = TransactionLogValue(
    producer_id=MOST,
    producer_epoch=6,
    transaction_status=1,
    transaction_partitions=(PartitionsSchema("orders", (0, 2)), PartitionsSchema("ünï", ())),
)


def messages() -> dict[str, tuple[Message, int]]:
    """Messages of all kinds of fields, each with a version."""
    topic = metadata.MetadataResponseTopic(
        name=None, topic_id=UUID(int=5), partitions=(metadata.MetadataResponsePartition(isr_nodes=(1, 2)),)
    )
    data = produce.PartitionProduceData(index=3, records=b"\x00\xff"), produce.PartitionProduceData(records=None)
    entity = quotas.EntityData(entity_type="user", entity_name=None)
    values = quotas.ValueData(key="rate", value=0.1), quotas.ValueData(key="none", value=float("inf"))
    return {
        "TransactionLogValue": (STATE, 1),
        "FetchRequest": (FetchRequest(topics=(FetchTopic(topic_id=UUID(int=7 << 100)),)), 17),
        "MetadataResponse": (MetadataResponse(topics=(topic,), cluster_id=None), 12),
        "ProduceRequest": (ProduceRequest(topic_data=(produce.TopicProduceData(name="a", partition_data=data),)), 9),
        "DescribeClientQuotasResponse": (
            DescribeClientQuotasResponse(entries=(quotas.EntryData(entity=(entity,), values=values),)),
            1,
        ),
    }


def round_trips(spark: SparkSession) -> dict[str, bool]:
    """Whether each message is the same after both functions, beside a null."""
    found = {}
    for name, (message, version) in messages().items():
        rows = spark.createDataFrame(
            [(message.encode(version), version), (None, version)], "data binary, version short"
        )
        decoded = rows.select("version", from_kafka_message("data", name, F.col("version")).alias("v"))
        encoded = decoded.select("v", to_kafka_message("v", name, F.col("version")).alias("b")).collect()
        found[name] = [row.b and bytes(row.b) for row in encoded] == [message.encode(version), None]
        found[name] &= encoded[1].v is None
    return found


def missing(name: str) -> str:
    try:
        getattr(importlib.import_module("kafkawire.spark"), name)
    except ImportError as error:
        return str(error)
    return ""


def main() -> None:
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
    builder = SparkSession.builder.master("local[1]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    rows = spark.createDataFrame([(STATE.encode_prefixed(1),), (None,)], "data binary")
    state = from_kafka_message("data", "TransactionLogValue", "prefix")
    bad = spark.createDataFrame([(b"\x00\x01\x00",), (STATE.encode_prefixed(0),)], "data binary")
    permissive = from_kafka_message("data", "TransactionLogValue", "prefix", {"mode": "PERMISSIVE"})
    errors = {"mode": "PERMISSIVE", "errors": "true"}
    reasons = from_kafka_message("data", "TransactionLogValue", "prefix", errors).getField("_error")
    marker = F.struct(F.lit(7).cast("int").alias("CoordinatorEpoch"))
    made = spark.range(1).select(to_kafka_message(marker, "EndTxnMarker", 0).alias("b")).first()
    assert made is not None
    try:
        bad.select(state).collect()
        failed = ""
    except PySparkException as error:
        failed = str(error)
    table: Any = message_table(rows, "data", "TransactionLogValue", "prefix", columns=["producer_id"])
    found = {
        "version": pyspark.__version__,
        "round trips": round_trips(spark),
        "columns": rows.select(state).columns,
        "comment": rows.select(state.alias("v")).schema["v"].dataType["producer_id"].metadata,  # type: ignore[index]
        "aggregate": rows.agg(F.max(state.getField("producer_id")).alias("m")).collect()[0].m,
        "table": [row.producer_id for row in table.collect()],
        "permissive": [row.v is None for row in bad.select(permissive.alias("v")).collect()],
        "reasons": [row.e for row in bad.select(reasons.alias("e")).collect()],
        "defaults": bytes(made.b) == EndTxnMarker(coordinator_epoch=7).encode(0),
        "failed": "TransactionLogValue v1" in failed,
        "missing": {name: missing(name) for name in kafkawire_spark.__all__},
    }
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main()
