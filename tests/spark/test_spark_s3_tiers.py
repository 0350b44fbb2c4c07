"""A replica on this machine and its tier in S3, in both layouts: what consumers got, by CLI, in Python and on Spark."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from typer.testing import CliRunner

from kafkawire import logdir, transactions
from kafkawire.cli import app
from kafkawire.spark import audit, register
from tests.spark import stores
from tools.recordings.archive import unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LAYOUTS = {"local-tier": "tiered-storage/tier", "objects": "tier-objects/zstd", "secret": "tier-objects/encrypted-zstd"}
LEVELS = ("read_committed", "read_uncommitted")
#: Python reads each layout at each level; the others read with the same functions.
CASES = [*((layout, LEVELS[0]) for layout in LAYOUTS), ("objects", LEVELS[1])]
Uri = Callable[[str], str]
Rows = list[tuple[int, str, str]]


@pytest.fixture(scope="module")
def bucket() -> Iterator[Uri]:
    """A function from a path in the bucket to its URI; a tier in each layout is in it."""
    places = {name: path.partition("/") for name, path in LAYOUTS.items()}
    with stores.bucket({name: unpacked(archive) / folder for name, (archive, _, folder) in places.items()}) as uri:
        yield uri


def node() -> Path:
    return unpacked("tiered-storage") / "node-2"


def key() -> str:
    return str(unpacked("tier-objects") / "private.pem")


def consumed(level: str) -> Rows:
    found = json.loads((node().parent / "consumed.json").read_text("utf-8"))[level]
    return [(record["offset"], record["key"], record["value"]) for record in found]


@pytest.mark.parametrize(("layout", "level"), CASES)
def test_records_by_the_command_line(bucket: Uri, layout: str, level: str) -> None:
    options = ["--print-data-log", "--isolation-level", level, "--tier-key", key(), "--format", "jsonl"]
    result = CliRunner().invoke(app, ["dump", str(node()), bucket(layout), *options])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    records = [row for row in rows if row["kind"] == "record" and row["topic"] == "orders"]
    assert [(row["offset"], row["key"], row["value"]) for row in records] == consumed(level)
    assert {row["file"].split("/")[0] for row in records} >= {"s3:"}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_records_in_python(bucket: Uri, layout: str, level: Any) -> None:
    directory = logdir.open(str(node()), bucket(layout), tier_keys=[key()])
    (partition,) = (one for one in directory.partitions if one.topic == "orders" and not one.state)
    view = logdir.View(outcomes=logdir.outcomes_of(partition), isolation_level=level)
    options = logdir.Options(deep=True, payloads=True, view=view)
    rows = [row for file in partition.segments for row in logdir.rows_of(file, options) if row.kind == "record"]
    assert [(row.offset, row.key, row.value) for row in rows] == consumed(level)


@pytest.mark.parametrize(("layout", "level"), CASES)
def test_records_on_spark(spark: SparkSession, bucket: Uri, layout: str, level: str) -> None:
    register(spark)
    reader = spark.read.format("kafka_segment").option("paths", json.dumps([str(node()), bucket(layout)]))
    table = reader.options(subscribe="orders", isolationLevel=level, tierKeys=key(), format="kafka").load()
    rows = table.select("offset", "key", "value").orderBy("offset").collect()
    assert [(row.offset, row.key.decode(), row.value.decode()) for row in rows] == consumed(level)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_audit_on_spark(spark: SparkSession, bucket: Uri, layout: str) -> None:
    paths = [str(node()), bucket(layout)]
    local = transactions.audit(logdir.open(*paths, tier_keys=[key()]), paths=tuple(paths))
    assert audit(paths, spark=spark, tier_keys=[key()]) == local
    answers = {one.check: one.answer for one in local.answers if one.check.startswith("tier_")}
    assert set(answers.values()) == {"holds"}
    assert len(answers) == 4
