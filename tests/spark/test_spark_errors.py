"""Spark's errors are pages long; one line of them is kept."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.spark.errors import first_line


@pytest.mark.parametrize(
    ("error", "line"), [(ValueError("\n what \n at there"), "what "), (TimeoutError(), "TimeoutError")]
)
def test_first_line_of_an_error(error: Exception, line: str) -> None:
    assert first_line(error) == line
