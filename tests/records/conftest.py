"""The oracle that the records tests share; without Java, Maven or the jars its tests are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tools.oracle import Oracle, OracleUnavailableError

RELEASE = "4.4.0"


@pytest.fixture(scope="package")
def java() -> Iterator[Oracle]:
    """Kafka's classes of `RELEASE`."""
    try:
        with Oracle(RELEASE) as oracle:
            yield oracle
    except OracleUnavailableError as error:
        if os.environ.get("KAFKAWIRE_REQUIRE_BROKER"):
            raise
        pytest.skip(str(error))
