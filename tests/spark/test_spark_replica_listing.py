"""Replicas below paths: what is found is what `logdir.open` finds, however often it is called."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed")

from kafkawire import logdir
from kafkawire.spark.listing.replica_listing import ReplicaListing
from tools.recordings.archive import unpacked

EXAMPLES = Path(__file__).parents[2] / "examples" / "kafka-logs" / "three-nodes"


def segments(listing: ReplicaListing) -> dict[str, list[str]]:
    return {path: [file.path for file in replica.segments] for path, replica in listing().items()}


def expected(path: Path) -> dict[str, list[str]]:
    return {one.path: [file.path for file in one.segments] for one in logdir.open(path).partitions if one.segments}


def test_finds_what_a_log_directory_has(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "logs")
    listing = ReplicaListing(lambda: [str(tmp_path / "logs")])
    assert segments(listing) == expected(tmp_path / "logs") != {}
    # Folders come, go and change, each within a file system's tick of a listing.
    broker = sorted(path for path in (tmp_path / "logs").iterdir() if path.is_dir())[0]
    (one, other, *_) = sorted(path for path in broker.glob("orders-*"))
    shutil.rmtree(one)
    (other / f"{77:020}.log").touch()
    shutil.copytree(other, broker / "new-0")
    (broker / f"gone-0.{'a' * 32}-delete").mkdir()
    (broker / f"gone-0.{'a' * 32}-delete" / f"{0:020}.log").touch()
    assert segments(listing) == {path: of for path, of in expected(tmp_path / "logs").items() if "-delete" not in path}
    assert any(path.endswith("new-0") for path in segments(listing))


def test_paths_may_be_files_and_uris_and_may_be_missing(tmp_path: Path) -> None:
    (file,) = expected(next(EXAMPLES.glob("*/orders-0"))).popitem()[1]
    assert list(segments(ReplicaListing(lambda: [file])).values()) == [[file]]
    found = segments(ReplicaListing(lambda: [EXAMPLES.as_uri()]))
    assert {path.removeprefix("file://"): len(of) for path, of in found.items()} == {
        path: len(of) for path, of in expected(EXAMPLES).items()
    }
    with pytest.raises(FileNotFoundError):
        ReplicaListing(lambda: [str(tmp_path / "none")])()


@pytest.mark.filterwarnings("ignore:.* is in a tier")
def test_replicas_in_a_store_are_without_their_tiers_like_local_ones() -> None:
    place = unpacked("tiered-storage")
    stored, local = (ReplicaListing(lambda path=path: [path])() for path in (place.as_uri(), str(place)))
    assert {one.path.removeprefix("file://"): [file.name for file in one.segments] for one in stored.values()} == {
        one.path: [file.name for file in one.segments] for one in local.values()
    }


def test_reads_high_watermarks_anew(tmp_path: Path) -> None:
    folder = tmp_path / "t-0"
    folder.mkdir()
    (folder / f"{0:020}.log").touch()
    listing = ReplicaListing(lambda: [str(tmp_path)])
    for high_watermark in (3, 5):
        (tmp_path / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {high_watermark}\n")
        os.utime(tmp_path, (1, 1))
        assert listing()[str(folder)].high_watermark == high_watermark


def test_follows_no_links_to_folders(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "logs")
    broker = next(path for path in sorted((tmp_path / "logs").iterdir()) if path.is_dir())
    (broker / "loop").symlink_to(tmp_path / "logs")
    (broker / "linked-0").symlink_to(next(broker.glob("orders-*")))
    assert segments(ReplicaListing(lambda: [str(tmp_path / "logs")])) == expected(tmp_path / "logs") != {}


def test_warns_once_of_a_tier_that_is_not_read() -> None:
    tier = unpacked("tiered-storage") / "tier"
    listing = ReplicaListing(lambda: [str(EXAMPLES), str(tier)])
    with pytest.warns(RuntimeWarning, match="orders-0-.* is in a tier, which streams do not read") as caught:
        assert segments(listing) == segments(listing) == expected(EXAMPLES)
    assert len(caught) == 1
