"""The application that test_spark_on_clusters submits. Arguments: a log directory."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import SparkSession

from kafkawire.spark import register
from kafkawire.spark.session.shipping import ship_where_missing


def described(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import os

    import kafkawire

    for _ in batches:
        row = {"backend": kafkawire.backend, "file": kafkawire.__file__, "worker": os.getcwd()}
        yield pa.RecordBatch.from_pylist([row])


if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing has to be sent
        ship_where_missing(spark)
    register(spark)
    records = spark.read.format("kafka_segment").load(sys.argv[1]).count()
    workers = spark.range(0, 8, 1, 8).mapInArrow(described, "backend string, file string, worker string").collect()
    print(json.dumps({"records": records, "workers": [row.asDict() for row in workers]}))
    spark.stop()
