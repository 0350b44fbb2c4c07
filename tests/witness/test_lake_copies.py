"""A topic and a lake table of it: what of each is in the other."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkawire import logdir
from kafkawire.records import Record
from kafkawire.rows import ComparedPartition, CopyDifference
from kafkawire.witness import CopyComparison
from kafkawire.witness.lake_copies import LakeTable, LakeTableError, kind_of, newest_metadata
from tests.audit_logs import LogDirectory
from tools.recordings.archive import unpacked


def logs(root: Path) -> logdir.LogDirectory:
    """Offsets 0 to 3 are records, 4 and 5 of an aborted transaction, 6 its marker, 7 to 9 records."""
    made = LogDirectory(root, ids=1)
    log = made.partition("t")
    for number in range(4):
        log.records([Record(b"k", b"%d" % number)])
    log.data(1000, records=2)
    log.marker("ABORT", 1000)
    for number in range(7, 10):
        log.records([Record(b"k", b"%d" % number)])
    made.high_watermark("t", 0, log.end)
    return logdir.open(made.write())


def table(path: Path, offsets: list[int], *, value: dict[int, bytes] | None = None, content: bool = True) -> Path:
    columns = {"topic": ["t"] * len(offsets), "partition": [0] * len(offsets), "offset": offsets}
    if content:
        values = [(value or {}).get(offset, b"%d" % offset) for offset in offsets]
        columns |= {"key": [b"k"] * len(offsets), "value": values}  # type: ignore[dict-item]
    pq.write_table(pa.table(columns), path)
    return path


def compared(tmp_path: Path, table_path: Path) -> tuple[ComparedPartition, list[CopyDifference], CopyComparison]:
    comparison = CopyComparison(logs(tmp_path / "logs"), LakeTable(str(table_path)))
    row, *others = comparison.rows()
    assert isinstance(row, ComparedPartition)
    assert (row.in_a, row.in_b) == (sum(row.of_a.values()), sum(row.of_b.values()))
    return row, [other for other in others if isinstance(other, CopyDifference)], comparison


@pytest.mark.parametrize("content", [True, False])
def test_a_table_that_has_each_record_once(tmp_path: Path, content: bool) -> None:
    row, differences, comparison = compared(
        tmp_path, table(tmp_path / "t.parquet", [7, 8, 9, 0, 1, 2, 3], content=content)
    )
    assert (row.of_a, row.of_b, row.by) == ({"same": 7}, {"same": 7}, "offsets")
    assert (differences, comparison.found, comparison.incomplete) == ([], 0, [])


def test_records_that_are_lost_repeated_changed_and_aborted(tmp_path: Path) -> None:
    offsets = [0, 2, 3, 3, 4, 7, 8, 15]
    row, differences, comparison = compared(tmp_path, table(tmp_path / "t.parquet", offsets, value={7: b"other"}))
    assert row.of_a == {"same": 4, "lost": 2, "changed": 1}
    assert row.of_b == {"same": 4, "repeated": 1, "extra": 1, "changed": 1, "uncommitted": 1}
    found = {(one.side, one.difference, one.first_offset) for one in differences}
    assert {("a", "lost", 1), ("b", "repeated", 3), ("b", "extra", 4), ("b", "changed", 7)} <= found
    assert comparison.found == 6


def test_a_table_that_ends_before_the_topic(tmp_path: Path) -> None:
    row, _, comparison = compared(tmp_path, table(tmp_path / "t.parquet", [0, 1, 2]))
    assert (row.of_a, comparison.found) == ({"same": 3, "behind": 4}, 0)


def test_a_folder_of_files_with_partitions(tmp_path: Path) -> None:
    folder = tmp_path / "table" / "day=1"
    folder.mkdir(parents=True)
    table(folder / "a.parquet", [0, 1, 2, 3])
    table(folder / "b.parquet", [7, 8, 9])
    row, _, _ = compared(tmp_path, tmp_path / "table")
    assert row.of_a == {"same": 7}


def test_other_columns_and_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"kafka_topic": ["t"], "kafka_partition": [0], "kafka_offset": [0]}), path)
    named = LakeTable(str(path), ("kafka_topic", "kafka_partition", "kafka_offset"))
    assert named.places() == {("t", 0)}
    with pytest.raises(LakeTableError, match="no column topic, partition, offset; it has kafka_topic"):
        LakeTable(str(path))
    path.write_bytes(b"PAR1 no more")
    with pytest.raises((LakeTableError, OSError)):
        LakeTable(str(path))
    pq.write_table(pa.table({"topic": ["t"], "partition": [0], "offset": pa.array([None], pa.int64())}), path)
    with pytest.raises(LakeTableError, match="without an offset"):
        LakeTable(str(path)).rows(("t", 0))


def test_tables_whose_library_is_missing(tmp_path: Path) -> None:
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    (tmp_path / "iceberg" / "metadata").mkdir(parents=True)
    (tmp_path / "iceberg" / "metadata" / "v1.metadata.json").write_text("{}")
    for kind, package in (("delta", "deltalake"), ("iceberg", "pyiceberg")):
        assert kind_of(str(tmp_path / kind)) == kind
        try:
            __import__(package)
        except ImportError:
            with pytest.raises(LakeTableError, match=f"pip install {package}"):
                LakeTable(str(tmp_path / kind))
    assert kind_of(str(tmp_path)) is None


def test_the_newest_metadata_of_an_iceberg_table() -> None:
    names = ["00002-b.metadata.json", "00010-a.metadata.json", "00009-c.metadata.json"]
    assert newest_metadata(map(Path, names)).name == "00010-a.metadata.json"
    assert newest_metadata([Path("v9.metadata.json"), Path("v10.metadata.json")]).name == "v10.metadata.json"
    with pytest.raises(LakeTableError, match="no version"):
        newest_metadata([Path("x.metadata.json")])


@pytest.mark.slow
def test_a_job_that_was_killed_wrote_a_file_twice() -> None:
    folder = unpacked("group-deliveries")
    planted = json.loads((folder / "truth.json").read_text())["lake"]
    comparison = CopyComparison(logdir.open(folder / "mirror" / "stopped"), LakeTable(str(folder / "lake")))
    row, *others = comparison.rows()
    assert isinstance(row, ComparedPartition)
    assert row.of_a == {"same": planted["records"]}
    assert row.of_b == {"same": planted["records"], "repeated": planted["twice"]}
    (found,) = others
    assert isinstance(found, CopyDifference)
    assert (found.side, found.difference, found.first_offset, found.number) == ("b", "repeated", 40, planted["twice"])
