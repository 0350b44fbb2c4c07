"""One Spark session for all tests; a standalone cluster and a Connect server end with the module that asks for them,
as their memory does. Tests are skipped, with the reason, where Spark, a Java runtime or what Connect needs is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark.clusters import Cluster


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from kafkawire.errors import MissingExtraError
    from kafkawire.spark.session.sessions import QUICK_START, local_session

    try:
        with local_session("local[2]", {**QUICK_START, "spark.sql.shuffle.partitions": "2"}) as session:
            yield session
    except MissingExtraError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two workers of a core each; see `clusters.call` for a driver."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    from kafkawire.errors import MissingExtraError
    from tests.spark.clusters import standalone

    try:
        with standalone(workers=2) as started:
            yield started
    except MissingExtraError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def remote() -> Iterator[str]:
    """The URL of a Spark Connect server."""
    pytest.importorskip("pyspark", reason="pyspark is not installed")
    pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
    from kafkawire.errors import MissingExtraError
    from tests.spark.clusters import connect

    try:
        with connect() as url:
            yield url
    except MissingExtraError as error:
        pytest.skip(str(error))
