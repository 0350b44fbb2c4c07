"""Options of the data sources: names in any case, values that are checked, paths."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.types import StructType

from kafkawire.spark.capture_source import KafkaPcap
from kafkawire.spark.index_source import KafkaIndex
from kafkawire.spark.segment_source import KafkaSegment
from kafkawire.spark.sources import source_base
from kafkawire.spark.sources.source_base import SourceOptions, StrictSource

ROOT = Path(__file__).parents[2]


def test_names_and_choices_are_case_insensitive() -> None:
    options = SourceOptions({"ROWS": "Headers", "Mode": "failfast"})
    assert options.choice("rows", ("records", "headers")) == "headers"
    assert options.fail_fast


def test_defaults() -> None:
    options = SourceOptions({})
    assert options.choice("rows", ("records", "headers")) == "records"
    assert options.several("kinds", ("a", "b")) == ("a", "b")
    assert options.number("settleSeconds", 10, least=0) == 10
    assert not options.fail_fast


def test_several_come_in_the_sources_order() -> None:
    assert SourceOptions({"kinds": "c, A"}).several("kinds", ("a", "b", "c")) == ("a", "c")


@pytest.mark.parametrize(("text", "least", "number"), [("7", 1, 7), ("0", 0, 0)])
def test_numbers(text: str, least: int, number: int) -> None:
    assert SourceOptions({"n": text}).number("n", 3, least=least) == number


@pytest.mark.parametrize(
    ("text", "size"),
    [("64m", 64 << 20), ("1G", 1 << 30), (" 512 kb", 512 << 10), ("7", 7), ("9b", 9), ("2t", 2 << 40), ("1p", 1 << 50)],
)
def test_sizes_have_units(text: str, size: int) -> None:
    assert SourceOptions({"maxPartBytes": text}).size("maxPartBytes", 3) == size


@pytest.mark.parametrize("text", ["", "m", "0", "0k", "-1", "1.5m", "64 mib", "64x", "1e9", "9" * 30, "9999999p"])
def test_rejects_what_is_not_a_size(text: str) -> None:
    with pytest.raises(ValueError, match="n is a size such as 1000000, 512k, 64m or 1g, not"):
        SourceOptions({"n": text}).size("n", 3)


def test_lists_of_texts_and_numbers() -> None:
    options = SourceOptions({"api": "Produce, Fetch,", "connection": "3, 17"})
    assert options.texts("api") == ("Produce", "Fetch")
    assert options.numbers("CONNECTION") == (3, 17)
    assert options.texts("none") == options.numbers("none") == ()
    with pytest.raises(ValueError, match="api are whole numbers with commas between, not Produce"):
        options.numbers("api")


@pytest.mark.parametrize(
    ("source", "given", "expected"),
    [
        (KafkaSegment, {"rowz": "x"}, "kafka_segment has no option rowz; the options are assign, "),
        (
            KafkaPcap,
            {"Body": "true", "bodi": "x", "highWatermark": "x"},
            "kafka_pcap has no option bodi, highWatermark;",
        ),
        (KafkaIndex, {"rows": "x"}, "kafka_index has no option rows; the options are columns, kinds, mode"),
    ],
)
def test_sources_refuse_unknown_options(source: type[StrictSource], given: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        source({**given, "path": "x"})


def test_batches_and_streams_refuse_options_of_each_other() -> None:
    with pytest.raises(ValueError, match="a batch of kafka_pcap has no option settleSeconds; the options are api, "):
        KafkaPcap({"settleSeconds": "1"}).reader(StructType())
    with pytest.raises(ValueError, match="a stream of kafka_segment has no option endingOffsets; the options are "):
        KafkaSegment({"endingOffsets": "latest"}).streamReader(StructType())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"mode": "LAX"}, "mode is PERMISSIVE or FAILFAST, not LAX"),
        ({"rows": "bytes"}, "rows is records, batches or headers, not bytes"),
        ({"body": "yes"}, "body is false or true, not yes"),
        ({"kinds": "a,x,y"}, "kinds are some of a, b, not x, y"),
        ({"n": "0"}, "n is a positive number, not 0"),
        ({"n": "-1"}, "n is a positive number, not -1"),
        ({"n": "\u0663"}, "n is a positive number, not \u0663"),
    ],
)
def test_rejects_invalid_values(given: dict[str, str], expected: str) -> None:
    with pytest.raises(ValueError) as caught:
        read_all(given)
    assert str(caught.value) == expected


def read_all(given: dict[str, str]) -> None:
    options = SourceOptions(given)
    options.choice("rows", ("records", "batches", "headers"))
    options.flag("body")
    options.several("kinds", ("a", "b"))
    options.number("n", 1)


def test_paths(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).touch()
    (tmp_path / "x[1]").touch()
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert SourceOptions({"path": str(tmp_path / "[ab]")}).paths == both
    assert (
        SourceOptions({"path": f"file:{tmp_path}/a"}).paths
        == SourceOptions({"path": f"file://{tmp_path}/a"}).paths
        == both[:1]
    )
    assert SourceOptions({"path": str(tmp_path / "{b,a,c}")}).paths == both[::-1]
    assert SourceOptions({"path": f"{tmp_path.parent}/{{{tmp_path.name},{{x,y}}}}/[a-b]"}).paths == both
    assert SourceOptions({"paths": json.dumps([*both, "s3://logs/a"])}).paths == [*both, "s3://logs/a"]
    assert SourceOptions({"path": str(tmp_path / "x[1]")}).paths == [str(tmp_path / "x[1]")]
    with pytest.raises(ValueError, match="no path is given"):
        _ = SourceOptions({}).paths
    for pattern in ("n*", "{n,m}", "[0-9]"):
        with pytest.raises(FileNotFoundError, match="nothing matches"):
            _ = SourceOptions({"path": str(tmp_path / pattern)}).paths
    for source in (KafkaSegment, KafkaPcap, KafkaIndex):
        with pytest.raises(FileNotFoundError, match=r"the path does not exist: '.*none'"):
            source({"path": str(tmp_path / "none")}).schema()


def test_paths_as_spark_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for given, expected in (
        ("s3a://bucket/logs?region=x", "s3://bucket/logs?region=x"),
        ("gs://bucket/logs", "gs://bucket/logs"),
        ("abfss://box@account.dfs.core.windows.net/logs", "abfss://box@account.dfs.core.windows.net/logs"),
        ("hdfs://name:8020/logs", "hdfs://name:8020/logs"),
    ):
        assert SourceOptions({"path": given}).paths == [expected]
    monkeypatch.setattr("os.path.lexists", lambda path: True)
    assert SourceOptions({"path": "dbfs:/logs/a"}).paths == ["/dbfs/logs/a"]
    assert SourceOptions({"path": "dbfs:/Volumes/main/default/logs"}).paths == ["/Volumes/main/default/logs"]


def test_other_stores_and_missing_uris_are_errors_of_load(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"wasbs:// is no store that kafkawire reads; there are s3://, gs://, abfss://"
    ):
        KafkaSegment({"path": "wasbs://box@account/logs"}).schema()
    missing = (tmp_path / "none").as_uri().replace("file:///", "file://localhost/")
    with pytest.raises(OSError, match="none"):
        KafkaSegment({"path": missing}).schema()


def test_secrets_of_a_uri_are_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_base, "matching", lambda uri: iter(()))
    for uri in ("s3://me:SECRETKEY@bucket/[0-9]", "s3a://me:SECRETKEY@bucket/{a,b}", "s3://me:SECRET/KEY@bucket/*"):
        with pytest.raises(FileNotFoundError, match="nothing matches: 's3://bucket/") as caught:
            _ = SourceOptions({"path": uri}).paths
        assert "KEY" not in str(caught.value)


def test_globs_in_uris(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def matching(uri: str) -> list[str]:
        asked.append(uri)
        return [uri.partition("?")[0].replace("*", "1")]

    monkeypatch.setattr(source_base, "matching", matching)
    found = SourceOptions({"path": "s3://logs/{a,b}-*?region=x"}).paths
    assert found == ["s3://logs/a-1?region=x", "s3://logs/b-1?region=x"]
    assert asked == ["s3://logs/a-*?region=x", "s3://logs/b-*?region=x"]


@pytest.mark.slow
def test_spark_registers_a_source_of_a_module_as_documented(tmp_path: Path) -> None:
    documented = re.search(
        r"file\n`(pyspark_\w+\.py)`.*\n`(from .* as DefaultSource)`", (ROOT / "docs/spark.md").read_text()
    )
    assert documented
    (tmp_path / documented[1]).write_text(f"{documented[2]}\n")
    lookup = (
        "import io; from pyspark.sql.worker.lookup_data_sources import _main; out = io.BytesIO(); _main(None, out);"
        "print(out.getvalue()[8:21])"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", lookup], capture_output=True, text=True, env=environment)
    assert (done.stdout, done.stderr) == (f"{b'kafka_segment'!r}\n", "")


READ = """
import gc, sys
from kafkawire.spark.segment_source import KafkaSegment
source = KafkaSegment({"path": sys.argv[1], "format": "kafka"})
reader = source.reader(source.schema())
rows = sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))
print(rows, gc.get_freeze_count(), *sys.modules)
"""


@pytest.fixture(scope="module")
def read_task() -> list[str]:
    """What a process printed that read all columns of a directory: rows, exempt objects, imported modules."""
    logs = ROOT / "examples" / "kafka-logs" / "one-node"
    done = subprocess.run([sys.executable, "-c", READ, str(logs)], capture_output=True, text=True, timeout=120)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.slow
def test_a_read_task_exempts_imported_modules_from_collection(read_task: list[str]) -> None:
    rows, exempt = map(int, read_task[:2])
    assert rows > 0
    assert exempt > 10_000


@pytest.mark.slow
def test_a_read_task_imports_neither_pandas_nor_the_audit(read_task: list[str]) -> None:
    """Each Python process of Spark imports what it runs: the audit's modules and pandas would double its start."""
    imported = set(read_task[2:])
    assert "kafkawire.spark.sources.segment_reader" in imported
    assert "pandas" not in imported
    assert not [name for name in imported if name.startswith(("kafkawire.spark.auditing.", "kafkawire.offsets."))]
