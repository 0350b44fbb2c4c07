"""Spark's errors are pages long; one sentence of them is kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.errors import PySparkException

from kafkawire.spark.errors import first_line, without_trace
from kafkawire.spark.session.jobs import cause
from tests.audit_logs import LogDirectory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(
    ("error", "line"), [(ValueError("\n what \n at there"), "what "), (TimeoutError(), "TimeoutError")]
)
def test_first_line_of_an_error(error: Exception, line: str) -> None:
    assert first_line(error) == line


def test_only_workers_hide_traces_and_only_of_input_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    monkeypatch.delenv("SPARK_SIMPLIFIED_TRACEBACK", raising=False)
    for error in (ValueError, ZeroDivisionError):
        with pytest.raises(error), without_trace():
            raise error
        assert "SPARK_HIDE_TRACEBACK" not in os.environ
        monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", "1")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("source", "read"), [("kafka_segment", "read"), ("kafka_pcap", "readStream"), ("kafka_index", "read")]
)
def test_a_missing_path_is_one_sentence(spark: SparkSession, source: str, read: str) -> None:
    from kafkawire.spark import register

    register(spark)
    with pytest.raises(PySparkException) as caught:
        getattr(spark, read).format(source).load("/no/such/path")
    sentence, *others = str(caught.value).splitlines()
    assert sentence.endswith("FileNotFoundError: [Errno 2] the path does not exist: '/no/such/path'")
    assert all("SQLSTATE" in line for line in others)


@pytest.mark.spark
def test_damage_that_fails_a_job_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    from kafkawire.spark import register

    register(spark)
    logs = LogDirectory(tmp_path / "logs")
    logs.partition("orders").data(1)
    (file,) = Path(logs.write()).glob("orders-0/*.log")
    file.write_bytes(file.read_bytes()[:-1])
    frame = spark.read.format("kafka_segment").option("mode", "FAILFAST").load(str(tmp_path))
    with pytest.raises(PySparkException) as caught:
        frame.collect()
    assert "Traceback" not in str(caught.value)
    assert (
        cause(caught.value)
        == f"kafkawire.spark.errors.SourceError: {file}: at byte 0: truncated: 70 of a batch's 71 bytes"
    )
