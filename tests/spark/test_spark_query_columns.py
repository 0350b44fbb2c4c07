"""Queries read the columns that they use."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

import crc32c
import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.records import Header, Record, build, build_marker
from kafkawire.spark import register
from kafkawire.spark.session import query_columns
from kafkawire.spark.sources.filter_pushdown import SETTING as FILTERS
from kafkawire.spark.sources.segment_reader import TRANSACTION, SegmentReader
from kafkawire.spark.sources.source_base import SourceOptions

pytestmark = pytest.mark.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SETTING = "spark.kafkawire.queryColumns"


def malformed(data: bytes, place: int, bits: int) -> bytes:
    """A batch with other bits in a byte, and the checksum of what it is then."""
    changed = bytearray(data)
    changed[place] ^= bits
    changed[17:21] = crc32c.crc32c(changed[21:]).to_bytes(4, "big")
    return bytes(changed)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two topics: records, transactions, markers, and damage of all kinds that become rows."""
    root = tmp_path_factory.mktemp("columns") / "logs"
    ids: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1}
    marker: dict[str, Any] = {**ids, "timestamp": 9000, "coordinator_epoch": 4}
    headed = [Record(b"k%d" % one, b"v" * one, timestamp=1000 + one, headers=(Header("h", b"x"),)) for one in range(9)]
    parts = [
        build(headed, base_offset=0, codec="lz4"),
        build([Record(b"t", None, timestamp=2000)] * 2, base_offset=9, transactional=True, base_sequence=0, **ids),
        build_marker("COMMIT", offset=11, **marker),
        malformed(
            build([Record(b"\x00", b"", timestamp=3000)], base_offset=12, **ids), 22, 0x20
        ),  # a marker of two bytes
        malformed(
            build([Record(b"a", b"1", timestamp=4000), Record(b"b", b"2", timestamp=4000)], base_offset=13), -3, 0x7D
        ),
        b"\xff" * 80,
        malformed(
            malformed(build([Record(b"\x00\x00\x00\x01", b"1", timestamp=4500)], base_offset=15), 22, 0x20), -3, 0x7D
        ),
        build([Record(None, b"last", timestamp=5000)], base_offset=16),
        build([Record(b"o", b"open", timestamp=6000)], base_offset=17, transactional=True, base_sequence=2, **ids),
    ]
    for topic in ("orders", "payments"):
        (root / f"{topic}-0").mkdir(parents=True)
        (root / f"{topic}-0" / f"{0:020}.log").write_bytes(b"".join(parts))
    (root / "replication-offset-checkpoint").write_text("0\n1\norders 0 one\n")
    return str(root)


@pytest.mark.parametrize("options", [
    {}, {"rows": "batches"}, {"rows": "headers"}, {"format": "kafka", "mode": "PERMISSIVE"},
    {"isolationLevel": "read_committed"}, {"isolationLevel": "read_uncommitted"},
    {"startingOffsets": '{"orders":{"0":3},"payments":{"0":40}}'}, {"maxPartBytes": "100"},
])  # fmt: skip
def test_the_rows_do_not_depend_on_the_columns(logs: str, options: dict[str, str]) -> None:
    """The optimizer's rule rests on it."""
    asked = SourceOptions({"path": logs, **options})
    table = SegmentReader.table(asked)
    table = table.remove(table.get_field_index(TRANSACTION))

    def read(*names: str) -> list[dict[str, Any]]:
        schema: Any = from_arrow_schema(pa.schema([table.field(name) for name in names or table.names]))
        reader = SegmentReader(schema, asked)
        return [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]

    whole = read()
    assert len(whole) > 10
    assert {row["topic"] for row in whole} - {None} == {"orders", "payments"}
    for name in table.names:
        assert Counter(str(row[name]) for row in read(name)) == Counter(str(row[name]) for row in whole), name


@pytest.fixture
def session(spark: SparkSession) -> Iterator[SparkSession]:
    register(spark)
    yield spark
    for setting in (SETTING, FILTERS):
        spark.conf.unset(setting)


def read(session: SparkSession, logs: str, **options: str) -> DataFrame:
    return session.read.format("kafka_segment").options(**options).load(logs)


def columns_of(table: DataFrame) -> list[list[str]]:
    """The columns of each scan of a query's plan."""
    leaves = table._jdf.queryExecution().optimizedPlan().collectLeaves()
    found = [leaves.apply(place) for place in range(leaves.size())]
    return [[leaf.output().apply(place).name() for place in range(leaf.output().size())] for leaf in found]


def test_scans_have_the_columns_that_are_used(session: SparkSession, logs: str) -> None:
    table = read(session, logs)
    assert columns_of(table) == [table.columns]
    assert columns_of(table.select("value", "offset")) == [["offset", "value"]]
    assert columns_of(table.where("topic = 'orders' AND offset > 3").select("key")) == [["topic", "offset", "key"]]
    assert columns_of(table.groupBy("topic").agg(F.max("offset"))) == [["topic", "offset"]]
    assert columns_of(table.select(F.size("headers"))) == [["headers"]]
    assert columns_of(table.groupBy().count()) == [["transactional"]]  # the smallest
    assert columns_of(table.where("offset > 3")) == [table.columns]
    joined = table.alias("a").join(table.alias("b"), "offset").select("a.key", "b.value")
    assert columns_of(joined) == [["offset", "key"], ["offset", "value"]]


def test_a_schema_and_the_option_columns_are_narrowed(session: SparkSession, logs: str) -> None:
    typed = session.read.format("kafka_segment").schema("TIMESTAMP timestamp, value string, Offset int").load(logs)
    assert columns_of(typed.select("value")) == [["value"]]
    assert sorted(row.value or "" for row in typed.select("value").collect()) == sorted(
        row.value or "" for row in typed.collect()
    )
    # What is open or unknown has rows of its own where this column is there.
    states = read(session, logs, columns="offset,transaction,value")
    assert columns_of(states.select("value")) == [["transaction", "value"]]
    assert states.count() == len(states.collect())


QUERIES: dict[str, Callable[[DataFrame], DataFrame]] = {
    "all": lambda table: table,
    "count": lambda table: table.groupBy().count(),
    "count of a column": lambda table: table.select(F.count("value"), F.count("error")),
    "filter": lambda table: table.where("offset BETWEEN 2 AND 12 AND control IS NULL").select("key", "timestamp"),
    "filter on an error": lambda table: table.where("error IS NOT NULL").select("position"),
    "distinct": lambda table: table.select("topic", "producer_id").distinct(),
    "explode": lambda table: table.select("offset", F.explode("headers").alias("h")).select("h.key", "offset"),
    "join": lambda table: (
        table.alias("a").join(table.alias("b"), ["topic", "offset"], "left").select("a.key", "b.value")
    ),
    "union": lambda table: table.where("offset < 3").select("key").union(table.where("offset > 9").select("value")),
    "union of all": lambda table: table.where("offset < 3").union(table.where("offset > 9")).select("value"),
    "subquery": lambda table: (
        table.where(F.col("offset").isin([1, 2])).select("topic").intersect(table.select("topic"))
    ),
    "window": lambda table: table.selectExpr(
        "lag(offset) OVER (PARTITION BY topic ORDER BY position, offset) AS before"
    ),
    "udf": lambda table: table.select(F.udf(lambda key: key and key.hex())("key").alias("hex"), "partition"),
    "sort and limit": lambda table: table.orderBy("topic", "position", "offset").select("value").limit(5),
    "exists": lambda table: table.alias("a").join(table.select("producer_id").alias("b"), "producer_id", "left_semi"),
}


@pytest.mark.parametrize("pushed", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_answers_are_those_of_all_columns(session: SparkSession, logs: str, *, pushed: bool) -> None:
    register(session, push_filters=pushed)
    for name, query in QUERIES.items():
        found = []
        for setting in ("true", "false"):
            if pushed and setting == "false" and "union" in name:
                continue  # Spark mixes up the filters of a table that a query reads twice
            session.conf.set(SETTING, setting)
            made = query(read(session, logs))
            found.append(Counter(map(str, made.collect())))
            assert setting == "false" or sum(found[-1].values()) == made.count(), name
        assert found[0] == found[-1], name
        assert found[0], name


def test_a_table_is_planned_once_for_its_columns(session: SparkSession, tmp_path: Path) -> None:
    """As Spark plans a table once: a second query of the same columns lists nothing."""
    folder = tmp_path / "orders-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(build([Record(b"k", b"v")]))
    table = read(session, str(tmp_path))
    assert (table.count(), table.count()) == (1, 1)
    (folder / f"{1:020}.log").write_bytes(build([Record(b"k", b"v")], base_offset=1))
    assert table.count() == 1
    assert read(session, str(tmp_path)).count() == 2


def test_the_rule_is_there_once(session: SparkSession) -> None:
    register(session)
    classic: Any = session._jsparkSession
    rules = classic.extensions().buildOptimizerRules(classic)
    names = [rules.apply(place).getClass().getName() for place in range(rules.size())]
    assert names.count("QueryColumns") == 1


def test_a_setting_that_is_neither_true_nor_false_is_refused(session: SparkSession, logs: str) -> None:
    name, table = "spark.kafkawire.queryColumns", read(session, logs)
    try:
        session.conf.set(name, "FALSE")
        assert columns_of(table.select("value")) == [table.columns]
        session.conf.set(name, "off")
        with pytest.raises(Exception, match=f"{name} is neither true nor false: off"):
            table.select("value").collect()
    finally:
        session.conf.unset(name)


def test_an_optimizer_that_takes_no_rule(session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise Py4JError("Constructor is not whitelisted")

    monkeypatch.setattr(query_columns, "_inject", refused)
    with pytest.warns(RuntimeWarning, match="read all columns of kafka_segment, .*: Constructor is not whitelisted"):
        register(session)


def test_a_session_without_an_optimizer_of_its_own() -> None:
    with warnings.catch_warnings(action="error"):
        query_columns.use_query_columns(object(), "kafka_segment", always=TRANSACTION)  # type: ignore[arg-type]
