"""One Spark session for all tests; they are skipped, with the reason, where Spark or a Java runtime is missing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from kafkawire.errors import MissingExtraError
    from kafkawire.spark.session import QUICK_START, local_session

    try:
        with local_session("local[2]", {**QUICK_START, "spark.sql.shuffle.partitions": "2"}) as session:
            yield session
    except MissingExtraError as error:
        pytest.skip(str(error))
