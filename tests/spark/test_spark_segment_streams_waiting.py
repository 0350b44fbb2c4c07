"""A stream of `kafka_segment` names each thing that it waits for once."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from pyspark.sql.pandas.types import from_arrow_schema

from kafkawire.records import Record, build
from kafkawire.spark.sources import log_points
from kafkawire.spark.sources.segment_columns import RECORDS
from kafkawire.spark.sources.segment_streams import SegmentStream
from kafkawire.spark.sources.source_base import SourceOptions
from tests.audit_logs import PartitionLog
from tests.spark.test_spark_segment_streams import offsets, rows

pytestmark = pytest.mark.spark


def test_a_stream_warns_once_where_damage_hides_what_is_open(tmp_path: Path) -> None:
    """And goes on once a snapshot shows it."""
    (tmp_path / "t-0").mkdir()
    log = [bytearray(build([Record(b"k")], base_offset=offset)) for offset in range(4)]
    log[1][-1] ^= 1
    path = tmp_path / "t-0" / f"{0:020}.log"
    path.write_bytes(b"".join(log[:3]))
    options = {"path": str(tmp_path), "isolationLevel": "read_committed"}
    found = SegmentStream(from_arrow_schema(RECORDS), SourceOptions(options))
    with pytest.warns(RuntimeWarning, match="offsets 1 to 2: .* the stream waits for a snapshot") as caught:
        end = [found.latestOffset({}), found.latestOffset({})][-1]
    assert len(caught) == 1
    assert offsets(rows(found, {}, end)) == [0]
    PartitionLog(tmp_path / "t-0").snapshot(offset=4)
    path.write_bytes(b"".join(log))
    later = rows(found, end, found.latestOffset(end))
    assert [row["offset"] for row in later if row["error"] is None] == [2, 3]
    assert [row["error"][:12] for row in later if row["error"]] == ["crc_mismatch"]


def test_a_stream_warns_once_where_the_last_segment_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").write_bytes(build([Record(b"k")]))
    found = SegmentStream(from_arrow_schema(RECORDS), SourceOptions({"path": str(tmp_path)}))

    def fails(*_: object, **__: object) -> tuple[int, int]:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(log_points.LogPoints, "find", fails)
        with pytest.warns(RuntimeWarning, match=r"\.log cannot be read \(Input/output error\)") as caught:
            end = [found.latestOffset({}), found.latestOffset({})][-1]
    assert len(caught) == 1
    assert offsets(rows(found, {}, end)) == []
    assert offsets(rows(found, end, found.latestOffset(end))) == [0]
