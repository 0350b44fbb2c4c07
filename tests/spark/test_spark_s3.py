"""Files in S3 are read as files on this machine: tables, streams, `dump` and `audit`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir, transactions
from kafkawire.logdir.remote import RemoteFile
from kafkawire.spark import register
from kafkawire.spark.capture_source import CaptureStream
from kafkawire.spark.sources.capture_reader import EXCHANGES
from kafkawire.spark.sources.segment_columns import BATCHES
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.segment_streams import SegmentStream
from kafkawire.spark.sources.source_base import SourceOptions
from tests.spark import stores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
LOGS = EXAMPLES / "kafka-logs" / "one-node"
PCAP = EXAMPLES / "capture" / "transactions.pcap"


@pytest.fixture(scope="module")
def bucket() -> Iterator[Any]:
    """A function from a path in the bucket to its URI; the examples are in it."""
    with stores.bucket({"logs": LOGS, "captures/transactions.pcap": PCAP}) as uri:
        yield uri


def stripped(row: Any) -> dict[str, Any]:
    """A row without where it was read."""
    found: dict[str, Any] = row.asDict(recursive=True)
    for folder in ("s3://fleet/logs", str(LOGS), "s3://fleet/captures", str(PCAP.parent)):
        found["file"] = found["file"].replace(folder, "")
    return found


@pytest.mark.parametrize(
    ("source", "path", "here", "options"),
    [
        ("kafka_segment", "logs", LOGS, {"maxPartBytes": "20001"}),
        ("kafka_segment", "logs", LOGS, {"rows": "headers"}),
        ("kafka_pcap", "captures", PCAP.parent / "transactions.pcap", {"maxPartBytes": "60000"}),
        ("kafka_index", "logs", LOGS, {"kinds": "snapshot,index,txnindex"}),
    ],
)
def test_tables(spark: SparkSession, bucket: Any, source: str, path: str, here: Path, options: dict[str, str]) -> None:
    register(spark)
    reader = spark.read.format(source).options(**options)
    found = sorted(map(str, map(stripped, reader.load(bucket(path)).collect())))
    assert found == sorted(map(str, map(stripped, reader.load(str(here)).collect())))
    assert found


def test_a_uri_as_hadoop_has_it(spark: SparkSession, bucket: Any) -> None:
    register(spark)
    path = bucket("logs")
    counts = [
        spark.read.format("kafka_segment").option("rows", "headers").load(one).count()
        for one in (path, path.replace("s3://", "s3a://"))
    ]
    assert counts[0] == counts[1] > 0


def test_globs_match_keys(bucket: Any) -> None:
    place, mark, query = bucket("logs").partition("?")
    found = SourceOptions({"path": f"{place}/{{broker-[0-9],none}}/order[r-t]-0{mark}{query}"}).paths
    assert found == [f"{place}/broker-1/orders-0{mark}{query}"]
    with pytest.raises(FileNotFoundError, match="nothing matches"):
        _ = SourceOptions({"path": f"{place}/broker-[2-9]{mark}{query}"}).paths


def test_planning_lists_a_store_and_asks_for_no_file(bucket: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are those of the listing. What the driver opens is small, and opened once: checkpoints, and topic ids of
    replicas; neither segments nor their indexes."""
    opened: list[str] = []
    asked: list[str] = []
    raw, info = RemoteFile.raw, RemoteFile._info
    monkeypatch.setattr(RemoteFile, "raw", lambda self, path: opened.append(path) or raw(self, path))
    monkeypatch.setattr(RemoteFile, "_info", property(lambda self: asked.append(self.path) or info.fget(self)))
    reader = SegmentReader(
        from_arrow_schema(BATCHES), SourceOptions({"rows": "batches", "maxPartBytes": "5000", "path": bucket("logs")})
    )
    tasks = reader.partitions()
    parts = [part for task in tasks for part in task.items]
    assert len(parts) > len({part.file.path for part in parts})
    assert asked == []
    assert {path.rpartition("/")[2] for path in opened} <= {"meta.properties", "partition.metadata"}
    assert len(opened) == len(set(opened))
    assert sum(len(batch) for task in tasks for batch in reader.read(task)) > 100


def test_no_password_is_in_a_row(bucket: Any) -> None:
    reader = SegmentReader(from_arrow_schema(BATCHES), SourceOptions({"rows": "batches", "path": bucket("logs")}))
    (task, *_) = reader.partitions()
    rows = [row for batch in reader.read(task) for row in batch.to_pylist()]
    assert rows
    assert not any("secret" in str(row) for row in rows)
    assert all(row["file"].startswith("s3://fleet/logs/") for row in rows)


def test_a_stream_of_captures(bucket: Any) -> None:
    stream = CaptureStream(
        from_arrow_schema(EXCHANGES), SourceOptions({"settleSeconds": "0", "path": bucket("captures")})
    )
    end = stream.latestOffset()
    assert list(end) == ["s3://fleet/captures/transactions.pcap"]
    rows = [row for task in stream.partitions({}, end) for batch in stream.read(task) for row in batch.to_pylist()]
    assert len(rows) > 100
    assert stream.partitions(end, stream.latestOffset(end)) == []


def test_a_stream_of_committed_batches(bucket: Any) -> None:
    def read(path: str) -> list[str]:
        options = SourceOptions({"rows": "batches", "isolationLevel": "read_committed", "path": path})
        stream = SegmentStream(from_arrow_schema(BATCHES), options)
        tasks = stream.partitions({}, stream.latestOffset())
        found = [row for task in tasks for batch in stream.read(task) for row in batch.to_pylist()]
        return sorted(str(row | {"file": row["file"].replace("s3://fleet/logs", str(LOGS))}) for row in found)

    assert read(bucket("logs")) == read(str(LOGS)) != []


def test_audit(bucket: Any) -> None:
    def found(path: str) -> str:
        findings = transactions.audit(logdir.open(path)).findings
        assert findings
        return repr(findings).replace("s3://fleet/logs", str(LOGS))  # premises name their sources

    assert found(bucket("logs")) == found(str(LOGS))
