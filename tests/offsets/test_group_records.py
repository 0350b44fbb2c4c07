"""Copies of groups' logs that lack records: what they do not show is not called absent."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire import logdir
from kafkawire.messages import OffsetCommitKey, OffsetCommitValue
from kafkawire.offsets.copied_shares import explained_shares
from kafkawire.offsets.group_view import group_view, group_views
from kafkawire.offsets.leading_replica import LeadingReplicas
from kafkawire.offsets.share_lag import share_lag
from kafkawire.records import Batch, Record, read
from tests.audit_logs import LogDirectory
from tools.recordings import share_groups
from tools.recordings.archive import unpacked

OFFSETS = "__consumer_offsets"


def committed(root: Path, *, change: Callable[[bytearray, list[int]], None], cleaned: int = 0) -> LeadingReplicas:
    """Three groups commit in turn, three times. `change`: of the log's bytes, with where its batches begin."""
    logs = LogDirectory(root)
    log = logs.partition(OFFSETS)
    for offset in (3, 5, 7):
        for group in ("a", "b", "c"):
            key = b"\0\1" + OffsetCommitKey(group=group, topic="orders", partition=0).encode(version=0)
            value = OffsetCommitValue(offset=offset, metadata="", commit_timestamp=0).encode_prefixed(version=3)
            log.records([Record(key, value)])
    logs.high_watermark(OFFSETS, 0, log.end)
    logs.checkpoint("cleaner-offset-checkpoint", OFFSETS, 0, cleaned)
    data = log.segments[0][1]
    change(data, [item.position for item in read(bytes(data)) if isinstance(item, Batch)])
    return LeadingReplicas(logdir.open(logs.write()))


def cut(data: bytearray, starts: list[int]) -> None:
    del data[starts[2] :]


def remove(data: bytearray, starts: list[int]) -> None:
    del data[starts[3] : starts[5]]


@pytest.mark.parametrize(
    ("change", "lacks"),
    [(cut, "the log ends at offset 2, below its high watermark 9"), (remove, "offsets 3 to 4 are missing")],
)
def test_a_group_log_that_lacks_records_is_a_gap(
    tmp_path: Path, change: Callable[[bytearray, list[int]], None], lacks: str
) -> None:
    replicas = committed(tmp_path, change=change)
    expected = f"{tmp_path / f'{OFFSETS}-0'}: {lacks}"
    views, gaps = group_views(replicas)
    assert expected in gaps
    assert all(expected in view.gaps for view in views)
    view = group_view(replicas, "a")
    assert view is not None
    assert expected in view.gaps


def test_records_that_a_cleaner_removed_are_no_gap(tmp_path: Path) -> None:
    _, gaps = group_views(committed(tmp_path, change=remove, cleaned=6))
    assert gaps == ["how many partitions __consumer_offsets has is not known (no __cluster_metadata)"]


@pytest.mark.slow
def test_the_lag_of_a_share_group_is_no_more_exact_than_the_copy_is_whole(tmp_path: Path) -> None:
    """The log of orders-1 was copied before its checkpoint."""
    root = shutil.copytree(unpacked(share_groups.NAME) / "kafka-4.2.0", tmp_path / "copies")
    log = root / "node-1" / "orders-1" / f"{0:020}.log"
    whole = log.read_bytes()
    batches = [item for item in read(whole) if isinstance(item, Batch)]
    cut_at = next(one for one in batches if one.base_offset >= 56)
    log.write_bytes(whole[: cut_at.position])
    shares, _ = explained_shares(LeadingReplicas(logdir.open(root / "node-1", root / "node-2")), "auditors")
    (share,) = (one for one in shares if (one.source.topic, one.source.key.partition) == ("orders", 1))
    row = share_lag(share, as_of=None)
    assert row.read_committed is not None
    assert row.high_watermark == 70
    assert not row.read_committed.exact
    assert row.read_committed.least <= 10 <= (row.read_committed.most or 0)
    (problem,) = row.problems
    assert problem.endswith("orders-1: the log ends at offset 56, below its high watermark 70")
