"""`kafkawire audit --engine spark` in the session that runs already: the answer of `--engine local`, row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkawire.cli import main

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LOGS = Path(__file__).parents[2] / "examples" / "kafka-logs" / "one-node"


def test_spark_gives_the_answer_of_the_local_audit(spark: SparkSession, capsysbinary: Any) -> None:
    def told(*arguments: str) -> tuple[int, Any, bytes]:
        code = main(["audit", str(LOGS), "--format", "json", *arguments])
        out, err = capsysbinary.readouterr()
        return code, json.loads(out), err

    code, expected, err = told()
    assert code == 3
    spark_code, answer, spark_err = told("--engine", "spark")
    assert (spark_code, spark_err) == (code, err)
    asked = answer["read"]["checks"]  # some are made on one machine only
    expected["read"]["checks"] = [check for check in expected["read"]["checks"] if check in asked]
    for part in ("answers", "violations"):
        expected[part] = [row for row in expected[part] if row["check"] in asked]
    assert answer == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--conf", "spark.executor.memory=4g"], b"--conf needs --engine spark"),
        (["--engine", "spark", "--conf", "spark.executor.memory"], b"--conf spark.executor.memory: give a setting"),
        (["--engine", "spark", "--conf", "memory=4g"], b"give a setting of Spark as spark.NAME=VALUE"),
    ],
)
def test_rejects_settings_that_are_none(arguments: list[str], expected: bytes, capsysbinary: Any) -> None:
    assert main(["audit", str(LOGS), *arguments]) == 2
    assert expected in capsysbinary.readouterr().err


def test_settings_reach_spark(spark: SparkSession, capsysbinary: Any) -> None:
    assert main(["audit", str(LOGS), "--engine", "spark", "--conf", "spark.executor.memory=4g"]) == 1
    err = capsysbinary.readouterr().err
    assert err.startswith(b"error: spark.executor.memory cannot be set in a session that runs already: ")
