"""A replica and its older segments in a tier: what files are in it, what consumers get, and what each offset is."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from shutil import copytree

from kafkawire import logdir, offsets, transactions
from kafkawire.cli.formatting import json_bytes
from kafkawire.logdir.file_names import TIERED
from kafkawire.rows.segments import RecordRow
from tools.fuzz import input_files, inputs
from tools.fuzz.target import FuzzTarget
from tools.fuzz.targets.logs import sealed
from tools.recordings.archive import unpacked
from tools.recordings.tiered_storage import TIERS

#: How a file is put there, in the second byte of its name: with its checksums as they are; not at all.
_AS_IS, _ABSENT = 1, 2
#: One input in this many is audited, which is slow.
_AUDITED = 8
#: Offsets that are compared one by one, at most.
_MOST_OFFSETS = 1000
#: The log begins here, after the larger part of the tier: an input takes half of the time.
_LOG_START = 51


@cache
def _copies() -> list[tuple[Path, list[tuple[Path, bytes]]]]:
    """A replica and one tier of each form, with the files that are changed, and what they hold."""
    tiers = [unpacked("tiered-storage") / "tier", *(unpacked("tier-objects") / name for name in TIERS)]
    found = []
    for number, tier in enumerate(tiers):
        root = input_files.folder(f"tier-{number}")
        node = unpacked("tiered-storage") / "node-1"
        for folder in ("orders-0", "__remote_log_metadata-0"):
            copytree(node / folder, root / "node" / folder)
        for path in (*node.glob("*checkpoint"), node / "meta.properties"):
            (root / "node" / path.name).write_bytes(path.read_bytes())
        (root / "node" / "log-start-offset-checkpoint").write_text(f"0\n1\norders 0 {_LOG_START}\n")
        copytree(tier, root / "tier")
        for path in (root / "tier").rglob("0*"):
            if path.is_file() and int(path.name[:20]) < _LOG_START - 1:
                path.unlink()
        paths = sorted(
            path for path in root.rglob("*") if path.is_file() and path.suffix not in (".index", ".timeindex")
        )
        found.append((root, [(path, path.read_bytes()) for path in paths]))
    return found


def check_tiers(data: bytes) -> None:
    """Parts: the tier (by the first byte), then two for each changed file: which it is, and how (by two bytes), and its
    content."""
    parts = inputs.parts_of(data)
    root, files = inputs.pick(_copies(), parts[0] if parts else b"")
    changed = []
    try:
        for named, content in zip(parts[1::2], parts[2::2], strict=False):
            path, before = inputs.pick(files, named)
            how = named[1] if len(named) > 1 else 0
            changed.append((path, before))
            if how & _ABSENT:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(sealed(content) if path.suffix == ".log" and not how & _AS_IS else content)
        _check(root, data)
    finally:
        for path, before in changed:
            path.write_bytes(before)


def _check(root: Path, data: bytes) -> None:
    key = unpacked("tier-objects") / "private.pem"
    directory = logdir.open(root / "node", root / "tier", tier_keys=[key])
    for file in directory.files:
        if file.state == TIERED:
            with suppress(OSError):
                assert len(file.read_bytes()) == file.size, file.path
    for partition in directory.partitions:
        if partition.topic == "orders" and not partition.state:
            with suppress(OSError):
                _check_consumers(partition)
    for replica in offsets.replicas(directory, "orders", 0):
        with suppress(OSError):
            _check_offsets(replica)
    if not zlib.crc32(data) % _AUDITED:
        with suppress(OSError):
            json_bytes(transactions.audit(directory))


def _check_consumers(partition: logdir.Partition) -> None:
    """What consumers of read_committed get are some of the records that there are, none of them after the last stable
    offset."""
    outcomes = logdir.outcomes_of(partition)
    found = []
    for view in (None, logdir.View(outcomes=outcomes, isolation_level="read_committed")):
        options = logdir.Options(deep=True, payloads=True, view=view)
        rows = (row for file in partition.segments for row in logdir.rows_of(file, options))
        found.append([(row.file, row.position, row.offset) for row in rows if isinstance(row, RecordRow)])
    everything, committed = found
    assert set(committed) <= set(everything)
    assert all(offset < outcomes.last_stable_offset for _, _, offset in committed)


def _check_offsets(replica: offsets.Replica) -> None:
    from tests.offsets.naive import naive_statuses, ranges_of, statuses_of

    ranges = ranges_of(replica)
    if replica.bounds.end_offset <= _MOST_OFFSETS:
        expected, sound = naive_statuses(replica.partition)
        found = statuses_of(ranges)
        assert set(found) == set(range(replica.bounds.end_offset))
        if sound:
            assert {offset: one for offset, one in found.items() if offset < replica.bounds.log_end_offset} == expected


def _tiers() -> Iterator[bytes]:
    """Each file of the tiers as it is, and without it."""
    for number, (_, files) in enumerate(_copies()):
        tier = bytes([number])
        yield inputs.joined([tier])
        for place, (_, content) in enumerate(files):
            yield inputs.joined([tier, bytes([place, 0]), content[:1500]])
            yield inputs.joined([tier, bytes([place, _ABSENT]), b""])


TARGETS = (
    FuzzTarget(
        name="tiers",
        reads="a replica and its tier (`LocalTieredStorage`, or objects of Aiven's plugin) with some files changed",
        holds="`OSError`, or bytes of the stated size; each offset has one status; consumers of read_committed get "
        "records below the last stable offset alone",
        check=check_tiers,
        seeds=_tiers,
        form=inputs.PARTS,
        longest=4096,
        words=(
            b'"chunkIndex":',
            b'"transformedChunks":',
            b'"encryption":',
            b"9223372036854775807",
            b"\xff" * 8,
            bytes(8),
        ),
    ),
)
