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
    def audited(*arguments: str) -> tuple[int, Any, bytes]:
        code = main(["audit", str(LOGS), "--format", "json", *arguments])
        out, err = capsysbinary.readouterr()
        return code, json.loads(out), err

    code, expected, err = audited()
    assert code == 3
    spark_code, answer, spark_err = audited("--engine", "spark")
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


def test_writes_its_tables(spark: SparkSession, tmp_path: Path, capsysbinary: Any) -> None:
    from kafkawire.spark import transactions

    lake = tmp_path / "lake"
    arguments = ["audit", str(LOGS), "--engine", "spark", "--format", "json", "--save", str(lake)]
    assert main(arguments) == 3
    answer = json.loads(capsysbinary.readouterr().out)
    tables = {name: spark.read.parquet(str(lake / name)) for name in ("findings", "violations", "transactions")}
    assert tables["findings"].count() == len(answer["findings"]) > 0
    assert tables["violations"].count() == len(answer["violations"])
    written = tables["transactions"].collect()
    assert {tuple(row) for row in written} == {tuple(row) for row in transactions([str(LOGS)], spark).collect()}
    assert len(written) > 10
    assert main(arguments) == 1
    assert b"lake/findings exists: choose another place" in capsysbinary.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--save", "lake"], b"--save needs --engine spark"),
        (["--engine", "spark", "--save", "a", "--save-as-table", "b"], b"do not go together"),
        (["--engine", "spark", "--save-format", "delta"], b"--save-format needs --save or --save-as-table"),
    ],
)
def test_rejects_tables_without_a_place(arguments: list[str], expected: bytes, capsysbinary: Any) -> None:
    assert main(["audit", str(LOGS), *arguments]) == 2
    assert expected in capsysbinary.readouterr().err
