"""`witness` and `compare` on Spark: the rows of one machine."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from kafkawire.cli import main
from tools.recordings.archive import ROOT, unpacked

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SHIPPED = ("--captures", str(ROOT / "docs/witness/clients.pcap"), "--logs", str(ROOT / "docs/witness/broker-1"))
SPARK = ("--engine", "spark")


@pytest.fixture
def answered(spark: SparkSession, capsysbinary: Any) -> Any:
    """Runs a command: its exit code, its rows, and what it says of what is missing."""

    def run(*arguments: str) -> tuple[int, list[Any], bytes]:
        code = main([*arguments, "--format", "jsonl"])
        out, err = capsysbinary.readouterr()
        return code, [json.loads(line) for line in out.splitlines()], err

    return run


def in_order(rows: list[Any]) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def test_the_shipped_example(answered: Any) -> None:
    code, expected, _ = answered("witness", *SHIPPED)
    assert code == 3
    found = answered("witness", *SHIPPED, *SPARK)
    assert found[0] == code
    assert in_order(found[1]) == in_order(expected)


def test_two_captures_of_one_cluster(answered: Any, tmp_path: Path) -> None:
    """Each is read by a task; groups and transactions are of both, and numbers of files are those of all."""
    folder = unpacked("group-deliveries") / "sound-4.4.0"
    second = shutil.copy(folder / "clients.pcapng", tmp_path / "second.pcapng")
    arguments = ("witness", "--captures", str(folder / "clients.pcapng"), "--captures", str(second))
    arguments = (*arguments, "--logs", str(folder / "node-1"))
    code, expected, _ = answered(*arguments)
    found = answered(*arguments, *SPARK)
    assert found[0] == code
    assert in_order(found[1]) == in_order(expected)


def test_a_capture_that_cannot_be_read_is_named(answered: Any, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pcap"
    damaged.write_bytes(b"no capture")
    code, _, err = answered("witness", *SHIPPED, "--captures", str(damaged), *SPARK)
    assert code == answered("witness", *SHIPPED, "--captures", str(damaged))[0] == 5
    assert b"damaged.pcap" in err


@pytest.mark.parametrize("number", range(3))
def test_copies(answered: Any, number: int) -> None:
    every, groups = unpacked("every-offset"), unpacked("group-deliveries")
    mirror = str(groups / "mirror" / "stopped")
    arguments = [
        (str(every / "old-leader"), str(every / "rejoined")),
        (mirror, mirror, "--prefix", "source.", "--by", "order", "--topic", "events"),
        (mirror, str(groups / "lake")),
    ][number]
    expected = answered("compare", *arguments)
    found = answered("compare", *arguments, *SPARK)
    assert found == expected


def test_batches_are_shuffled_of_ranges_that_differ(spark: SparkSession, answered: Any, tmp_path: Path) -> None:
    """Of equal copies digests are, 40 bytes for each range; a batch takes more."""
    from tools.bench.compare_shuffle import shuffled, write_copies

    first, equal, changed = write_copies(tmp_path, 4)
    assert answered("compare", str(first), str(changed), *SPARK) == answered("compare", str(first), str(changed))
    bytes_of_equal, of_a = shuffled(spark, first, equal)
    assert of_a == {"same": 4096}
    assert bytes_of_equal < 4096
    bytes_of_changed, of_a = shuffled(spark, first, changed)
    assert of_a == {"same": 3072, "changed": 1024}
    assert bytes_of_equal + 2 * 1024 < bytes_of_changed < 100 * 1024


def test_stages_that_spark_forgets_meanwhile_are_no_bytes_less(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from tools.bench import compare_shuffle

    listed = iter([{(1, 0): 500, (2, 0): 10}, {(2, 0): 10, (3, 0): 7, (4, 0): 5}])
    answer = [SimpleNamespace(of_a={"same": 1})], None, None
    monkeypatch.setattr(compare_shuffle, "_written", lambda session: next(listed))
    monkeypatch.setattr(compare_shuffle, "compare", lambda *paths, **options: answer)
    session: Any = None
    assert compare_shuffle.shuffled(session, tmp_path, tmp_path) == (12, {"same": 1})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("witness", *SHIPPED, "--master", "local[1]"), b"--master needs --engine spark"),
        (("witness", *SHIPPED[:2], "--bootstrap-server", "b:1", *SPARK), b"--bootstrap-server needs --engine local"),
        (("compare", "a", "b", "--conf", "spark.x=1"), b"--conf needs --engine spark"),
    ],
)
def test_options_of_the_other_engine(answered: Any, arguments: tuple[str, ...], words: bytes) -> None:
    code, _, err = answered(*arguments)
    assert code == 2
    assert words in b" ".join(err.split())


def test_the_measurement_joins_what_it_generates(spark: SparkSession) -> None:
    from tools.bench.witness_scale import measured

    found = measured(spark, 3, 1000)
    assert found.batches == 3000
    assert found.seconds > 0
    assert found.worker_mb > 0
