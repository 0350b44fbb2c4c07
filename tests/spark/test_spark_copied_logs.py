"""Which log a directory is a replica of, and which replica is read."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire import logdir
from kafkawire.records import Record, build
from kafkawire.spark.listing.copied_logs import logs_of
from kafkawire.spark.sources.segment_columns import RECORDS
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.source_base import SourceOptions

pytestmark = pytest.mark.spark

IDS = ("AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg")


def replica(
    root: Path,
    *,
    records: int = 2,
    begins: int = 0,
    cluster: str = "c1",
    topic_id: str = "",
    mark: int | None = None,
    epochs: str = "",
    name: str = "t-0",
) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    data = b"".join(build([Record(b"k", b"v")], base_offset=offset) for offset in range(begins, records))
    (folder / f"{begins:020}.log").write_bytes(data)
    if cluster:
        (root / "meta.properties").write_text(f"cluster.id={cluster}\n")
    if topic_id:
        (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}\n")
    if mark is not None:
        (root / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {mark}\n")
    if epochs:
        (folder / "leader-epoch-checkpoint").write_text(f"0\n{len(epochs.splitlines())}\n{epochs}")
    return folder


def read(path: Path, **options: str) -> list[tuple[str, int]]:
    reader = SegmentReader(from_arrow_schema(RECORDS), SourceOptions({**options, "path": str(path)}))
    found = [row for task in reader.partitions() for batch in reader.read(task) for row in batch.to_pylist()]
    assert not [row["error"] for row in found if row["error"]]
    return sorted((Path(row["file"]).parts[-3], row["offset"]) for row in found)


@pytest.mark.parametrize(
    ("first", "second", "chosen"),
    [
        ({"mark": 1}, {"mark": 2}, "b2"),
        ({"mark": 2}, {"mark": 1}, "b1"),
        ({"mark": 2, "epochs": "0 0\n"}, {"mark": 1, "epochs": "0 0\n3 1\n"}, "b2"),
        ({"topic_id": IDS[0], "mark": 2}, {"topic_id": IDS[0], "cluster": "", "mark": 1}, "b1"),
        ({"topic_id": IDS[0], "mark": 2}, {"mark": 1}, "b1"),
    ],
    ids=["high watermark", "order", "leader epoch", "one cluster id", "one topic id"],
)
def test_one_replica_is_read(tmp_path: Path, first: dict[str, object], second: dict[str, object], chosen: str) -> None:
    for name, given in (("b1", first), ("b2", second)):
        replica(tmp_path / name, **given)  # type: ignore[arg-type]
    assert read(tmp_path) == [(chosen, 0), (chosen, 1)]
    everything = [(name, offset) for name in ("b1", "b2") for offset in (0, 1)]
    assert read(tmp_path, replicas="all") == everything


@pytest.mark.parametrize("late", ["b1", "b2"])
def test_a_follower_that_removed_more_than_its_leader_is_not_read(tmp_path: Path, late: str) -> None:
    """Retention works on the segments that a follower has, which may end elsewhere: its log begins later, for good."""
    for name in ("b1", "b2"):
        replica(tmp_path / name, mark=2, epochs="0 0\n", topic_id=IDS[0], begins=int(name == late))
    (chosen,) = {"b1", "b2"} - {late}
    assert read(tmp_path) == [(chosen, 0), (chosen, 1)]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"topic_id": IDS[0]}, {"topic_id": IDS[1]}),
        ({"cluster": "c1"}, {"cluster": "c2"}),
        ({"cluster": ""}, {"cluster": ""}),
    ],
    ids=["topics of one name", "clusters", "unknown"],
)
def test_logs_that_are_not_known_to_be_one_are_read_each(
    tmp_path: Path, first: dict[str, str], second: dict[str, str]
) -> None:
    for name, given in (("b1", first), ("b2", second)):
        replica(tmp_path / name, **given)  # type: ignore[arg-type]
    assert read(tmp_path) == [(name, offset) for name in ("b1", "b2") for offset in (0, 1)]


def test_a_replica_that_is_moved_or_deleted_is_read_where_no_other_is(tmp_path: Path) -> None:
    replica(tmp_path / "b1", topic_id=IDS[0], records=1)
    replica(tmp_path / "b2", topic_id=IDS[0], name=f"t-0.{'0' * 32}-delete", epochs="9 0\n")
    assert read(tmp_path) == [("b1", 0)]
    (log,) = logs_of(one for one in logdir.open(tmp_path / "b2").partitions)
    assert log.replica.state == "delete"


def test_a_file_that_is_named_is_read(tmp_path: Path) -> None:
    replica(tmp_path / "b1", mark=2)
    other = replica(tmp_path / "b2", mark=1)
    paths = f'["{tmp_path / "b1"}", "{other / f"{0:020}.log"}"]'
    reader = SegmentReader(from_arrow_schema(RECORDS), SourceOptions({"paths": paths}))
    assert sum(len(batch) for task in reader.partitions() for batch in reader.read(task)) == 4
