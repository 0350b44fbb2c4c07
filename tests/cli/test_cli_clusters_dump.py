"""`kafkawire dump` on copies of real clusters, against what consumers got (`tools.recordings.clusters`)."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.runner import Run
from tests.recorded_clusters import ALL, COMPACTED, Copy

pytestmark = pytest.mark.slow


#: What a copy shows whose files are of different moments: a log without the last offsets that a checkpoint names, or
#: that are in its index.
APART = {"unknown_outcome", "index_mismatch"}
#: The index that a running copy has from a later moment than its log, by the order of names.
BEHIND_ITS_LOG = {"forward": ".timeindex", "backward": ".index", "killed": (), "stopped": ()}


def dump(run: Run, copy: Copy, path: Path, *options: str) -> list[dict[str, Any]]:
    done = run("dump", path, *options)
    rows = [msgspec.json.decode(line) for line in done.out.splitlines()]
    damage = {row["reason"] for row in rows if row["kind"] == "damage"}
    assert damage <= (APART if copy.name in ("forward", "backward") else set()), done.err
    assert done.code == (4 if damage else 0)
    return rows


def disks(copy: Copy) -> list[Path]:
    """Each node's log directories: replicas of a partition are in several."""
    return [node for node in sorted(copy.path.iterdir()) if any(node.rglob("orders-0"))]


def offsets_of(rows: list[dict[str, Any]]) -> dict[tuple[str, int], list[int]]:
    """The offsets of data records, by topic and partition, without replicas that are on their way to another disk."""
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in rows:
        if row["kind"] == "record" and not row["control"] and not Path(row["file"]).parent.name.endswith("-future"):
            found[row["topic"], row["partition"]].append(row["offset"])
    return found


@pytest.mark.parametrize("copy", ALL, ids=str)
@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_rows_of_an_isolation_level_are_what_a_consumer_gets(run: Run, copy: Copy, level: str) -> None:
    for node in disks(copy):
        found = offsets_of(dump(run, copy, node, "--print-data-log", "--isolation-level", level))
        for place, consumed in copy.consumed(level).items():
            got = found[place]
            if copy.stopped:
                assert got == consumed, place
            elif place[0] == COMPACTED:
                assert {offset for offset in consumed if got and offset <= got[-1]} <= set(got), place
            else:
                assert got == consumed[: len(got)], place


@pytest.mark.parametrize("copy", ALL, ids=str)
def test_every_kind_of_row_is_read_without_damage(run: Run, copy: Copy) -> None:
    batches = [row for row in dump(run, copy, copy.path) if row["kind"] == "batch"]
    records = [row for row in dump(run, copy, copy.path, "--print-data-log") if row["kind"] == "record"]
    assert sum(row["records"] for row in batches) == len(records)
    partitions = dump(run, copy, copy.path, "--stats")
    in_logs = [row for row in records if row["file"].endswith(".log")]
    assert sum(row["records"] for row in partitions) == len(in_logs)
    assert all(row["decoded"] for row in records if row["topic"] in ("__transaction_state", "__cluster_metadata"))


@pytest.mark.parametrize("copy", ALL, ids=str)
def test_indexes_agree_with_their_logs(run: Run, copy: Copy) -> None:
    checks = [row for row in dump(run, copy, copy.path, "--verify-index-only") if row["kind"] == "check"]
    assert checks
    wrong = [row["file"] for row in checks if not row["passed"]]
    assert all(file.endswith(BEHIND_ITS_LOG[copy.name]) for file in wrong)


@pytest.mark.parametrize("copy", ALL, ids=str)
def test_indexes_are_sound_but_for_zeros_that_a_broker_preallocates(run: Run, copy: Copy) -> None:
    """A clean stop cuts them off, but not those of the metadata log."""
    done = run("dump", copy.path, "--index-sanity-check")
    rows = [msgspec.json.decode(line) for line in done.out.splitlines()]
    refused = [row for row in rows if row["kind"] == "check" and not row["passed"]]
    assert done.code == (4 if refused else 0)
    for row in refused:
        assert row["file"].endswith(".timeindex")
        assert Path(row["file"]).read_bytes().endswith(bytes(12))
        assert row["topic"] == "__cluster_metadata" or not copy.stopped
