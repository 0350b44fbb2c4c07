"""A query of Spark's own Kafka source with another `format`: its options are taken, or named in a warning; the progress
of a stream has offsets, as that of Spark's Kafka source has."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark import register
from kafkawire.spark.segment_source import KafkaSegment
from kafkawire.spark.sources import source_base
from kafkawire.spark.sources.segment_streams import SegmentStream
from tests.spark.growing_logs import GrowingLog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

#: The options of `KafkaSourceProvider` in Spark 4.2, with a value that they may have there.
TAKEN = {
    "subscribe": "t",
    "subscribePattern": "t.*",
    "assign": '{"t":[0]}',
    "startingOffsets": "earliest",
    "startingTimestamp": "0",
    "startingOffsetsByTimestamp": '{"t":{"0":0}}',
    "startingOffsetsByTimestampStrategy": "latest",
    "minPartitions": "3",
    "includeHeaders": "false",
    "failOnDataLoss": "false",
    "kafka.isolation.level": "read_committed",
}
OF_BATCHES = {"endingOffsets": "latest", "endingTimestamp": "1", "endingOffsetsByTimestamp": '{"t":{"0":1}}'}
OF_STREAMS = {"maxOffsetsPerTrigger": "5"}
PASSED_OVER = {
    "kafka.bootstrap.servers": "b:9092",
    "kafka.group.id": "x",
    "groupIdPrefix": "x",
    "kafkaConsumer.pollTimeoutMs": "10",
    "fetchOffset.numRetries": "1",
    "fetchOffset.retryIntervalMs": "1",
    "maxRecordsPerPartition": "9",
    "maxTriggerDelay": "15m",
    "minOffsetsPerTrigger": "2",
}


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    log = GrowingLog(tmp_path / "logs", Random(1))
    while log.end < 10:
        log.append()
    return log.root


def source(logs: Path, **options: str) -> KafkaSegment:
    return KafkaSegment({"path": str(logs), **options})


@pytest.mark.parametrize("name", [*TAKEN, *OF_BATCHES, *OF_STREAMS])
def test_options_are_taken(logs: Path, name: str) -> None:
    given = {name.lower(): (TAKEN | OF_BATCHES | OF_STREAMS)[name]}  # Spark gives names in lower case
    if name.startswith("starting"):
        given["startingoffsetsbytimestampstrategy"] = "latest"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = source(logs, **given)
        if name not in OF_STREAMS:
            assert one.reader(one.schema()).partitions() is not None
        if name in OF_STREAMS and source_base.limits is None:
            return
        if name not in OF_BATCHES:
            assert isinstance(one.streamReader(one.schema()), SegmentStream)


@pytest.mark.parametrize("name", PASSED_OVER)
def test_options_without_an_effect_are_named_in_a_warning(logs: Path, name: str) -> None:
    with pytest.warns(RuntimeWarning, match=f"kafka_segment, which reads files, passes over .* here: {name}$"):
        one = source(logs, **{name: PASSED_OVER[name]})
    assert one.reader(one.schema()).partitions()
    assert one.streamReader(one.schema())


def test_a_batch_passes_over_the_limit_of_a_stream(logs: Path) -> None:
    one = source(logs, maxoffsetspertrigger="5")
    with pytest.warns(RuntimeWarning, match=r"a batch of kafka_segment passes over .* here: maxOffsetsPerTrigger"):
        assert one.reader(one.schema()).partitions()


def test_the_isolation_level_of_a_consumer_is_taken(logs: Path) -> None:
    one = source(logs, **{"kafka.isolation.level": "read_committed"})
    assert one.reader(one.schema()).level == "read_committed"  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"only one of isolationLevel, kafka\.isolation\.level can be given"):
        source(logs, **{"kafka.isolation.level": "read_committed", "isolationlevel": "read_committed"})
    with pytest.raises(ValueError, match="isolationLevel is read_uncommitted or read_committed, not serial"):
        source(logs, **{"kafka.isolation.level": "serial"}).reader(one.schema())


def test_columns_and_parts(logs: Path) -> None:
    one = source(logs, format="kafka", includeHeaders="false", minPartitions="3", maxPartBytes="200")
    schema = one.schema()
    assert schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert len(one.reader(schema).partitions()) >= 3


def test_progress_has_offsets_and_what_is_left(spark: SparkSession, logs: Path, tmp_path: Path) -> None:
    if source_base.limits is None:
        pytest.skip("this PySpark has no admission control")
    register(spark)
    read = spark.readStream.format("kafka_segment").options(format="kafka", maxOffsetsPerTrigger="4", subscribe="t")
    query = (
        read.load(str(logs))
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
        sources = [one.sources[0] for one in query.recentProgress if one.numInputRows]
    finally:
        query.stop()

    def offset(text: str) -> int:
        ((found,),) = (ids.values() for cluster in json.loads(text)["logs"].values() for ids in cluster.values())
        return int(found["0"][0])

    assert len(sources) > 1
    end = offset(sources[-1].endOffset)
    assert [offset(one.latestOffset) for one in sources] == [end] * len(sources)  # the lag is the difference
    assert sources[0].startOffset is not None
    assert sorted({offset(one.endOffset) for one in sources}) == [offset(one.endOffset) for one in sources]
    assert end >= 10
