"""The lake on real tables of Delta and Iceberg: incremental, killed at the worst moments, by two runs at once.

These need a PySpark for which there are builds of both; `tools.broker.jars` fetches it. Each takes a
minute or more: by default one runs for each format, with `LAKE_FULL=1` all do.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire.records import Batch, read
from kafkawire.spark import lake
from kafkawire.spark.errors import SparkError
from kafkawire.spark.lake.lake_tables import Progress, lake_table
from tests.spark import stores
from tests.spark.lake_jobs import undecodable
from tools.broker import jars
from tools.broker.errors import BrokerUnavailableError
from tools.recordings.archive import unpacked

ROOT = Path(__file__).parents[2]
DATA = unpacked("read-committed")
STOPPED: dict[str, Any] = json.loads((DATA / "consumed.json").read_text("utf-8"))["stopped"]
#: Topic, partition, offset, key and value of what a read_committed consumer got.
CONSUMED = sorted([topic, 0, *record] for topic, found in STOPPED["records"].items() for record in found)

FULL = bool(os.environ.get("LAKE_FULL"))
#: Format, table, and whether through Spark Connect.
GROWING = [
    ("iceberg", "ice.db.records", False),
    *(
        [("delta", "{}/lake/delta", False), ("iceberg", "ice.db.records", True), ("delta", "{}/lake/delta", True)]
        if FULL
        else []
    ),
]
#: Format and moment: data files are written and nothing is committed ("data"), or all is committed ("commit").
KILLS = [("delta", "data"), *([("delta", "commit"), ("iceberg", "data"), ("iceberg", "commit")] if FULL else [])]
PATIENCE_S = 1800


@pytest.fixture(scope="module")
def needed() -> tuple[Path, Path]:
    """The folders of PySpark and of the jars."""
    try:
        return jars.lake_spark(), jars.lake_jars()
    except BrokerUnavailableError as error:
        pytest.skip(str(error))


def started(
    needed: tuple[Path, Path], job: str, folder: Path, arguments: dict[str, Any], **more: str
) -> subprocess.CompletedProcess[str]:
    spark, of_lake = needed
    paths = os.pathsep.join(map(str, (spark, ROOT)))
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.lake_jobs", job, str(of_lake), str(folder)],
        input=json.dumps(arguments),
        env={**os.environ, "PYTHONPATH": paths, **more},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def results(done: subprocess.CompletedProcess[str]) -> list[Any]:
    assert done.returncode == 0, done.stderr[-3000:]
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def copy_up_to(folder: Path, share: float) -> str:
    """The recorded log directory with lower high watermarks, and what it lacks: the checkpoint of compaction."""
    shutil.copytree(DATA / "stopped", folder)
    (folder / "cleaner-offset-checkpoint").write_text("0\n1\ncompacted 0 72\n")
    checkpoint = folder / "replication-offset-checkpoint"
    version, count, *lines = checkpoint.read_text().splitlines()
    lowered = [f"{place} {int(int(mark) * share)}" for place, mark in (line.rsplit(" ", 1) for line in lines)]
    checkpoint.write_text("\n".join([version, count, *lowered, ""]))
    return str(folder)


def check_repeated_and_concurrent(none: dict[str, Any], conflict: list[Any]) -> None:
    """A run with nothing new appends nothing; of two runs at once one appends."""
    assert none == {"run": None, "offsets": {}, "held": [], "unreadable": []}
    assert conflict[0].startswith("SparkError: ")
    assert conflict[0].endswith("nothing was appended: run again")
    assert conflict[1] == 1


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.deployment
@pytest.mark.parametrize(("name", "table", "remote"), GROWING)
def test_tables_grow_to_what_a_consumer_got(
    needed: tuple[Path, Path], tmp_path: Path, name: str, table: str, remote: bool
) -> None:
    table = table.format(tmp_path)
    more = {"LAKE_CONNECT": "1"} if remote else {}
    half, whole = copy_up_to(tmp_path / "half", 0.5), copy_up_to(tmp_path / "whole", 1)
    damaged = Path(copy_up_to(tmp_path / "damaged", 1))
    with max((damaged / "mixed-0").glob("*.log")).open("r+b") as file:
        file.seek(-5, os.SEEK_END)
        file.write(b"\xff\xff\xff")
    segment = max((damaged / "fenced-0").glob("*.log"))
    batches = [item for item in read(segment.read_bytes()) if isinstance(item, Batch)]
    undecoded = [item for item in batches if not item.is_control][1]  # of a committed transaction
    with segment.open("r+b") as file:
        file.seek(undecoded.position)
        file.write(undecodable(bytes(undecoded.data)))
    append = {"table": table, "format": name}
    steps: list[dict[str, Any]] = [
        {**append, "paths": [half]},
        {**append, "paths": [str(damaged)], "options": {"maxPartBytes": "1k", "subscribe": "mixed,fenced"}},
        {**append, "paths": [whole], "options": {"maxPartBytes": "1k"}},
        {**append, "paths": [whole]},
        {"rows": table, "format": name},
        {"conflict": f"{table}2", "format": name},
    ]
    with stores.bucket({"whole": Path(whole)}) as uri:
        steps[2]["paths"] = [uri("whole/")]
        first, stopped, second, none, rows, conflict = results(
            started(needed, "append", tmp_path, {"steps": steps}, **more)
        )
    (fenced, *place), mixed = stopped["held"]
    assert (fenced, mixed[:2]) == ("fenced", ["mixed", 0])
    assert place[:2] == [0, undecoded.base_offset]
    assert "bad_records" in place[2]
    assert "crc_mismatch" in mixed[3]
    ends = {f"{topic}-0": end for topic, end in STOPPED["last_stable_offset"].items()}
    assert first["offsets"] | stopped["offsets"] | second["offsets"] == ends
    assert [row[:5] for row in rows] == CONSUMED
    check_repeated_and_concurrent(none, conflict)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.deployment
@pytest.mark.parametrize(("name", "moment"), KILLS)
def test_a_killed_run_repeats_and_loses_nothing(
    needed: tuple[Path, Path], tmp_path: Path, name: str, moment: str
) -> None:
    table = tmp_path / "lake" / name
    half = copy_up_to(tmp_path / "half", 0.5)
    append = {"table": str(table), "format": name}
    whole = {**append, "paths": [copy_up_to(tmp_path / "whole", 1)]}
    steps = [{**append, "paths": [half]}, {**whole, "kill": moment}]
    killed = started(needed, "append", tmp_path, {"steps": steps}, LAKE_TABLE=str(table))
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-3000:]
    rows = {"rows": str(table), "format": name}
    steps = [rows, whole, rows, whole, {"conflict": f"{table}2", "format": name}]
    before, again, after, none, conflict = results(started(needed, "append", tmp_path, {"steps": steps}))
    assert (before == after) == (again["run"] is None) == (moment == "commit")
    assert len(before) < len(after) or moment == "commit"
    assert [row[:5] for row in after] == CONSUMED
    check_repeated_and_concurrent(none, conflict)


@pytest.mark.slow
@pytest.mark.deployment
def test_rows_are_built_on_the_oldest_pyspark(needed: tuple[Path, Path]) -> None:
    tests = [
        f"tests/spark/test_spark_{name}.py" for name in ("column_projection", "offset_options", "errors", "schema")
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not spark and not slow", *tests],
        env={**os.environ, "PYTHONPATH": str(needed[0])},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout[-3000:]


class NoSession:
    """Options and names are checked before a session is used."""


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"endingOffsets": "latest", "mode": "x"},
            "lake.append has no option endingoffsets, mode; the options are sub",
        ),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be latest in a batch"),
        ({"startingOffsets": '{"orders":{"0":-2}}'}, 'startingOffsets is {"orders":{"0":23}} here'),
        ({"highWatermark": "no"}, "highWatermark is true or false, not no"),
        ({"maxPartBytes": "1x"}, "maxPartBytes is a size such as"),
        ({"subscribe": "a", "assign": "{}"}, "only one of subscribe, assign can be given"),
    ],
)
def test_refuses_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        lake.append(NoSession(), ["x"], "t", format="delta", options=options)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


def test_refuses_other_formats() -> None:
    with pytest.raises(ValueError, match="format is delta or iceberg, not parquet"):
        lake_table(NoSession(), "t", "parquet")  # type: ignore[arg-type]


def test_progress_is_read_from_its_own_commits_only() -> None:
    ids, epochs = {"orders": {0: "a", 11: "a"}}, {"orders": {0: 3}}  # no epoch is known of partition 11
    progress = Progress("r", {"orders": {0: 23, 11: 5}}, "c", ids, epochs, "kafkawire-7", 2)
    assert Progress.read(progress.text()) == progress
    # Earlier versions wrote neither topic ids nor epochs.
    without = (
        '{"kafkawire.progress":{"run":"r","offsets":{"orders":{"0":23}},"cluster":"c","application":"","number":0}}'
    )
    assert Progress.read(without) == Progress("r", {"orders": {0: 23}}, "c")
    for other in (None, "", "nightly load", "{}", "[]", '{"owner": "me"}'):
        assert Progress.read(other) is None


@pytest.mark.parametrize("held", ['{"run": 3}', "null", "[]", '{"run": "r", "offsets": {"orders": {"0": "last"}}}'])
def test_progress_that_cannot_be_read_is_an_error_and_no_new_beginning(held: str) -> None:
    with pytest.raises(SparkError, match=r"kafkawire\.progress in the metadata of a commit cannot be read"):
        Progress.read(f'{{"kafkawire.progress": {held}}}')
