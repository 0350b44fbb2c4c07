"""A listing gives each replica the tiers that `logdir.open` joins it with. Without Spark: what workers do."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire import logdir
from kafkawire.logdir import LogFile, Partition
from kafkawire.spark.lake.lake_parts import PARTITION, TABLE, Wanted, _decided, _planned, _scanned
from kafkawire.spark.listing.fleet_listing import LISTING, REPLICA, TIER, TIER_EVENTS, _folders, _rows_of
from kafkawire.spark.listing.tier_listing import _by_partition, _replicas, replica_at, segment_sizes
from kafkawire.spark.sources.offset_options import RequestedRange, subscription
from kafkawire.spark.sources.segment_parts import SegmentPart
from kafkawire.spark.sources.segment_reader import SegmentReader
from kafkawire.spark.sources.source_base import SourceOptions
from kafkawire.transactions.parts.replica_files import replicas
from tools.recordings.archive import unpacked

TIERS = ("tiered-storage/tier", "tier-objects/zstd", "tier-objects/encrypted-zstd")


def place(path: str) -> str:
    name, _, folder = path.partition("/")
    return str(unpacked(name) / folder)


def key() -> str:
    return place("tier-objects/private.pem")


def joined(*paths: str) -> list[tuple[dict[str, object], Partition]]:
    folders = [folder for number, path in enumerate(paths) for folder in _folders(number, path)]
    rows = [dict(zip(LISTING.names, row, strict=True)) for folder in folders for row in _rows_of(folder)]
    wanted = [row for row in rows if row["kind"] in (REPLICA, TIER, TIER_EVENTS)]
    ordered = iter(sorted(wanted, key=lambda row: (row["partition"], row["argument"], row["sort"])))
    found = [(row, replica_at(row)) for _, alike in _by_partition(ordered) for row in _replicas(alike, (key(),))]
    return sorted(found, key=lambda one: (one[1].broker.root, one[1].topic, one[1].partition))


@pytest.mark.slow
@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    "node", ["tiered-storage/node-1", "tiered-storage/node-2", "tiered-storage/node-2/orders-0", ""]
)
def test_replicas_have_the_segments_that_opening_finds(node: str, tier: str) -> None:
    paths = [place(path) for path in (node, tier) if path]

    def shown(one: Partition) -> tuple[str, tuple[LogFile, ...], list[str], list[int | None], list[str]]:
        copies, snapshots = [copy.path for copy in one.copies], [file.offset for file in one.snapshots]
        return one.path, one.segments, copies, snapshots, [str(id) for id in one.tier_metadata()]

    found = joined(*paths)
    expected = replicas(logdir.open(*paths, tier_keys=[key()]))
    assert [shown(one) for _, one in found] == [shown(one) for one in expected]
    for row, one in found:
        stored = [Path(file.path).stat().st_size for file in one.segments]
        assert segment_sizes(row, one) == stored


def test_the_longest_copy_of_the_metadata_counts() -> None:
    paths = [place(f"tiered-storage/node-{number}") for number in (3, 1, 2)]
    (events,) = {
        tuple(one.tier_metadata().items()) for _, one in joined(*paths, place(TIERS[0])) if one.topic == "orders"
    }
    assert dict(events) == logdir.open(*paths).tier_metadata


@pytest.mark.parametrize("tier", TIERS[:2])
def test_a_lake_plans_the_committed_records_of_log_and_tier(tier: str) -> None:
    wanted = Wanted(subscription(SourceOptions({"subscribe": "orders"})), high_watermark=True, part_bytes=1024)
    known = dict.fromkeys(("begin", "given", "recorded", "topic_id", "epoch"))
    rows = [row | known for row, one in joined(place("tiered-storage/node-2"), place(tier)) if not one.state]
    columns = ("partition", "base", "number", "payload")
    planned = [dict(zip(columns, row, strict=True)) for row in _planned(iter(rows), wanted)]
    scanned = [dict(zip(columns, row, strict=True)) for row in _scanned(iter(planned), wanted)]
    *parts, whole = _decided(iter(sorted(scanned, key=lambda row: (row["base"], row["number"]))))
    kind, topic, _, start, end, _, held, *_ = whole
    assert (kind, topic, start, end, held) == (PARTITION, "orders", 9, 81, None)
    assert len(parts) == 9
    consumed = json.loads((unpacked("tiered-storage") / "consumed.json").read_text("utf-8"))["read_committed"]
    reader = SegmentReader(TABLE, SourceOptions({"format": "kafka"}))
    items = [pickle.loads(payload) for *_, payload in parts]
    read = [
        SegmentPart(one.part.file, one.part.begin, one.part.end, RequestedRange(start, end), view=one.view)
        for one in items
    ]
    found = [row for batch in reader.batches(read, reader.projection.source) for row in batch.to_pylist()]
    assert [row["offset"] for row in found] == [record["offset"] for record in consumed]
