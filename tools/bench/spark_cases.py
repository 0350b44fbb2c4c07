"""The Spark side: column functions beside a Python UDF, a data source, and the audit beside the one without Spark.

The measure is the clock's time of a job in a session that runs already, its workers included: the work is shared by a
JVM and Python processes, so that no thread's CPU time covers it. Contestants take turns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kafkawire import logdir, records
from kafkawire.messages import TransactionLogValue
from tools.bench.measurement import BenchError
from tools.bench.results import Result
from tools.bench.sample_data import transaction_log_values, write_segment
from tools.bench.turns import Cost, all_absent, clocked, in_turn, timings

MESSAGES, HEADERS, COUNT, AUDIT = "spark/messages", "spark/headers", "spark/count", "spark/audit"
KEYS = (MESSAGES, HEADERS, COUNT, AUDIT)
FUNCTION, TABLE, UDF = "from_kafka_message", "message_table", "Python UDF"
SOURCE = "kafka_segment"
#: Ways to count records, and what a worker does with them without Spark.
BY_HEADERS, ONE_COLUMN, KAFKA_COLUMNS, ALL_COLUMNS = "headers", "columns=offset", "format=kafka", "all columns"
PARQUET = "Parquet"
LOCAL, SPARK, SPARK_ONE = "audit, no Spark", "audit on Spark, 2 cores", "audit on Spark, 1 core"

VALUES = 200_000
BATCHES = 500_000
RECORDS = 2_000_000
PLACES, TRANSACTIONS = 8, 240_000
#: Most rounds: each takes some seconds.
_ROUNDS = 7
_NOW = 1_700_000_000_000

Job = Callable[[], object]


def spark(rounds: int, wanted: Callable[[str], bool]) -> Iterator[Result]:
    """The cases whose keys are wanted; all absent where Spark cannot start."""
    try:
        from kafkawire.spark.errors import SparkError
        from kafkawire.spark.session.sessions import local_session

        with local_session("local[1]") as session:
            for key, case in ((MESSAGES, _messages), (HEADERS, _headers), (COUNT, _count)):
                if wanted(key):
                    yield case(session, min(rounds, _ROUNDS))
        if wanted(AUDIT):
            yield _audit(min(rounds, _ROUNDS))
    except ImportError as error:
        yield _result(MESSAGES, "messages", "value", 0, {}, absent=all_absent([FUNCTION], error))
    except SparkError as error:
        raise BenchError(f"spark: {error}") from error


# Cases ---------------------------------------------------------------------------------------------------------------


def _messages(session: Any, rounds: int) -> Result:
    from pyspark.sql import functions as F

    from kafkawire.spark import from_kafka_message, message_table
    from kafkawire.spark.functions.column_codec import spark_schema

    name, version = "TransactionLogValue", 1
    values = session.createDataFrame([(value,) for value in transaction_log_values(VALUES)], "value binary").cache()
    values.count()
    schema = spark_schema(TransactionLogValue.spec)

    def by_hand(data: bytes) -> Any:
        return _tuples(TransactionLogValue.decode(data, version=version), schema)

    jobs: dict[str, Callable[[], Any]] = {
        FUNCTION: lambda: values.select(from_kafka_message("value", name, version).alias("m")).select("m.*"),
        TABLE: lambda: message_table(values, "value", name, version),
        UDF: lambda: values.select(F.udf(by_hand, schema)("value").alias("m")).select("m.*"),
    }
    hashes = {which: job().groupBy().agg(F.bit_xor(F.xxhash64("*"))).collect() for which, job in jobs.items()}
    if len(set(map(str, hashes.values()))) != 1:
        raise BenchError(f"{MESSAGES}: different values: {hashes}")
    writers = {which: _writer(job) for which, job in jobs.items()}
    costs = _in_turn(writers, rounds)
    values.unpersist()
    return _result(MESSAGES, f"{VALUES:,} values of {name}, one core", "value", VALUES, costs)


def _tuples(value: Any, schema: Any) -> Any:
    """A message as Spark's rows have it."""
    fields = getattr(schema, "fields", None)
    if fields is not None:
        return tuple(_tuples(getattr(value, field.name), field.dataType) for field in fields)
    if value is not None and hasattr(schema, "elementType"):
        return [_tuples(one, schema.elementType) for one in value]
    return value


def _headers(session: Any, rounds: int) -> Result:
    from kafkawire.spark import register

    register(session)
    with tempfile.TemporaryDirectory() as folder:
        _write_small_batches(Path(folder))

        def read() -> Any:
            return session.read.format(SOURCE).option("rows", "headers").load(folder)

        if (found := read().count()) != BATCHES:
            raise BenchError(f"{HEADERS}: {found} of {BATCHES} batches")
        costs = _in_turn({SOURCE: _writer(read)}, rounds)
    return _result(HEADERS, f"{BATCHES:,} batches of some 150 bytes, one core", "batch", BATCHES, costs)


def _count(session: Any, rounds: int) -> Result:
    """The number of records, as Spark counts them of a segment and of the same table in Parquet."""
    from pyspark.sql import functions as F

    from kafkawire.spark import register

    register(session)
    with tempfile.TemporaryDirectory() as folder:
        logs, table = Path(folder, "logs"), str(Path(folder, "table"))
        logs.mkdir()
        _write_records(logs)

        def read(**options: str) -> Any:
            return session.read.format(SOURCE).options(**options).load(str(logs))

        read().write.parquet(table)
        counts: dict[str, Callable[[], Any]] = {
            PARQUET: lambda: session.read.parquet(table).count(),
            BY_HEADERS: lambda: read(rows="headers", columns="records").agg(F.sum("records")).first()[0],
            ONE_COLUMN: lambda: read(columns="offset").count(),
            KAFKA_COLUMNS: lambda: read(format="kafka").count(),
            ALL_COLUMNS: lambda: read().count(),
        }
        if wrong := {name: found for name, count in counts.items() if (found := count()) != RECORDS}:
            raise BenchError(f"{COUNT}: {wrong}, and not {RECORDS}")
        costs = _in_turn(counts, rounds)
    title = f"{RECORDS:,} records of some 80 bytes in lz4, counted on one core"
    return _result(COUNT, title, "record", RECORDS, costs)


def _audit(rounds: int) -> Result:
    """The same directories audited without Spark, and with it on one core and on two."""
    from kafkawire import spark as kafkawire_spark
    from kafkawire import transactions
    from kafkawire.spark.session.sessions import local_session

    with tempfile.TemporaryDirectory() as folder:
        batches = _write_transactions(Path(folder))

        def local() -> object:
            return transactions.audit(logdir.open(folder))

        expected = transactions.audit(logdir.open(folder), paths=(folder,))
        costs = _in_turn({LOCAL: local}, rounds)
        for name, master in ((SPARK_ONE, "local[1]"), (SPARK, "local[2]")):
            with local_session(master) as session:

                def on_spark(session: Any = session) -> object:
                    return kafkawire_spark.audit([folder], spark=session)

                if on_spark() != expected:
                    raise BenchError(f"{AUDIT}: {name} finds something else")
                costs |= _in_turn({name: on_spark}, rounds)
    return _result(AUDIT, f"{batches:,} batches of transactions in {PLACES} partitions", "batch", batches, costs)


# What is read --------------------------------------------------------------------------------------------------------


def _write_small_batches(root: Path) -> None:
    """One segment of batches of one record."""
    batch = records.build([records.Record(b"key", bytes(70), timestamp=_NOW)])
    write_segment(_segment(root, "small", 0), batch, BATCHES)


def _write_records(root: Path) -> None:
    """One segment of batches of 500 records."""
    with _segment(root, "records", 0).open("wb") as file:
        for base in range(0, RECORDS, 500):
            numbers = range(base, base + 500)
            made = [
                records.Record(b"key-%d" % (one % 100), b"%070d" % (one * one), timestamp=_NOW + one) for one in numbers
            ]
            file.write(records.build(made, base_offset=base, codec="lz4", partition_leader_epoch=0))


def _write_transactions(root: Path) -> int:
    """Partitions of transactions of two batches and a marker each, the last one open; how many batches."""
    producers = 50
    written = 0
    for place in range(PLACES):
        with _segment(root, "orders", place).open("wb") as file:
            offset = 0
            sequences = dict.fromkeys(range(producers), 0)
            for number in range(TRANSACTIONS // PLACES):
                producer = number % producers
                for _ in range(2):
                    batch = records.build(
                        [records.Record(b"key", b"value", timestamp=_NOW + number)],
                        base_offset=offset,
                        producer_id=1000 * place + producer,
                        producer_epoch=0,
                        base_sequence=sequences[producer],
                        transactional=True,
                    )
                    file.write(batch)
                    sequences[producer] += 1
                    offset += 1
                    written += 1
                if number + 1 < TRANSACTIONS // PLACES:
                    file.write(
                        records.build_marker(
                            "COMMIT" if number % 3 else "ABORT",
                            producer_id=1000 * place + producer,
                            producer_epoch=0,
                            coordinator_epoch=0,
                            offset=offset,
                            timestamp=_NOW + number,
                        )
                    )
                    offset += 1
                    written += 1
    return written


def _segment(root: Path, topic: str, partition: int) -> Path:
    folder = root / f"{topic}-{partition}"
    folder.mkdir()
    return folder / f"{0:020}.log"


# Measuring -----------------------------------------------------------------------------------------------------------


def _writer(frame: Callable[[], Any]) -> Job:
    """A job that makes every row and keeps none."""
    return lambda: frame().write.format("noop").mode("overwrite").save()


def _in_turn(jobs: Mapping[str, Job], rounds: int) -> dict[str, list[Cost]]:
    """The first turn fills caches, and has the JVM compile."""
    return in_turn({name: clocked(job) for name, job in jobs.items()}, rounds)[0]


def _result(key: str, title: str, unit: str, items: int, costs: Mapping[str, list[Cost]], **more: Any) -> Result:
    ours = costs.keys() - {PARQUET, UDF}
    made = timings(costs, ours)
    return Result(key=key, table="spark", title=title, unit=unit, items=items, size=0, timings=made, **more)
