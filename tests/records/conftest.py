"""What the records tests share: each engine in turn, and Kafka's classes (skipped without Java, Maven or the jars)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from kafkawire.records import columns
from tests.records.record_engines import ENGINES
from tools.oracle import Oracle, OracleUnavailableError

RELEASE = "4.4.0"


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each engine in turn, as the one in use."""
    monkeypatch.setattr(columns, "engine", request.param)
    monkeypatch.setattr("kafkawire.records.record_arrays.engine", request.param)
    return request.param


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
