"""Harms to a copy: files that are missing, renamed or damaged."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tools.audit_faults.histories.true_cluster import DATA, METADATA, STATE

_UUID = "0123456789abcdef" * 2
#: Those that take nothing away: the copy is as good as without.
HARMLESS = ("nothing", "link")


def _folder(draw: random.Random, directories: list[Path], *topics: str) -> Path | None:
    """The folder of a partition; None where no directory has one."""
    found = [path for directory in directories for path in sorted(directory.glob("*-[0-9]"))]
    chosen = [path for path in found if path.name.rpartition("-")[0] in topics]
    return draw.choice(chosen) if chosen else None


_DATA_TOPICS = tuple(dict.fromkeys(topic for topic, _ in DATA))
_ALL = (*_DATA_TOPICS, STATE[0][0], METADATA[0])


def _missing(*topics: str) -> Callable[[random.Random, list[Path]], None]:
    """A partition's folder is missing."""

    def harm(draw: random.Random, directories: list[Path]) -> None:
        if (folder := _folder(draw, directories, *topics)) is not None:
            shutil.rmtree(folder)

    return harm


def _renamed(suffix: str) -> Callable[[random.Random, list[Path]], None]:
    """A partition's folder has the name of one that is moved, or removed."""

    def harm(draw: random.Random, directories: list[Path]) -> None:
        if (folder := _folder(draw, directories, *_DATA_TOPICS)) is not None:
            folder.rename(folder.with_name(f"{folder.name}.{_UUID}-{suffix}"))

    return harm


def _segment(draw: random.Random, directories: list[Path]) -> Path | None:
    folder = _folder(draw, directories, *_ALL)
    segments = [] if folder is None else [path for path in sorted(folder.glob("*.log")) if path.stat().st_size]
    return draw.choice(segments) if segments else None


def _swap(draw: random.Random, directories: list[Path]) -> None:
    """A segment has the name that it has while compaction replaces it."""
    if (segment := _segment(draw, directories)) is not None:
        segment.rename(f"{segment}.swap")


def _link(draw: random.Random, directories: list[Path]) -> None:
    """A partition's folder is a symbolic link."""
    if (folder := _folder(draw, directories, *_ALL)) is not None:
        there = folder.parents[2] / f"linked-{folder.parents[1].name}" / folder.name
        there.parent.mkdir(exist_ok=True)
        folder.rename(there)
        folder.symlink_to(there, target_is_directory=True)


def _changed(change: Callable[[random.Random, bytearray], bytes]) -> Callable[[random.Random, list[Path]], None]:
    """The bytes of a segment are changed."""

    def harm(draw: random.Random, directories: list[Path]) -> None:
        if (segment := _segment(draw, directories)) is not None:
            segment.write_bytes(change(draw, bytearray(segment.read_bytes())))

    return harm


def _flipped(draw: random.Random, data: bytearray) -> bytes:
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def _zeroed(draw: random.Random, data: bytearray) -> bytes:
    kept = draw.randrange(len(data))
    return bytes(data[:kept]).ljust(len(data), b"\0")


def _cut(draw: random.Random, data: bytearray) -> bytes:
    return bytes(data[: draw.randrange(len(data))])


def _without(name: str) -> Callable[[random.Random, list[Path]], None]:
    """A file beside the partitions is missing."""

    def harm(draw: random.Random, directories: list[Path]) -> None:
        (draw.choice(directories) / name).unlink()

    return harm


#: By name.
HARMS: dict[str, Callable[[random.Random, list[Path]], None]] = {
    "nothing": lambda draw, directories: None,
    "link": _link,
    "missing data": _missing(*_DATA_TOPICS),
    "missing ids": _missing(STATE[0][0]),
    "missing metadata": _missing(METADATA[0]),
    "missing checkpoint": _without("replication-offset-checkpoint"),
    "swap": _swap,
    "future": _renamed("future"),
    "stray": _renamed("stray"),
    "flipped": _changed(_flipped),
    "zeroed": _changed(_zeroed),
    "cut": _changed(_cut),
}
