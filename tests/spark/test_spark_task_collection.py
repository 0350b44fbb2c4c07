"""Workers of Spark do not collect imported modules after each task."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_the_first_task_of_a_worker_exempts_imported_modules_from_collection(spark: SparkSession) -> None:
    from kafkawire.spark.task_sizing import Rows, by_task

    def exempt(rows: Rows) -> Iterator[pa.RecordBatch]:
        import pyarrow

        yield pyarrow.RecordBatch.from_pylist([{"objects": gc.get_freeze_count()} for _ in rows])

    # More tasks than workers: some worker runs a second one.
    found = by_task(spark.range(0, 16, 1, 16), exempt, "objects long").collect()
    assert max(row.objects for row in found) > 10_000
