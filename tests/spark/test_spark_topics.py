"""Topics of a live cluster through Spark's Kafka source."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire import logdir, records
from kafkawire.client import Search
from kafkawire.client.diagnosis.wire_audit import WireAudit
from kafkawire.messages import TransactionLogValue
from kafkawire.spark import audit_tables, from_kafka_message, local_session, read_topic, stream_topic
from kafkawire.spark.errors import SparkError
from kafkawire.spark.session.sessions import QUICK_START
from kafkawire.spark.wire_audit import audit_cluster
from tests.spark.clusters import call
from tools.broker import BrokerUnavailableError, RunningCluster
from tools.broker.jars import spark_kafka_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

TOPIC = "__transaction_state"


def connector() -> str:
    try:
        return ",".join(map(str, sorted(spark_kafka_jars().glob("*.jar"))))
    except BrokerUnavailableError as error:
        if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
            raise
        pytest.skip(str(error))


def transact(bootstrap: str) -> Any:
    """Commits three transactions, and returns the producer of an open one."""
    confluent = pytest.importorskip("confluent_kafka")
    for number in range(4):
        name = {"transactional.id": f"spark-topics-{number}", "transaction.timeout.ms": 900_000}
        producer = confluent.Producer({"bootstrap.servers": bootstrap, **name})
        producer.init_transactions(60)
        producer.begin_transaction()
        producer.produce("spark-topics", b"value")
        if number < 3:
            producer.commit_transaction(60)
        else:
            assert producer.flush(60) == 0
    return producer


def what_is_read(bootstrap: str, jars: str, folder: str) -> dict[str, Any]:
    """In a driver of its own, since jars are given when a session starts; one core: each starts a Python worker."""
    results: dict[str, Any] = {}
    with local_session("local[1]", {**QUICK_START, "spark.jars": jars}) as spark:
        state = read_topic(spark, bootstrap, TOPIC)
        value = from_kafka_message("value", "TransactionLogValue", version="prefix").alias("v")
        results["state"] = [
            (row.partition, row.offset, None if row.v is None else row.v.transaction_status)
            for row in state.select("partition", "offset", value).collect()
        ]
        results["orders"] = read_topic(spark, bootstrap, "spark-topics").count()
        key = from_kafka_message("key", "TransactionLogKey", version="prefix")
        changes = state.select(key.transactional_id.alias("transactional_id"), "partition", "offset", value)
        wanted = WireAudit(search=Search(topics=("spark-topics",), confirm_after_s=0), since_ms=0)
        findings = audit_tables(spark, audit_cluster(bootstrap, wanted, spark=spark))["findings"]
        history = findings.select("reason", "transactional_id", "producer_id").join(changes, "transactional_id")
        results["history"] = [
            (row.reason, row.transactional_id, row.v.transaction_status, row.v.producer_id == row.producer_id)
            for row in history.orderBy("offset").collect()
        ]
        for topic in ("spark-topics-nothing", "a,b"):
            try:
                read_topic(spark, bootstrap, topic)
            except (SparkError, ValueError) as error:
                results[topic] = str(error)
        results["allowed"] = read_topic(spark, bootstrap, "spark-topics-nothing", allow_empty=True).count()
        query = (
            stream_topic(spark, bootstrap, TOPIC)
            .select("partition", "offset")
            .writeStream.format("parquet")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start(f"{folder}/out")
        )
        query.awaitTermination(120)
        results["streamed"] = sorted(
            (row.partition, row.offset) for row in spark.read.parquet(f"{folder}/out").collect()
        )
    return results


def in_the_log(broker: RunningCluster) -> list[tuple[int, int, int | None]]:
    """(partition, offset, state) of each record of `__transaction_state`."""
    found = []
    for partition in logdir.open(*map(str, broker.log_dirs.values())).partitions:
        if partition.topic == TOPIC:
            for segment in partition.segments:
                for batch in segment.batches():
                    if isinstance(batch, records.Batch) and not batch.control:
                        for record in batch.records:
                            value = record.value and TransactionLogValue.decode_prefixed(record.value)[0]
                            found.append((partition.partition, record.offset, value and value.transaction_status))
    return found


def test_an_internal_topic_is_not_silently_empty(broker: RunningCluster, tmp_path: Path) -> None:
    jars = connector()
    producer = transact(broker.bootstrap)
    before = set(in_the_log(broker))
    results = call("tests.spark.test_spark_topics:what_is_read", broker.bootstrap, jars, str(tmp_path))
    producer.abort_transaction(60)
    state = {tuple(row) for row in results["state"]}
    # Transactions end a little after their producers get the answer.
    assert before <= state <= set(in_the_log(broker))
    assert {status for _, _, status in before} >= {0, 1}
    assert results["orders"] == 4
    # The coordinator's records of the transaction that the audit over the wire has as open: Empty, then Ongoing.
    assert results["history"] == [["live", "spark-topics-3", status, True] for status in (0, 1)]
    assert "spark-topics-nothing has no record at" in results["spark-topics-nothing"]
    assert results["a,b"].startswith("one topic at a time")
    assert results["allowed"] == 0
    assert {tuple(row) for row in results["streamed"]} >= {row[:2] for row in state}


def test_reports_a_session_without_a_kafka_source(spark: SparkSession) -> None:
    with pytest.raises(SparkError, match=r"no Kafka source: start it with spark\.jars\.packages=org\.apache\.spark:"):
        read_topic(spark, "127.0.0.1:1", TOPIC)
