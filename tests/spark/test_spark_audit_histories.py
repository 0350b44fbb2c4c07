"""Copies of true histories: Spark gives the answer of the audit on one machine, and nothing hangs in it that ends."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tools.audit_faults.on_spark import differing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.slow
def test_spark_judges_copies_of_histories_as_one_machine_does(spark: SparkSession, tmp_path: Path) -> None:
    assert differing(spark, tmp_path, (*range(12), 188)) == []  # copies of 188 are of different times
