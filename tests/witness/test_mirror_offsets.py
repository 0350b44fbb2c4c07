"""A cluster and its mirror: what MirrorMaker 2 copied, and what it says of offsets."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from kafkawire import logdir
from kafkawire.records import Record
from kafkawire.rows import ComparedPartition, CopyDifference, MirroredOffset, Row
from kafkawire.witness import CopyComparison
from tests.audit_logs import LogDirectory
from tools.recordings.archive import unpacked


def truth() -> Any:
    return json.loads((unpacked("group-deliveries") / "truth.json").read_text())["mirror"]


def recorded(state: str) -> tuple[CopyComparison, list[Row]]:
    copies = logdir.open(unpacked("group-deliveries") / "mirror" / state)
    compared = CopyComparison(copies, copies, by="order", prefix="source.", topic=truth()["topic"])
    return compared, list(compared.rows())


@pytest.mark.slow
def test_a_mirror_that_was_stopped_in_the_middle() -> None:
    planted = truth()
    compared, (row, difference, checkpoint) = recorded("stopped")
    assert isinstance(row, ComparedPartition)
    assert row.of_a == {"same": planted["mirrored"], "behind": planted["all"] - planted["mirrored"]}
    assert row.of_b == {"same": planted["mirrored"]}
    assert (row.syncs > 0, row.syncs_unknown) == (True, 0)
    assert isinstance(difference, CopyDifference)
    assert (difference.difference, difference.first_offset) == ("behind", planted["mirrored"])
    assert isinstance(checkpoint, MirroredOffset)
    assert (checkpoint.result, checkpoint.group, checkpoint.offset_a) == (
        "same",
        planted["group"],
        planted["committed"],
    )
    assert (checkpoint.missed, checkpoint.again) == (0, planted["committed"] - checkpoint.offset_b)
    assert (compared.found, compared.incomplete) == (0, [])


@pytest.mark.slow
def test_a_mirror_that_went_on_has_each_record_once() -> None:
    compared, (row, *others) = recorded("resumed")
    assert isinstance(row, ComparedPartition)
    assert row.of_a == row.of_b == {"same": truth()["all"]}
    assert [type(other) for other in others] == [MirroredOffset]
    assert compared.found == 0


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def mirrored(
    root: Path, *, sync: tuple[int, int] = (3, 3), checkpoint: tuple[int, int] = (5, 4), value: bytes | None = None
) -> tuple[CopyComparison, list[Row]]:
    """Ten records, all mirrored; one offset-sync and one checkpoint. `value`: of the sync."""
    east, west = (LogDirectory(root / name, ids=1) for name in ("east", "west"))
    for number in range(10):
        for logs, topic in ((east, "orders"), (west, "east.orders")):
            logs.partition(topic).records([Record(b"k", b"%d" % number)])
    key = text("orders") + struct.pack(">i", 0)
    syncs = east.partition("mm2-offset-syncs.west.internal")
    syncs.records([Record(key, struct.pack(">qq", *sync) if value is None else value)])
    group = text("g") + text("east.orders") + struct.pack(">i", 0)
    west.partition("east.checkpoints.internal").records([Record(group, struct.pack(">hqq", 0, *checkpoint) + text(""))])
    for logs in (east, west):
        for (topic, number), log in logs.partitions.items():
            logs.high_watermark(topic, number, log.end)
    compared = CopyComparison(
        logdir.open(east.write()), logdir.open(west.write()), by="order", prefix="east.", topic="orders"
    )
    return compared, list(compared.rows())


def test_a_checkpoint_at_which_a_group_gets_records_again(tmp_path: Path) -> None:
    compared, (row, found) = mirrored(tmp_path)
    assert isinstance(row, ComparedPartition)
    assert (row.same, row.syncs, row.syncs_unknown) == (10, 1, 0)
    assert isinstance(found, MirroredOffset)
    assert (found.result, found.missed, found.again) == ("same", 0, 1)
    assert (compared.found, compared.incomplete) == (0, [])


def test_a_checkpoint_at_which_a_group_misses_records(tmp_path: Path) -> None:
    compared, (_, found) = mirrored(tmp_path, checkpoint=(5, 8))
    assert isinstance(found, MirroredOffset)
    assert (found.result, found.missed, found.again) == ("skips", 3, 0)
    assert compared.found == 1


def test_a_sync_of_two_other_records(tmp_path: Path) -> None:
    compared, (_, found, _) = mirrored(tmp_path, sync=(3, 4))
    assert isinstance(found, MirroredOffset)
    assert (found.said_by, found.result, found.offset_a, found.offset_b) == ("sync", "other_record", 3, 4)
    assert compared.found == 1


def test_a_sync_of_records_that_are_not_there_proves_nothing(tmp_path: Path) -> None:
    compared, (row, _) = mirrored(tmp_path, sync=(300, 4))
    assert isinstance(row, ComparedPartition)
    assert (row.syncs, row.syncs_unknown, compared.found) == (1, 1, 0)


def test_a_sync_that_cannot_be_read_makes_the_answer_incomplete(tmp_path: Path) -> None:
    compared, _ = mirrored(tmp_path, value=b"\0\0")
    assert any("mm2-offset-syncs" in sentence for sentence in compared.incomplete)
