"""The rules of tiers, on a recorded cluster in which one thing was changed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kafkawire import logdir, records, transactions
from kafkawire.logdir import LogDirectory, LogFile, tiers
from kafkawire.records import Batch
from kafkawire.transactions.answers import (
    TIER_COPY_FINISHED,
    TIER_COVERS_LOG,
    TIER_OBJECT_KNOWN,
    TIER_OBJECT_PRESENT,
)
from kafkawire.transactions.checks.tier_copies import LATE_COPY_MS
from kafkawire.transactions.formatting import when
from kafkawire.transactions.verdict.completeness import outcome
from tools.recordings.archive import unpacked

RULES = (TIER_COPY_FINISHED, TIER_OBJECT_KNOWN, TIER_OBJECT_PRESENT, TIER_COVERS_LOG)
HOLDS = dict.fromkeys(RULES, "holds")
LAYOUTS = ("tiered-storage/tier", "tier-objects/plain")


def tier(tmp_path: Path, layout: str = LAYOUTS[0]) -> Path:
    name, folder = layout.split("/")
    return shutil.copytree(unpacked(name) / folder, tmp_path / "tier")


def files(root: Path, offset: int) -> list[Path]:
    """The objects of the copy that begins at an offset, of the side that was elected."""
    found = sorted(path for path in root.rglob(f"{offset:020}-*"))
    assert found
    return found


def answers(directory: LogDirectory) -> tuple[dict[str, str], list[tuple[str, int, str]]]:
    """The answer of each rule, and the violations."""
    found = transactions.audit(directory)
    answers = {one.check: one.answer for one in found.answers if one.check in RULES}
    return answers, [(one.check, one.offset, one.what) for one in found.violations if one.check in RULES]


def of_node(root: Path, *, metadata: bool = True) -> LogDirectory:
    """Node 2 and a tier; without the metadata, the partition's directory and its broker's checkpoints."""
    node = unpacked("tiered-storage") / "node-2"
    if metadata:
        return logdir.open(node, root)
    copy = root.parent / "broker"
    if not copy.exists():
        shutil.copytree(node, copy, ignore=shutil.ignore_patterns("__remote_log_metadata-*"))
    return logdir.open(copy, root)


def segment(directory: LogDirectory, offset: int) -> LogFile:
    (partition,) = (one for one in directory.partitions if one.topic == "orders" and not one.state)
    return next(file for file in partition.segments if file.offset == offset and file.state == "tiered")


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("node", ["node-1", "node-2"])
def test_a_sound_tier_holds_every_rule(layout: str, node: str) -> None:
    name, folder = layout.split("/")
    found, violations = answers(logdir.open(unpacked("tiered-storage") / node, unpacked(name) / folder))
    assert (found, violations) == (HOLDS, [])


def test_without_a_tier_there_is_no_answer() -> None:
    assert answers(logdir.open(unpacked("tiered-storage") / "node-2")) == ({}, [])


def test_a_tier_alone_is_judged_by_its_own_lineage() -> None:
    found, violations = answers(logdir.open(unpacked("tiered-storage") / "tier"))
    assert found == HOLDS | {TIER_OBJECT_KNOWN: "not_checkable"}
    assert violations == []


@pytest.mark.slow
@pytest.mark.parametrize(("offset", "state", "check", "what"), [
    (30, tiers.COPY_STARTED, TIER_COPY_FINISHED, "offsets 30 to 39, was started and never finished; it has objects"),
    (30, tiers.DELETE_FINISHED, TIER_OBJECT_KNOWN, "is there after its deletion"),
    (30, None, TIER_OBJECT_KNOWN, "no event names the object of segment"),
])  # fmt: skip
def test_names_what_objects_and_metadata_do_not_agree_on(
    tmp_path: Path, offset: int, state: int | None, check: str, what: str
) -> None:
    directory = of_node(tier(tmp_path))
    metadata, id = directory.tier_metadata, tiers.segment_id(segment(directory, offset))
    event = metadata.pop(id)
    if state is not None:
        rest = list(metadata.items())
        metadata.clear()
        metadata |= {id: event._replace(state=state), **dict(rest)}
    directory = _with(tmp_path, metadata)
    found, violations = answers(directory)
    assert {name for name, answer in found.items() if answer == "violated"} == {check}
    ((_, at, text),) = violations
    assert at == offset
    assert what in text


@pytest.mark.slow
@pytest.mark.parametrize(("later_ms", "late"), [(LATE_COPY_MS, False), (LATE_COPY_MS + 1, True)])
def test_a_copy_that_began_long_ago_is_late(tmp_path: Path, later_ms: int, late: bool) -> None:
    """The newest one may be running, but not for hours."""
    metadata = of_node(tier(tmp_path)).tier_metadata
    id, event = max(metadata.items(), key=lambda item: (item[1].topic == "orders", item[1].start))
    rest = {other: one for other, one in metadata.items() if other != id}
    metadata.clear()
    metadata |= rest | {id: event._replace(state=tiers.COPY_STARTED)}
    directory = _with(tmp_path, metadata)
    found = transactions.audit(directory, transactions.Settings(as_of=event.since + later_ms))
    (answer,) = (one for one in found.answers if one.check == TIER_COPY_FINISHED)
    assert (answer.violated, answer.not_checkable) == ((1, 0) if late else (0, 1))
    texts = [one.what for one in found.violations if one.check == TIER_COPY_FINISHED]
    assert len(texts) == late
    since = when(event.since + LATE_COPY_MS)
    assert all(f"it is late since {since}" in text for text in texts)


def _with(tmp_path: Path, metadata: dict[tiers.UUID, tiers.TieredSegment]) -> LogDirectory:
    directory = of_node(tmp_path / "tier")
    directory.__dict__["tier_metadata"] = metadata
    return directory


def lose(choose: Callable[[Path], bool], *offsets: int) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        for offset in offsets:
            for path in filter(choose, files(root, offset)):
                path.unlink()

    return change


def every(_: Path) -> bool:
    return True


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "change", "offset", "what"), [
    (LAYOUTS[0], lose(every, 30), 30, "was finished, and it has no object"),
    (LAYOUTS[1], lose(every, 30), 30, "was finished, and it has no object"),
    (LAYOUTS[0], lose(lambda path: path.suffix == ".index", 40), 40, "has no index"),
    (LAYOUTS[0], lose(lambda path: path.suffix == ".log", 40), 40, "has no log"),
    (LAYOUTS[1], lose(lambda path: path.suffix == ".indexes", 40), 40, "has no index, timeindex, snapshot, epochs"),
    (LAYOUTS[1], lose(lambda path: path.suffix == ".rsm-manifest", 40), 40, "has no rsm-manifest"),
])  # fmt: skip
def test_names_objects_that_are_gone(
    tmp_path: Path, layout: str, change: Callable[[Path], None], offset: int, what: str
) -> None:
    root = tier(tmp_path, layout)
    change(root)
    found, violations = answers(of_node(root))
    assert {name for name, answer in found.items() if answer == "violated"} == {TIER_OBJECT_PRESENT}
    ((_, at, text),) = violations
    assert (at, what in text) == (offset, True)


def test_names_offsets_that_no_copy_has(tmp_path: Path) -> None:
    root = tier(tmp_path)
    lose(every, 30)(root)
    found, violations = answers(of_node(root, metadata=False))
    assert found == {
        TIER_COPY_FINISHED: "holds",
        TIER_OBJECT_KNOWN: "not_checkable",
        TIER_OBJECT_PRESENT: "holds",
        TIER_COVERS_LOG: "violated",
    }
    assert violations == [(TIER_COVERS_LOG, 30, "no copy in the tier has offsets 30 to 39")]


@pytest.mark.slow
@pytest.mark.parametrize(("offsets", "metadata", "expected"), [
    ((0, 10), False, {TIER_OBJECT_KNOWN: "not_checkable"}),  # deleted by retention, perhaps
    ((61, 71), True, {}),  # a tier that was copied before the log
    ((61, 71), False, {TIER_OBJECT_KNOWN: "not_checkable"}),
])  # fmt: skip
def test_copies_of_different_moments_violate_nothing(
    tmp_path: Path, offsets: tuple[int, ...], metadata: bool, expected: dict[str, str]
) -> None:
    root = tier(tmp_path)
    lose(every, *offsets)(root)
    directory = of_node(root, metadata=metadata)
    found, violations = answers(directory)
    assert (found, violations) == (HOLDS | expected, [])
    audit = transactions.audit(directory)
    lacked = {one.check: one.not_checkable for one in audit.answers if one.check in RULES}
    assert lacked[TIER_COVERS_LOG] + lacked[TIER_OBJECT_PRESENT] > 0
    assert [one.what for one in audit.violations] == []


def test_damaged_metadata_proves_nothing(tmp_path: Path) -> None:
    """What its lost events named is not taken for objects that no event names."""
    broker = shutil.copytree(unpacked("tiered-storage") / "node-2", tmp_path / "broker")
    (metadata,) = broker.glob("__remote_log_metadata-0/*.log")
    batches = [one for one in logdir.open(metadata).files[0].batches() if isinstance(one, Batch) and not one.control]
    data = bytearray(metadata.read_bytes())
    data[batches[1].position + 40] ^= 0xFF  # the end of the first copy
    metadata.write_bytes(data)
    directory = logdir.open(broker, unpacked("tiered-storage") / "tier")
    assert answers(directory)[1] == []
    audit = transactions.audit(directory)
    lacked = {reason for one in audit.answers if one.check in RULES for reason in one.lacked}
    assert any(
        reason.startswith(f"events may be missing: {metadata}: at byte {batches[1].position}") for reason in lacked
    )
    assert [one.reason for one in audit.damage] == ["crc_mismatch"]


@pytest.mark.slow
@pytest.mark.parametrize("value", [b"\xff\0\xff", b"\0\0"])
def test_an_event_that_is_not_understood_is_damage(tmp_path: Path, value: bytes) -> None:
    """Its batch is sound: reading the log does not show it. It may be about any segment."""
    broker = shutil.copytree(unpacked("tiered-storage") / "node-2", tmp_path / "broker")
    (metadata,) = broker.glob("__remote_log_metadata-0/*.log")
    (partition,) = (one for one in logdir.open(broker).partitions if one.topic == "__remote_log_metadata")
    *_, last = (one for one in partition if isinstance(one, Batch))
    position, offset = metadata.stat().st_size, last.last_offset + 1
    with metadata.open("ab") as file:
        file.write(records.build([records.Record(value=value)], base_offset=offset))
    audit = transactions.audit(logdir.open(broker, unpacked("tiered-storage") / "tier"))
    (damage,) = audit.damage
    assert (damage.file, damage.position, damage.reason) == (str(metadata), position, "bad_records")
    assert (damage.detail or "").startswith(f"offset {offset}: ")
    assert not outcome(audit).complete
    lacked = {reason for one in audit.answers if one.check in RULES for reason in one.lacked}
    assert lacked == set()  # nothing seems to be missing


def test_of_a_partition_without_events_some_may_be_missing(tmp_path: Path) -> None:
    broker = shutil.copytree(unpacked("tiered-storage") / "node-2", tmp_path / "broker")
    (metadata,) = broker.glob("__remote_log_metadata-0/*.log")
    metadata.write_bytes(records.build([records.Record(value=b"\xff")]))
    directory = logdir.open(broker, unpacked("tiered-storage") / "tier")
    (orders,) = (one for one in directory.partitions if one.topic == "orders" and not one.state)
    assert orders.tier_metadata().partial.startswith(f"{metadata}: at byte 0: offset 0: ")
